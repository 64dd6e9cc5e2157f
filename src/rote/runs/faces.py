"""A run's space, as it reads it and as it writes to it, or as it is. All are spaces, so that everything
that is written against one works in a run too."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

from rote.contract import (
    BlobInfo,
    Branch,
    Change,
    Commit,
    Fact,
    GcReport,
    Glance,
    Head,
    Hit,
    Port,
    SpaceInfo,
    State,
    VerifyReport,
)
from rote.contract.runs import AnswerRead
from rote.errors import InvalidInput
from rote.patch import find, parse_pointer
from rote.records.keys import PREFIX
from rote.runs.answers import query_digest, query_ranges
from rote.runs.buffer import Buffer
from rote.runs.reads import NotedScan, ReadSet
from rote.space import Space
from rote.values import Json, canonical, decode_canonical
from rote.values.blobs import META_PREFIX
from rote.values.ranges import above, prefix_end

Check = Callable[[], None]


class PastSpace(Space):
    """A state that a run may see, its snapshot or an older one: nothing leads from it to what came
    after the snapshot."""

    def __init__(
        self,
        port: Port,
        info: SpaceInfo,
        *,
        branch: str,
        pinned: Head,
        newest: int,
        note: Callable[[], None],
    ) -> None:
        """newest  the version of the snapshot
        note    called when all of the snapshot is read"""
        super().__init__(port, info, turns=threading.RLock(), branch=branch, pinned=pinned)
        self._newest = newest
        self._note = note

    def log(self, *, since: int | None = None, limit: int | None = None) -> Iterator[Commit]:
        commits = super().log(since=since, limit=limit)
        return takewhile(lambda commit: commit.version <= self._newest, commits)

    def diff(self, other: str | int | Space) -> list[Change]:
        if type(other) is int and other > self._newest:
            raise InvalidInput(
                f"version {other} came after the snapshot of this run, which is {self._newest}"
            )
        changes = super().diff(other)
        if type(other) is not str and (type(other) is not int or other == self._newest):
            self._note()
        return changes

    # What tends the store is no part of a run: it would see, or touch, what came after the snapshot.

    def gc(self, **_: Any) -> GcReport:
        raise _outside("gc")

    def reindex(self, **_: Any) -> None:
        raise _outside("reindex")

    def verify(self, **_: Any) -> VerifyReport:
        raise _outside("verify")

    def checkpoint(self) -> dict[str, Any]:
        raise _outside("checkpoint")

    def _view_of(self, branch: str, pinned: Head | None) -> Space:
        assert pinned is not None
        return PastSpace(
            self._port, self._info, branch=branch, pinned=pinned, newest=self._newest,
            note=self._note,
        )  # fmt: skip


class ReadingSpace(PastSpace):
    """The snapshot of a run; what is read of it is noted."""

    def __init__(
        self, port: Port, info: SpaceInfo, *, branch: str, snapshot: Head, until: int,
        reads: ReadSet, check: Check,
    ) -> None:  # fmt: skip
        """until  the newest version at which the branch is still as the snapshot has it
        check  raises when the run may not read, or not any more"""
        super().__init__(
            port, info, branch=branch, pinned=snapshot, newest=snapshot.version,
            note=lambda: reads.add_range("", None),
        )  # fmt: skip
        self._until = until
        self._reads = reads
        self.check = check

    # -- single entities ---------------------------------------------------------------------------

    def get(self, id: str, default: Json = None) -> Json:
        state = self.read(id)
        return state.value if state.exists else default

    def read(self, id: str) -> State:
        self.check()
        state = super().read(id)
        self._reads.add_entity(id)
        return state

    def read_many(self, ids: Sequence[str]) -> list[State]:
        self.check()
        states = super().read_many(ids)
        for state in states:
            self._reads.add_entity(state.id)
        return states

    def glance(
        self,
        id: str,
        *,
        values: Sequence[str] = (),
        sizes: Sequence[str] = (),
        may_be_new: bool = False,
    ) -> Glance:
        self.check()
        seen = super().glance(id, values=values, sizes=sizes)
        for path in (*values, *sizes) or (None,):
            self._reads.add_entity(id, path)
        return seen

    def history(self, id: str, *, limit: int | None = None) -> list[Fact]:
        self.check()
        facts = super().history(id, limit=limit)
        self._reads.add_entity(id)
        return facts

    def facts(self, id: str) -> Iterator[Fact]:
        self.check()
        facts = super().facts(id)
        self._reads.add_entity(id)
        return facts

    def blob_info(self, hash: str) -> BlobInfo:
        self.check()
        info = super().blob_info(hash)
        self._reads.add_entity(META_PREFIX + hash)
        return info

    # -- many of them ------------------------------------------------------------------------------

    def scan(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[State]:
        self.check()
        states = super().scan(prefix, after=after, limit=limit)
        start = prefix if after is None else max(prefix, above(after))
        scan = NotedScan(self.branch, start)
        self._reads.add_answer(scan)
        return self._noted(states, scan, prefix_end(prefix), limit)

    def _noted(
        self, states: Iterator[State], scan: NotedScan, end: str | None, limit: int | None
    ) -> Iterator[State]:
        shown = 0
        for state in states:
            self.check()
            self._reads.add_shown(scan, state, above(state.id))
            shown += 1
            yield state
        if limit is None or shown < limit:
            scan.end = end

    def find(
        self,
        index: str,
        *,
        start: str = "",
        end: str | None = None,
        after: Hit | None = None,
        limit: int | None = None,
    ) -> Iterator[Hit]:
        self.check()
        # Terms are of records; which of them could come to be listed here nobody can tell.
        self._reads.add_range(PREFIX, prefix_end(PREFIX))
        return super().find(index, start=start, end=end, after=after, limit=limit)

    def query(self, query: Mapping[str, Any]) -> dict[str, Json]:
        self.check()
        answer = super().query(query)
        self._note_query("query", query, answer, answer["facts"])
        return answer

    def values(self, query: Mapping[str, Any]) -> dict[str, Json]:
        self.check()
        answer = super().values(query)
        # Values of linked entities stand inside those that link to them, without their ids.
        shown = super().query(query)["facts"] if self._reads.names_entities else ()
        self._note_query("values", query, answer, shown)
        return answer

    def _note_query(
        self, name: str, query: Mapping[str, Any], answer: dict[str, Json], shown: Any
    ) -> None:
        asked: Any = decode_canonical(canonical(dict(query)))
        call = {"name": name, "query": asked}
        ranges = query_ranges(self.branch, asked)
        self._reads.add_answer(AnswerRead(call, query_digest(answer), ranges), shown)

    def log(self, *, since: int | None = None, limit: int | None = None) -> Iterator[Commit]:
        self.check()
        self._note()
        return super().log(since=since, limit=limit)

    def diff(self, other: str | int | Space) -> list[Change]:
        self.check()
        if type(other) is str:
            self.on(other)
        changes = super().diff(other)
        self._note()
        return changes

    def branches(self) -> list[Branch]:
        self.check()
        return super().branches()

    # -- other views -------------------------------------------------------------------------------

    def at(self, point: int | datetime | str) -> Space:
        self.check()
        if self.version <= self._head_at(point).version <= self._until:
            return self
        return super().at(point)  # what was there before is history, which nobody changes

    def on(self, branch: str) -> Space:
        if branch != self.branch:
            raise InvalidInput(
                f"a run is on one branch, this one on {self.branch!r}; begin another on {branch!r}"
            )
        return self


class WritingSpace(Space):
    """What the verbs of a memory write to: the snapshot with the run's own operations applied, so
    that they can tell what a write does. Nothing that is read here is noted but what they name."""

    def __init__(
        self, port: Port, info: SpaceInfo, *, branch: str, snapshot: Head, buffer: Buffer,
        check: Check,
    ) -> None:  # fmt: skip
        """check  raises when the run may not write, or not any more"""
        super().__init__(port, info, turns=threading.RLock(), branch=branch, pinned=snapshot)
        self._buffer = buffer
        self.check = check

    def glance(
        self,
        id: str,
        *,
        values: Sequence[str] = (),
        sizes: Sequence[str] = (),
        may_be_new: bool = False,
    ) -> Glance:
        self.check()
        own = self._buffer.own(id)
        if own is None:
            return super().glance(id, values=values, sizes=sizes)
        value = own.state.value
        arrays = [find(value, parse_pointer(pointer)) for pointer in sizes]
        return Glance(
            own.state.exists,
            0,
            own.hash,
            tuple(
                [
                    decode_canonical(canonical(find(value, parse_pointer(pointer))))
                    for pointer in values
                ]
            ),
            tuple([len(array) if type(array) is list else None for array in arrays]),
        )

    def transact(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        reads: Sequence[Mapping[str, Any]] | None = None,
        key: str | None = None,
        meta: Json = None,
    ) -> Commit:
        self.check()
        if key is not None or meta is not None:
            raise InvalidInput("a run makes one commit, whose key is its own; leave key and meta")
        return self._buffer.add(operations, reads or ())


class LiveSpace(Space):
    """The space as it is, for as long as the run goes on."""

    def __init__(
        self, port: Port, info: SpaceInfo, *, branch: str, check_read: Check, check_write: Check
    ) -> None:
        """check_read, check_write  raise when the run may not do it, or not any more"""
        super().__init__(port, info, turns=threading.RLock(), branch=branch)
        self.check_read = check_read
        self.check_write = check_write

    def read(self, id: str) -> State:
        self.check_read()
        return super().read(id)

    def glance(
        self,
        id: str,
        *,
        values: Sequence[str] = (),
        sizes: Sequence[str] = (),
        may_be_new: bool = False,
    ) -> Glance:
        self.check_read()
        return super().glance(id, values=values, sizes=sizes, may_be_new=may_be_new)

    def transact(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        reads: Sequence[Mapping[str, Any]] | None = None,
        key: str | None = None,
        meta: Json = None,
    ) -> Commit:
        self.check_write()
        return super().transact(operations, reads=reads, key=key, meta=meta)

    def at(self, point: int | datetime | str) -> Space:
        self.check_read()
        return super().at(point)

    def _check_writable(self) -> None:
        self.check_write()
        super()._check_writable()


def _outside(name: str) -> InvalidInput:
    return InvalidInput(f"a run does not tend its store; call {name}() on the space, outside of it")
