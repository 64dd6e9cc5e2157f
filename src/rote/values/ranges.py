"""Ranges of ids in code point order."""


def prefix_end(prefix: str) -> str | None:
    """Return the first text above all texts that start with `prefix`, None when there is none."""
    for length in range(len(prefix), 0, -1):
        code = ord(prefix[length - 1])
        if code < 0x10FFFF:
            # Surrogates are no characters: the successor of U+D7FF is U+E000.
            return prefix[: length - 1] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def above(id: str) -> str:
    """Return the first text above `id`."""
    return id + "\0"


IdRange = tuple[str, str, str | None]  # branch, first id, the id it ends before


def holds_ids(range: IdRange) -> bool:
    """Whether any id can be in a range; who scans from above a prefix has read nothing."""
    _, start, end = range
    return end is None or start < end
