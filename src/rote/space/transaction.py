"""A transaction: reads from one version, buffered writes, one commit at the end.

Reads are noted, so the commit fails with Conflict if what was read has changed meanwhile. They see the
transaction's own writes. The work is done by its port; this is the face of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rote.contract import Commit, State
from rote.space.transaction_port import TransactionPort
from rote.values import Json, check_entity_id

if TYPE_CHECKING:
    from rote.space.space import Space


class Transaction:
    """Reads and writes in a `with` block; an exception inside discards the writes."""

    def __init__(
        self, port: TransactionPort, space: "Space", *, key: str | None, meta: Json
    ) -> None:
        """space  a space on that port, which Memory takes"""
        self._port = port
        self.space = space
        self._key = key
        self._meta = meta
        self.commit: Commit | None = None  # set at the end; None when there was nothing to write

    @property
    def version(self) -> int:
        """The version that everything is read from."""
        version = self._port.view.version
        assert version is not None
        return version

    # -- reading -----------------------------------------------------------------------------------

    def get(self, id: str, default: Json = None) -> Json:
        return self.space.get(id, default)

    def read(self, id: str) -> State:
        """Return an entity with this transaction's own writes applied; with those it has version 0."""
        return self.space.read(id)

    def scan(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[State]:
        """Yield existing entities in id order, own writes included."""
        self._port.check_not_ended()
        return self.space.scan(prefix, after=after, limit=limit)

    # -- writing -----------------------------------------------------------------------------------

    def set(self, id: str, value: Json) -> None:
        self._keep({"op": "set", "id": id, "value": value})

    def patch(self, id: str, ops: Sequence[Mapping[str, Any]]) -> None:
        self._keep({"op": "patch", "id": id, "ops": ops})

    def delete(self, id: str) -> None:
        self._keep({"op": "delete", "id": id})

    def _keep(self, operation: dict[str, Any]) -> None:
        self._port.check_open()
        check_entity_id(operation["id"])
        self._port.buffer.keep(operation)

    # -- its block ---------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._port.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._port.end()
        if error is None:
            self.commit = self._port.commit(self.space.did, key=self._key, meta=self._meta)
