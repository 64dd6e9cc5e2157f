"""Calls that need paths or private keys of this machine, and so are not commands of the port."""

from pathlib import Path
from typing import Protocol

from rote.contract.requests import SpaceInfo


class Local(Protocol):
    """A store whose files and keys are on this machine."""

    def backup(self, path: Path) -> None:
        """Write everything, as of now, to a new SQLite file."""
        ...

    def seed(self, space: str) -> bytes:
        """Return the private key of a space; Denied where it is not at hand."""
        ...

    def adopt(self, did: str, name: str, seed: bytes) -> SpaceInfo:
        """Find or make the space of a did that another store has made, and keep its private key."""
        ...
