"""The processes of the tests of blobs: `python -m tests.faults.blob_children <what> <url> …`."""

import itertools
import os
import resource
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from types import ModuleType
from typing import Any

import rote
from rote.errors import Conflict, NotFound
from rote.kernel.blobs import blob_data
from rote.space import blobs
from tests.faults.children import NAME, replace, say, wait_for_the_others

PIECE_BYTES, CHUNK_BYTES = 4_096, 1_500
SECONDS_LATER = 7_200


class Later:
    """The system's clock, two hours ahead."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=SECONDS_LATER)


def in_small_pieces(replace: Callable[[ModuleType, str, Any], None] = replace) -> None:
    """Shrink the chunks, so that a small blob takes many transactions, in and out."""
    for module in (blob_data, blobs):
        replace(module, "BLOB_PIECE_BYTES", PIECE_BYTES)
    replace(blob_data, "BLOB_CHUNK_BYTES", CHUNK_BYTES)
    replace(blob_data, "BLOB_DROP_BYTES", PIECE_BYTES)


def data_of(number: int) -> bytes:
    return Random(number).randbytes(3 * PIECE_BYTES - number % 100)


class Stream:
    """Bytes that are made as they are read."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._block = os.urandom(1 << 16)

    def read(self, size: int, /) -> bytes:
        size = min(size, self._left, len(self._block))
        self._left -= size
        return self._block[:size]


def meta(hash: str) -> str:
    return f"urn:blob-meta:{hash}"


# -- killed ----------------------------------------------------------------------------------------


def put_for_ever(url: str, seed: str) -> None:
    """Put blobs for ever; each line of output is the number of a blob that was put."""
    in_small_pieces()
    space = rote.open(url).space(NAME)
    for number in itertools.count(int(seed) * 1_000):
        data = data_of(number)
        assert space.put_blob(data if number % 2 else Bytes(data)) == sha256(data).hexdigest()
        say(number)


class Bytes:
    """A stream of bytes that gives a few at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def read(self, size: int, /) -> bytes:
        part = bytes(self._data[: min(size, 1_000)])
        self._data = self._data[len(part) :]
        return part


def die_at_transaction(store: rote.Store, number: int, when: str) -> None:
    """End this process as kill -9 would, before or after transaction `number`, counted from now."""
    ended = itertools.count(1)

    def dying(end: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any) -> None:
            is_last = next(ended) == number
            if is_last and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            end(*args)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)

        return run

    kernel: Any = store._port
    engine = kernel.spaces.wiring.engine
    engine.end = dying(engine.end)


def put_and_die(url: str, number: str, when: str) -> None:
    in_small_pieces()
    with rote.open(url) as store:
        space = store.space(NAME)
        die_at_transaction(store, int(number), when)
        space.put_blob(Bytes(data_of(int(number))))


def collect_and_die(url: str, number: str, when: str) -> None:
    in_small_pieces()
    with rote.open(url, clock=Later()) as store:
        space = store.space(NAME)
        die_at_transaction(store, int(number), when)
        space.gc()


# -- at once ---------------------------------------------------------------------------------------


def race(url: str, who: str, rounds: str) -> None:
    """Put what others put, refer to some of it, delete descriptions, and collect, all at once."""
    in_small_pieces()
    random = Random(who)
    with rote.open(url) as store:
        space = store.space(NAME)
        wait_for_the_others()
        for number in range(int(rounds)):
            data = data_of(number // 2)
            hash = space.put_blob(data if random.randrange(2) else Bytes(data))
            if number % 3 == 0 and refer(space, f"urn:entity:{who}:{number}", hash):
                say(hash)
            check_described(space, hash)
            if space.read(meta(hash)).exists:
                _delete(space, meta(hash))
            space.gc(grace_seconds=0)


def refer(space: rote.Space, id: str, hash: str) -> bool:
    """Refer to a blob, if it is described then; from there on it must stay."""
    state = space.read(meta(hash))
    if not state.exists:
        return False
    operation = {"op": "set", "id": id, "value": {"$blob": hash}}
    try:
        space.transact([operation], reads=[{"id": state.id, "version": state.version}])
    except Conflict:
        return False
    return True


def _delete(space: rote.Space, id: str) -> None:
    try:
        space.delete(id)
    except NotFound:
        pass  # another process did


def check_described(space: rote.Space, hash: str) -> None:
    """Check that a blob has its data as long as it is described."""
    state = space.read(meta(hash))
    try:
        assert sha256(space.blob(hash)).hexdigest() == hash
    except NotFound:
        now = space.read(meta(hash))
        assert not (state.exists and now == state), f"{hash} is described and not there"


# -- in little memory ------------------------------------------------------------------------------


def measure(url: str, size: str) -> None:
    """Print the bytes of memory taken beyond those for a small blob: to put, and to read."""
    with rote.open(url) as store:
        space = store.space(NAME)
        small = space.put_blob(Stream(1 << 20))
        assert len(space.blob(small)) == 1 << 20
        before = _peak_bytes()
        hash = space.put_blob(Stream(int(size)))
        say(_peak_bytes() - before)
        hasher, read = sha256(), 0
        with space.open_blob(hash) as file:
            while data := file.read(1 << 16):
                hasher.update(data)
                read += len(data)
        assert (hasher.hexdigest(), read) == (hash, int(size))
        say(_peak_bytes() - before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    children = (put_for_ever, put_and_die, collect_and_die, race, measure)
    {child.__name__: child for child in children}[sys.argv[1]](*sys.argv[2:])
