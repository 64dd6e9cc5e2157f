"""The memory of a run: reading verbs show its snapshot, writing verbs go to its buffer.

What a writing verb says of versions and times is null, because only the commit will tell. What it says
about the record is so with the run's own earlier writes, which reading verbs do not show.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from rote.records.keys import check_kinds, entity_id
from rote.records.memory import Memory, Point, check_included
from rote.records.retention import expired_ids
from rote.records.writer import Result
from rote.runs.answers import list_ranges, namespace_ranges
from rote.runs.identities import deep_digest
from rote.runs.reads import ReadSet
from rote.runs.run_rows import NotedAnswer
from rote.space import Space
from rote.space.buffer import Buffer
from rote.values import Json, canonical, decode_canonical
from rote.values.ranges import IdRange
from rote.values.times import as_text


class RunMemory(Memory):
    """The verbs of the memory contract inside a run."""

    _is_sent = False

    def __init__(
        self,
        *,
        reading: Space,
        plain: Space,
        writing: Space,
        reads: ReadSet,
        buffer: Buffer,
        check_read: Callable[[], None],
        check_write: Callable[[], None],
        settings: Mapping[str, Any],
    ) -> None:
        """Read from one space and write to another.

        plain     the snapshot without a note of what is read, for questions that are noted whole
        settings  namespaces, profile and retention, as a memory takes them

        A verb that writes looks at the buffer first, so it holds the buffer's lock all along.
        """
        super().__init__(reading, **settings)
        self._reading = reading
        self._check_read = check_read
        self._check_write = check_write
        self._plain = Memory(plain, **settings)
        self._writing = writing
        self._turn = buffer.lock
        self._reads = reads

    # -- writing -----------------------------------------------------------------------------------

    def prune(self, namespace: str | None = None) -> Result:
        named = self._chosen(namespace)
        self._check_write()
        chosen = tuple(name for name in named if self._retention.prunes(name))
        expired = expired_ids(self._plain.space, chosen)
        call = {"name": "expired", "namespaces": list(chosen)}
        self._note(call, expired, namespace_ranges(self.space.branch, chosen), expired)
        with self._turn:
            # What the run itself has put or appended to since lives again.
            looks = {id: self._look(id) for id in expired}
            gone = [id for id, (seen, life) in looks.items() if seen.exists and life is None]
            if gone:
                self._writing.transact(
                    [{"op": "delete", "id": id} for id in gone], reads=[{"id": id} for id in gone]
                )
        return {"ok": True, "pruned": len(gone)}

    # -- reading -----------------------------------------------------------------------------------

    def list(
        self,
        namespace: str,
        kind: str | None = None,
        id_prefix: str | None = None,
        updated_since: str | datetime | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        at: Point | None = None,
        include: Iterable[str] = (),
        order: str = "id",
        descending: bool = False,
    ) -> Result:
        if type(filters) is dict:
            filters = {name: as_text(value) for name, value in filters.items()}
        arguments: dict[str, Any] = {
            "namespace": namespace,
            "kind": kind,
            "id_prefix": id_prefix,
            "updated_since": as_text(updated_since),
            "filters": filters,
            "include": check_included(include),
            # Not noted where they are left out: rows of earlier days do not name them.
            **({} if order == "id" else {"order": order}),
            **({} if descending is False else {"descending": descending}),
        }
        self._check_read()
        # What was there before the snapshot is history; the snapshot by another name is not.
        is_snapshot = at is None or self._reading.at(at).version == self._reading.version
        result = self._plain.list(**arguments, at=None if is_snapshot else at)
        if is_snapshot:
            asked: Any = decode_canonical(canonical(arguments))
            shown = [
                entity_id(namespace, item["record_kind"], item["record_id"])
                for item in result["items"]
            ]
            ranges = list_ranges(self.space.branch, namespace, kind)
            self._note({**self._settings("list"), "arguments": asked}, result, ranges, shown)
        return result

    def stats(self) -> Result:
        self._check_read()
        result = self._plain.stats()
        self._note(self._settings("stats"), result, self._all_ranges())
        return result

    def retention_report(
        self,
        expire_soon_seconds: int = 86_400,
        namespace: str | None = None,
        kinds: Iterable[str] | None = None,
    ) -> Result:
        self._check_read()
        wanted = check_kinds(kinds)
        given = {"namespace": namespace, "kinds": [*wanted] or None}
        arguments: dict[str, Any] = {
            "expire_soon_seconds": expire_soon_seconds,
            **{name: value for name, value in given.items() if value is not None},
        }
        result = self._plain.retention_report(**arguments)
        ranges = namespace_ranges(self.space.branch, self._chosen(namespace), wanted)
        self._note({**self._settings("retention_report"), **arguments}, result, ranges)
        return result

    def _settings(self, name: str) -> dict[str, Any]:
        return {"name": name, "namespaces": list(self.namespaces), "profile": self.profile}

    def _all_ranges(self) -> "Ranges":
        return namespace_ranges(self.space.branch, self.namespaces)

    def _note(
        self, call: dict[str, Any], answer: Json, ranges: "Ranges", shown: Iterable[str] = ()
    ) -> None:
        self._reads.add_answer(NotedAnswer(call, deep_digest(answer), ranges), shown)


# Not spelled out above: in a class with a verb `list`, that name is the verb.
Ranges = list[IdRange]
