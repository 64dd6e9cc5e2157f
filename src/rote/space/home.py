"""The home of a space: what layers above have to know of its store, and no command tells."""

from pathlib import Path

from msgspec import Struct

from rote.contract import IdSource


class Home(Struct, frozen=True):
    """Facts about a store that are known where it was opened."""

    ids: IdSource | None = None  # its randomness; None where it has none that can be asked
    file: Path | None = None  # of a store that is one file
