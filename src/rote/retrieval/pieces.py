"""The hash of content that is read piece by piece: a hash of the hashes of its pieces."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from types import TracebackType

# Hashing releases the interpreter lock, so it runs beside everything else.
_THREADS = 2
# Hashing less than this takes less time than handing it to a thread.
_HANDED_OVER_BYTES_MIN = 1 << 16


class PieceHash:
    """Takes pieces in order, and never falls far behind its caller."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS)
        self._hashes: list[bytes | Future[bytes]] = []

    def __enter__(self) -> "PieceHash":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._threads.shutdown()

    def add(self, piece: bytes) -> None:
        if len(piece) < _HANDED_OVER_BYTES_MIN:
            self._hashes.append(hash_of(piece))
            return
        self._hashes.append(self._threads.submit(hash_of, piece))
        if len(self._hashes) > _THREADS:
            _made(self._hashes[-1 - _THREADS])

    def digest(self) -> bytes:
        return hash_of(b"".join(map(_made, self._hashes)))


def hash_pieces(read: Callable[[int], bytes], starts: Sequence[int]) -> bytes:
    """Return the same hash for pieces that can be read in any order."""

    def hash_some(first: int) -> list[bytes]:
        return [hash_of(read(start)) for start in starts[first::_THREADS]]

    hashes = [b""] * len(starts)
    with ThreadPoolExecutor(_THREADS) as threads:
        for first, some in enumerate(threads.map(hash_some, range(min(_THREADS, len(starts))))):
            hashes[first::_THREADS] = some
    return hash_of(b"".join(hashes))


def hash_of(data: bytes) -> bytes:
    return sha256(data).digest()


def _made(hash: "bytes | Future[bytes]") -> bytes:
    return hash if isinstance(hash, bytes) else hash.result()
