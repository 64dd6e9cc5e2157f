"""The check: it looks for a serial order of the committed transactions that explains all they saw.

Four relations between transactions. In a serial order each of them points forward, so a cycle proves
that there is no such order (Adya, Weak Consistency, 1999):

    wr  one read what the other wrote               by the value, which is written once
    ww  one wrote over what the other wrote         by the versions of their commits
    rw  one read what the other then wrote over     by both
    rt  one had its answer before the other began   by the clients' clock: strict serialisability

The store's versions are not trusted either. Where they put writes into a wrong order, the values
that were read contradict them.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from rote.errors import InvalidInput
from rote.testing.serial.graph import Edges, knots, short_cycle
from rote.testing.serial.records import Read, Record, Scan, Write


class Anomaly(Struct, frozen=True):
    """One observation that no serial order explains."""

    kind: str
    message: str
    transactions: tuple[str, ...]  # client/number of those that took part

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def check(records: Iterable[Record]) -> tuple[Anomaly, ...]:
    """Return everything that shows that a history is not strictly serialisable; nothing when it is."""
    history = _History(records)
    history.check_steps()
    history.check_versions()
    history.check_lost_updates()
    history.check_cycles()
    return tuple(history.anomalies)


class _History:
    def __init__(self, records: Iterable[Record]) -> None:
        latest = {(record.client, record.number): record for record in records}
        self.records = [latest[place] for place in sorted(latest)]
        self.anomalies: list[Anomaly] = []
        self.involved: set[int] = set()  # those in an anomaly
        # (entity, value): the transaction that wrote it, and whether that was its last write to the entity.
        self.writers: dict[tuple[str, str], tuple[int, bool]] = {}
        for index, record in enumerate(self.records):
            self._note_writes(index, record)
        self.seen = [self._outside_reads(record) for record in self.records]
        self.counted = self._counted()
        self.orders = self._orders()
        self.places: dict[tuple[str, int | None], int] = {
            (id, index): place
            for id, order in self.orders.items()
            for place, index in enumerate(order)
        }

    def found(self, kind: str, message: str, indexes: Sequence[int]) -> None:
        self.involved.update(indexes)
        names = tuple(str(self.records[index]) for index in indexes)
        self.anomalies.append(Anomaly(kind, message, names))

    # -- what there is -----------------------------------------------------------------------------

    def _note_writes(self, index: int, record: Record) -> None:
        left = record.writes()
        for step in record.steps:
            if not isinstance(step, Write):
                continue
            if (step.id, step.value) in self.writers:
                raise InvalidInput(
                    f"{step.value!r} was written to {step.id} twice; record unique values"
                )
            self.writers[(step.id, step.value)] = (index, left[step.id] == step.value)
        if record.outcome == "committed" and left and record.version is None:
            raise InvalidInput(f"{record} wrote and was committed; record the commit's version")

    def _outside_reads(self, record: Record) -> dict[str, Read]:
        """Return the first read of each entity that the transaction had not written itself."""
        seen: dict[str, Read] = {}
        written: set[str] = set()
        for step in record.steps:
            if isinstance(step, Write):
                written.add(step.id)
                continue
            for read in self.reads_of(step):
                if read.id not in written:
                    seen.setdefault(read.id, read)
        return seen

    def reads_of(self, step: Read | Scan) -> list[Read]:
        """Return the reads of a step; a scan reads every entity of its range, found or not."""
        if isinstance(step, Read):
            return [step]
        known = {id for id, _ in self.writers if id.startswith(step.prefix)}
        return [Read(id, step.found.get(id)) for id in sorted(known | step.found.keys())]

    def writer_of(self, read: Read) -> int | None:
        """Return the transaction that wrote the value read; None when the entity is absent or nobody did."""
        if read.value is None or (read.id, read.value) not in self.writers:
            return None
        return self.writers[(read.id, read.value)][0]

    def _counted(self) -> set[int]:
        """Return the committed transactions, including unknown ones whose writes a committed one has read."""
        counted = {i for i, record in enumerate(self.records) if record.outcome == "committed"}
        waiting = sorted(counted)
        while waiting:
            for read in self.seen[waiting.pop()].values():
                writer = self.writer_of(read)
                if writer is None or writer in counted:
                    continue
                if self.records[writer].outcome == "unknown":
                    counted.add(writer)
                    waiting.append(writer)
        return counted

    def _orders(self) -> dict[str, list[int]]:
        """Return for each entity its writers, in the order that the store claims."""
        orders: dict[str, list[int]] = {}
        unplaced: list[tuple[str, int]] = []
        for index in sorted(self.counted, key=lambda i: self.records[i].version or 0):
            for id in self.records[index].writes():
                if self.records[index].version is None:
                    unplaced.append((id, index))
                else:
                    orders.setdefault(id, []).append(index)
        for id, index in unplaced:
            self._place(orders.setdefault(id, []), id, index)
        return orders

    def _place(self, order: list[int], id: str, index: int) -> None:
        """Place a writer without a version right after the writer it read from; a blind write stays
        without a place."""
        read = self.seen[index].get(id)
        if read is None:
            return
        if read.value is None:
            order.insert(0, index)
            return
        writer = self.writer_of(read)
        if writer in order:
            order.insert(order.index(writer) + 1, index)

    # -- single transactions -----------------------------------------------------------------------

    def check_steps(self) -> None:
        for index in sorted(self.counted):
            own: dict[str, str] = {}
            first: dict[str, str | None] = {}
            for step in self.records[index].steps:
                if isinstance(step, Write):
                    own[step.id] = step.value
                    continue
                for read in self.reads_of(step):
                    self._check_repeated(index, read, own, first)
            for read in self.seen[index].values():
                self._check_source(index, read)

    def _check_repeated(
        self, index: int, read: Read, own: dict[str, str], first: dict[str, str | None]
    ) -> None:
        name = self.records[index]
        if read.id in own:
            if read.value != own[read.id]:
                self.found("own write lost", f"{name} read {read} after its own write", [index])
        elif first.setdefault(read.id, read.value) != read.value:
            before = first[read.id]
            self.found("fuzzy read", f"{name} read {before!r}, then {read}", [index])

    def _check_source(self, index: int, read: Read) -> None:
        name = self.records[index]
        if read.value is None:
            if read.version:
                self.found("wrong version", f"{name}: {read} has no value", [index])
            return
        writer, is_left = self.writers.get((read.id, read.value), (None, False))
        if writer is None or writer == index:
            self.found("unwritten value", f"{name} read {read}, which nobody had written", [index])
            return
        source = self.records[writer]
        if source.outcome == "failed" or not is_left:
            self.found(
                "dirty read", f"{name} read {read}, which {source} never left", [index, writer]
            )
        elif None not in (read.version, source.version) and read.version != source.version:
            words = f"{name} read {read}, which {source} committed as {source.version}"
            self.found("wrong version", words, [index, writer])

    def check_versions(self) -> None:
        versions = Counter(self.records[i].version for i in self.counted)
        for version, count in versions.items():
            if version is not None and count > 1:
                both = [i for i in sorted(self.counted) if self.records[i].version == version]
                self.found("version twice", f"{count} commits have the version {version}", both)

    def check_lost_updates(self) -> None:
        """Report two transactions that read the same value of an entity and both wrote over it."""
        updates: dict[tuple[str, str | None], list[int]] = {}
        for index in sorted(self.counted):
            for id in self.records[index].writes():
                if id in self.seen[index]:
                    updates.setdefault((id, self.seen[index][id].value), []).append(index)
        for (id, value), indexes in updates.items():
            if len(indexes) > 1:
                names = ", ".join(str(self.records[index]) for index in indexes)
                words = f"{names} read {value!r} of {id} and all wrote over it"
                self.found("lost update", words, indexes)

    # -- all of them together ----------------------------------------------------------------------

    def check_cycles(self) -> None:
        """Report cycles; stronger relations come first, so that a cycle is named by what it needs."""
        edges: Edges = {}
        for add in (self._add_flow, self._add_overwritten, self._add_time):
            add(edges)
            for knot in knots(edges, sorted(edges)):
                if self.involved.isdisjoint(knot):
                    self._report(edges, short_cycle(edges, knot))

    def _add_flow(self, edges: Edges) -> None:
        for index in self.counted:
            for read in self.seen[index].values():
                writer = self.writer_of(read)
                if writer is not None and writer in self.counted:
                    _link(edges, writer, index, "wr")
        for order in self.orders.values():
            for before, after in pairwise(order):
                _link(edges, before, after, "ww")

    def _add_overwritten(self, edges: Edges) -> None:
        for index in self.counted:
            for read in self.seen[index].values():
                following = self._written_after(read)
                if following is not None:
                    _link(edges, index, following, "rw")

    def _written_after(self, read: Read) -> int | None:
        """Return the transaction that wrote over the value read."""
        order = self.orders.get(read.id, [])
        place = 0
        if read.value is not None:
            below = self.places.get((read.id, self.writer_of(read)))
            if below is None:
                return None
            place = below + 1
        return order[place] if place < len(order) else None

    def _add_time(self, edges: Edges) -> None:
        """Link each answer to the next answer, and to the transactions that begin in between: few edges."""
        ends = sorted({end for i in self.counted if (end := self._end(i)) is not None})
        moment = len(self.records)  # the numbers of moments follow those of transactions
        for place in range(1, len(ends)):
            _link(edges, moment + place - 1, moment + place, "rt")
        for index in self.counted:
            end, began = self._end(index), self.records[index].began
            if end is not None:
                _link(edges, index, moment + bisect_left(ends, end), "rt")
            if began is not None and (place := bisect_left(ends, began)):
                _link(edges, moment + place - 1, index, "rt")

    def _end(self, index: int) -> int | None:
        """Return the time by which it had certainly happened; one without an answer may happen later."""
        record = self.records[index]
        return record.ended if record.outcome == "committed" else None

    def _report(self, edges: Edges, cycle: list[int]) -> None:
        words = [edges[a][b] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
        members = [index for index in cycle if index < len(self.records)]
        path = " ".join(
            f"{self.records[index]} -{word}->"
            for index, word in zip(cycle, words, strict=True)
            if index < len(self.records)
        )
        self.found(_kind(words), f"{path} {self.records[members[0]]}", members)


def _link(edges: Edges, before: int, after: int, why: str) -> None:
    if before != after:
        edges.setdefault(before, {}).setdefault(after, why)


def _kind(words: list[str]) -> str:
    if "rt" in words:
        return "stale read" if "rw" in words else "out of real time"
    if words.count("rw") > 1:
        return "write skew"
    return "read skew" if "rw" in words else "circular flow"
