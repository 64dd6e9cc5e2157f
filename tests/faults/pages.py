"""The checksums of the pages of a store's file, computed apart from SQLite."""

from pathlib import Path

from rote.cli.demo.tampering import PAGE_BYTES, page_checksum


def wrong_pages(path: Path) -> list[int]:
    """Return the numbers of the pages of a closed file that do not fit their checksums."""
    content = path.read_bytes()
    assert content and len(content) % PAGE_BYTES == 0
    pages = [content[place : place + PAGE_BYTES] for place in range(0, len(content), PAGE_BYTES)]
    return [number for number, page in enumerate(pages, 1) if page_checksum(page) != page[-8:]]
