"""Making commits: from a call to a layer over the view.

rehearse      what cannot apply raises
name          the own layers that its reads have seen; Conflict for what is overtaken already
keep          in the journal, where there is one
lay           over the view; from then on it is sent
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rote.contract.operations import check_size, parse_operations
from rote.contract.reads import parse_reads
from rote.contract.sync import Transact
from rote.errors import Conflict, DependencyRejected, LimitExceeded, ReadConflict, RoteError
from rote.sessions.layers import Layer
from rote.sessions.pending import Fate, Maker, Pending
from rote.sessions.replica import Replica
from rote.sessions.views import ViewPort
from rote.space.arguments import check_list
from rote.space.buffer import Buffer
from rote.space.transaction_port import TransactionPort
from rote.values import Json, canonical, check_key, decode_canonical
from rote.values.limits import COMMIT_BYTES_MAX, KIB, MIB

# What a server takes in one message, but for the names around it.
_SENT_BYTES_MAX = COMMIT_BYTES_MAX + MIB - 64 * KIB


class Making:
    """Makes the commits of one session, one after the other. Any thread may ask."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self._writing = threading.RLock()  # held by who makes a commit

    def transact(
        self,
        branch: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        reads: Sequence[Mapping[str, Any]] | None,
        key: str | None,
        meta: Json,
    ) -> Pending:
        """Lay a commit over the view; raise what cannot apply there."""
        check_list(operations, "operations")
        relied_on = () if reads is None else reads
        check_list(relied_on, "reads")
        replica = self.replica
        replica.check_process()
        with self._writing:
            with replica.changed:
                view = replica.view(branch)
                replica.making = view.version
            try:
                return self._make(view, view, operations, relied_on, key=key, meta=meta).pending
            finally:
                replica.making = None

    def commit(
        self,
        port: TransactionPort,
        view: ViewPort,
        *,
        key: str | None,
        meta: Json,
        maker: Maker | None = None,
        again: Fate | None = None,
    ) -> Fate | None:
        """Lay what a transaction has kept back over the view; None when there is nothing.

        view   that the transaction has seen
        maker  who makes it again
        again  the fate that this commit has from now on; None: a new one
        """
        replica = self.replica
        replica.check_process()
        operations = port.buffer.operations
        if not operations:
            return None
        with self._writing:
            now = replica.view(view.branch)
            return self._make(
                now, view, operations, port.reads(), key=key, meta=meta, maker=maker, again=again
            )

    def _make(
        self,
        now: ViewPort,
        seen: ViewPort,
        operations: Sequence[Mapping[str, Any]],
        reads: Sequence[Mapping[str, Any]],
        *,
        key: str | None,
        meta: Json,
        maker: Maker | None = None,
        again: Fate | None = None,
    ) -> Fate:
        replica = self.replica
        if key is not None:
            check_key(key)
        buffer = Buffer(
            now, replica.space, now.view, now=lambda: now.now().now,
            note=lambda id, path: None, below=now.own,
        )  # fmt: skip
        buffer.add(operations)
        told = None if meta is None else canonical(meta)
        kept = None if told is None else decode_canonical(told)  # the caller may change its own
        check_size(parse_operations(buffer.operations), told)
        named = self._named(now, seen, reads)
        names = sorted({local for read in named for local in read.get("layers", ())})
        sent = Transact(
            replica.stack.made + 1, seen.version, buffer.operations, seen.branch, named, key, kept
        )
        ids = frozenset([each["id"] for each in buffer.operations])
        size = buffer.size_bytes + len(told or b"") + sum([len(canonical(read)) for read in named])
        _check_sent_size(size)
        layer = Layer(sent, now.now().now, size, ids, tuple(names))
        with replica.changed:
            self._check_layer(layer, seen)
        if replica.journal is not None:
            replica.journal.add(layer)
        return self._lay(layer, seen, maker, again)

    def _check_layer(self, layer: Layer, seen: ViewPort) -> None:
        """Raise when a commit cannot be laid over the view any more."""
        replica = self.replica
        replica.check_not_ended()
        for local in layer.names:
            named = seen.fold.layer(local)
            if named is not None and named.is_dead:
                raise DependencyRejected(local)
        replica.stack.check_room(layer.size_bytes, replica.basis())

    def _lay(self, layer: Layer, seen: ViewPort, maker: Maker | None, again: Fate | None) -> Fate:
        """Lay a commit over the view, once it is kept."""
        replica = self.replica
        with replica.changed:
            error: RoteError | None = None
            try:
                self._check_layer(layer, seen)  # once more, because to keep it takes a while
            except RoteError as failed:
                if self._is_forgotten(layer):
                    raise
                error = failed
            fate = again
            if fate is None:
                fate = replica.new_fate(layer, maker)
            else:
                fate.layer = layer
            if error is None:
                replica.stack.push(fate)
            else:
                fate.lose(error)
            replica.changed.notify_all()
            return fate

    def _is_forgotten(self, layer: Layer) -> bool:
        """Take back that a commit is kept, which cannot be laid over the view; return False when the session
        has ended and its journal keeps it: who opens that again sends it."""
        replica = self.replica
        if replica.journal is None:
            return True
        try:
            replica.journal.remove(layer.local)
        except RoteError:
            if replica.state != "ended":
                raise
            return False
        return True

    def _named(
        self, now: ViewPort, seen: ViewPort, reads: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return reads with the layers that they have seen; Conflict when one is not true any more."""
        replica = self.replica
        parse_reads(list(reads), seen.branch)
        named: list[dict[str, Any]] = []
        conflicts: list[ReadConflict] = []
        for read in reads:
            branch = read.get("branch", seen.branch)
            is_here = branch == seen.branch
            own = [
                each.local for each in (seen if is_here else replica.view(branch)).overlapping(read)
            ]
            told: Any = decode_canonical(canonical(dict(read)))
            if own:
                told["layers"] = own
            if own and is_here and read["version"] == 0 and "id" in read:
                # What a layer wrote reads with version 0: it is the view that was seen.
                told["version"] = seen.version
            named.append(told)
            is_overtaken = is_here and now.overlapping(read, seen.until) != []
            conflict = self._conflict(told, branch, seen.until, is_overtaken=is_overtaken)
            if conflict is not None:
                conflicts.append(conflict)
        if conflicts:
            raise Conflict(tuple(conflicts))
        return named

    def _conflict(
        self, read: Mapping[str, Any], branch: str, until: int, *, is_overtaken: bool
    ) -> ReadConflict | None:
        """Return the conflict of a read with what is known to have been written since.

        until         the last own commit that the reader has seen
        is_overtaken  whether a later one has written what it read
        """
        replica = self.replica
        if is_overtaken:
            return ReadConflict(
                read.get("id"), read.get("prefix"), read.get("from"), read.get("to"), branch,
                expected_version=read["version"], actual_version=0, actual_hash=None,
            )  # fmt: skip
        with replica.changed:
            return replica.moves.conflict(read, branch, until)


def _check_sent_size(size_bytes: int) -> None:
    if size_bytes > _SENT_BYTES_MAX:
        raise LimitExceeded(
            "the commit in bytes, with its reads",
            size=size_bytes,
            limit=_SENT_BYTES_MAX,
            advice="split it, or read less in one transaction",
        )
