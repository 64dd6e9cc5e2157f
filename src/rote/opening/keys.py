"""Key rings: private keys of spaces in files that only their owner may read, or in memory.

Frozen: the name and the content of a key file.
"""

import os
import threading
from pathlib import Path

from rote.errors import Corrupt, InvalidInput, Unavailable, system_failure
from rote.values import Identity


class FolderKeys:
    """One file for each key, named by the did; the folder is made with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = str(folder)

    def save(self, did: str, seed: bytes) -> None:
        """Write a key; the file and its name are durable when this returns.

        It gets its name when it is whole: others may be saving the same key, and must not lose it
        when this fails.
        """
        unfinished = self._folder / f"{did}.{os.getpid()}-{threading.get_ident()}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with open(unfinished, "wb", opener=_private) as file:
                    file.write(seed.hex().encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.replace(self._folder / did)
            finally:
                unfinished.unlink(missing_ok=True)
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
            # With those that a killed process has left unfinished.
            for path in (self._folder / did, *self._folder.glob(f"{did}.*")):
                path.unlink(missing_ok=True)
            self._sync_names()
        except OSError as error:
            raise Unavailable(f"cannot remove {self._folder / did}: {error.strerror}") from error

    def _sync_names(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


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
