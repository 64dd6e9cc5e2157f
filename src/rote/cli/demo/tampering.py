"""Changes of stored bytes behind the store's back, in a file that nobody has open.

Who changes a page can compute its checksum anew (docs/formats/sqlite.md). So checksums find what a
bad disk does, and hashes find what people do.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

PAGE_BYTES = 4_096
CHECKSUM_BYTES = 8
_RESERVED = 20  # where the header says how many bytes at the end of each page are reserved
_WORDS = struct.Struct(f"<{(PAGE_BYTES - CHECKSUM_BYTES) // 4}I")


def places_of(path: Path, text: bytes) -> Iterator[int]:
    """Return the places of `text` in a file. Pages keep remnants of moved rows, so one is in use."""
    return (found.start() for found in re.finditer(re.escape(text), path.read_bytes()))


def change_byte(path: Path, place: int, byte: bytes) -> bytes:
    """Put one byte into the file, and the checksum of its page; return the byte that was there."""
    start = place - place % PAGE_BYTES
    with path.open("r+b") as file:
        has_checksums = file.read(_RESERVED + 1)[_RESERVED] == CHECKSUM_BYTES
        file.seek(start)
        page = bytearray(file.read(PAGE_BYTES))
        before = bytes(page[place - start : place - start + 1])
        page[place - start : place - start + 1] = byte
        if has_checksums:
            page[-CHECKSUM_BYTES:] = page_checksum(page)
        file.seek(start)
        file.write(page)
    return before


def page_checksum(page: bytes | bytearray) -> bytes:
    """Return the 8 bytes that belong at the end of a page."""
    first = second = 0
    words = iter(_WORDS.unpack_from(page))
    for word in words:
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + next(words) + first) & 0xFFFFFFFF
    return struct.pack("<II", first, second)
