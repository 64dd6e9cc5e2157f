"""Key rings: private keys of spaces in files that only their owner may read, or in memory.

Frozen: the name and the content of a key file.
"""

import os
from pathlib import Path

from rote.errors import Corrupt, InvalidInput, Unavailable, system_failure
from rote.values import Identity


class FolderKeys:
    """One file for each key, named by the did; the folder is made with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = str(folder)

    def save(self, did: str, seed: bytes) -> None:
        """Write a key; the file and its name are durable when this returns."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._folder / did, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            try:
                os.write(file, seed.hex().encode() + b"\n")
                os.fsync(file)
            except OSError:
                (self._folder / did).unlink(missing_ok=True)
                raise
            finally:
                os.close(file)
            self._sync_names()
        except OSError as error:
            what = f"cannot keep a key in {self._folder}"
            raise system_failure(what, error, self._folder) from error

    def load(self, did: str) -> Identity | None:
        try:
            data = (self._folder / did).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"cannot read {self._folder / did}: {error.strerror}") from error
        try:
            identity = Identity.from_seed(bytes.fromhex(data.decode().strip()))
        except (ValueError, InvalidInput):
            raise Corrupt(f"{self._folder / did} does not hold a key") from None
        if identity.did != did:
            raise Corrupt(f"{self._folder / did} holds the key of another space")
        return identity

    def discard(self, did: str) -> None:
        try:
            (self._folder / did).unlink(missing_ok=True)
            self._sync_names()
        except OSError as error:
            raise Unavailable(f"cannot remove {self._folder / did}: {error.strerror}") from error

    def _sync_names(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class MemoryKeys:
    """Keys of stores in memory."""

    place = "this process"

    def __init__(self) -> None:
        self._seeds: dict[str, bytes] = {}

    def save(self, did: str, seed: bytes) -> None:
        self._seeds[did] = seed

    def load(self, did: str) -> Identity | None:
        seed = self._seeds.get(did)
        return None if seed is None else Identity.from_seed(seed)

    def discard(self, did: str) -> None:
        self._seeds.pop(did, None)
