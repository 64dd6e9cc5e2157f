"""Paths in a sandbox: names between slashes, judged by their text alone."""

from unicodedata import category, is_normalized

from rote.errors import Denied, InvalidInput
from rote.values.limits import FILE_NAME_BYTES_MAX
from rote.values.tier_limits import FS_PATH_BYTES_MAX, FS_SEGMENTS_MAX

# The name of a file that is being written, in its folder. No path may name it.
DRAFT = ".rote.draft"

_CONTROL = "Cc"  # Unicode's general category


def segments_of(path: str) -> tuple[str, ...]:
    """Return the names of a path; none for the root, which is `/`.

    Raises Denied (outside_sandbox) for a path with `..`, and InvalidInput (bad_path) for one that
    is malformed.
    """
    _check_characters(path)
    names = path.removeprefix("/").split("/")
    if ".." in names:
        raise Denied(
            f"{path!r:.80} has a step '..'; name a path below the sandbox", code="outside_sandbox"
        )
    if names == [""]:
        return ()
    for name in names:
        _check_name(path, name)
    if len(names) > FS_SEGMENTS_MAX:
        raise bad_path(path, f"it has more than {FS_SEGMENTS_MAX} names")
    return tuple(names)


def extension_of(name: str) -> str:
    """Return the part from the last dot; nothing for a name without one, and for a dotfile."""
    dot = name.rfind(".")
    return "" if dot < 0 or name.startswith(".") else name[dot:]


def bad_path(path: str, reason: str) -> InvalidInput:
    return InvalidInput(f"{path!r:.80} is no path in a sandbox: {reason}", code="bad_path")


def _check_characters(path: str) -> None:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise bad_path(path, "it holds a lone surrogate") from None
    if size > FS_PATH_BYTES_MAX:
        raise bad_path(path, f"it has more than {FS_PATH_BYTES_MAX:,} bytes of UTF-8")
    if "\\" in path:
        raise bad_path(path, "it holds a backslash; put / between names")
    if any(category(character) == _CONTROL for character in path):
        raise bad_path(path, "it holds a control character")
    if not is_normalized("NFC", path):
        raise bad_path(path, "it is not in Unicode's normal form NFC")


def _check_name(path: str, name: str) -> None:
    if name in ("", "."):
        raise bad_path(path, "a name in it is empty or '.'")
    if len(name.encode()) > FILE_NAME_BYTES_MAX:
        raise bad_path(path, f"a name in it has more than {FILE_NAME_BYTES_MAX} bytes")
    if name == DRAFT:
        raise bad_path(path, f"{DRAFT} is the name of files that are being written")
