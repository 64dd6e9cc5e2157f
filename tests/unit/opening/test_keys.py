"""Files of private keys."""

from pathlib import Path

import pytest

import rote
from rote.errors import Corrupt


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"not hexadecimal\n", b"abcd\n"])
def test_a_file_that_holds_no_key_is_corrupt(store_path: Path, data: bytes) -> None:
    """Bytes that are not text gave an error of Python's."""
    with rote.open(store_path) as store:
        space = store.space("notes")
        file = store_path.with_name(f"{store_path.name}.keys") / space.did
        file.write_bytes(data)
        with pytest.raises(Corrupt, match="does not hold a key"):
            space.checkpoint()
