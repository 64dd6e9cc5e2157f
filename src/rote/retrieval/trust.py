"""The trust filter: it keeps out the memories that a snapshot names, and nothing else. It never guesses."""

from collections.abc import Iterable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from rote.errors import InvalidInput, NotFound, RoteError
from rote.questions import TrustFilter
from rote.retrieval.order import Column
from rote.retrieval.plain_files import is_missing, open_plain
from rote.values import decode
from rote.values.limits import TRUST_SNAPSHOT_BYTES_MAX

_CODE = "trust_snapshot_invalid"


class Rows(Protocol):
    """Memories as rows."""

    @property
    def ids(self) -> Column[str]: ...
    @property
    def hashes(self) -> Column[str]: ...

    def rows(self) -> Iterable[int]: ...


class Denials(Struct, frozen=True):
    """The memories that must not be in the answer."""

    ids: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()

    def rows(self, corpus: Rows) -> Sequence[int]:
        """Return the denied rows of a corpus, in the order of reading."""
        if not self.ids and not self.hashes:
            return ()
        ids, hashes = corpus.ids, corpus.hashes
        return [row for row in corpus.rows() if ids[row] in self.ids or hashes[row] in self.hashes]


NO_DENIALS = Denials()


def read_denials(filter: TrustFilter, root: Path) -> Denials:
    """Return the memories that the snapshot of a request denies."""
    if filter.trust_snapshot_path is None:
        return NO_DENIALS
    data = _read(root / filter.trust_snapshot_path, filter.trust_snapshot_path)
    try:
        snapshot = decode(data, size_bytes_max=TRUST_SNAPSHOT_BYTES_MAX)
    except RoteError:
        raise InvalidInput("the trust snapshot is not JSON", code=_CODE) from None
    if type(snapshot) is not dict or type(snapshot.get("classifications")) is not list:
        raise InvalidInput(
            'the trust snapshot must be an object with a list "classifications"', code=_CODE
        )
    denied = frozenset(filter.deny_classifications)
    entries = [_entry(entry, index) for index, entry in enumerate(snapshot["classifications"])]
    return Denials(
        ids=frozenset(id for id, _, kind in entries if id is not None and kind in denied),
        hashes=frozenset(hash for _, hash, kind in entries if hash is not None and kind in denied),
    )


def _read(path: Path, name: str) -> bytes:
    try:
        with BufferedReader(open_plain(path)) as file:
            return file.read(TRUST_SNAPSHOT_BYTES_MAX + 1)
    except OSError as error:
        if is_missing(error):
            raise NotFound(
                f"there is no trust snapshot {name!r}", code="trust_snapshot_not_found", path=name
            ) from None
        raise InvalidInput(
            f"the trust snapshot {name!r} cannot be read", code=_CODE, path=name
        ) from None


def _entry(entry: Any, index: int) -> tuple[str | None, str | None, str]:
    """Return memory id, record hash and classification; one of the first two may be missing."""
    found = entry if type(entry) is dict else {}
    id, hash, kind = (found.get(key) for key in ("memory_id", "record_hash", "classification"))
    is_named = type(id) is str or type(hash) is str
    is_typed = type(id) in (str, type(None)) and type(hash) in (str, type(None))
    if not is_named or not is_typed or type(kind) is not str:
        raise InvalidInput(
            f"classifications[{index}] of the trust snapshot must have a classification and a"
            " memory_id or a record_hash, all of them texts",
            code=_CODE,
            index=index,
        )
    return id, hash, kind
