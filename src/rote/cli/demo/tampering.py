"""Changing a stored byte behind the store's back."""

from pathlib import Path

from rote.errors import invariant


def change_bytes(path: Path, *, before: bytes, after: bytes) -> None:
    """Replace the only occurrence of `before` in a file that nobody has open."""
    data = path.read_bytes()
    invariant(len(before) == len(after), "the change would move what follows it")
    invariant(data.count(before) == 1, f"{before!r} is in the file {data.count(before)} times")
    path.write_bytes(data.replace(before, after))
