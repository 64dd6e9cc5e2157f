"""Reading the file of a key."""

from pathlib import Path

from rote.errors import InvalidInput, Unavailable
from rote.values.identity import SEED_BYTES


def seed_in(file: Path) -> bytes:
    """Return the seed in a file of a key; no error shows it."""
    try:
        text = file.read_text("ascii").strip()
    except OSError as error:
        raise Unavailable(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    if len(seed) != SEED_BYTES or len(text) != 2 * SEED_BYTES:
        raise InvalidInput(f"there is no key in {file}; rote key new FILE makes one")
    return seed
