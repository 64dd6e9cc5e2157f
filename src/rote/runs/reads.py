"""Reads of a run, which are checked when it commits.

    by id       the entity, or a path in it
    answers     questions about many entities: kept as the question and the digest of its answer, with
                the ranges of ids that can change it
    ranges      what was read without a question that could be asked again

Answers of questions hold when they would be the same now, so writes that changed nothing about them
are in nobody's way.
"""

import threading
from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import Any

from rote.contract import ScanPage, State
from rote.errors import LimitExceeded
from rote.runs.modes import ANSWERS, WRITES
from rote.runs.run_rows import NotedAnswer
from rote.values import canonical
from rote.values.limits import RUN_READS_MAX
from rote.values.ranges import IdRange, above, holds_ids


class NotedScan:
    """A scan as far as it was walked."""

    def __init__(self, branch: str, start: str) -> None:
        self.branch = branch
        self.start = start
        self.end: str | None = start
        self._hash = sha256()

    def add(self, page: ScanPage, end: str | None) -> None:
        """Take in a page of a scan that would end at `end`."""
        for state in page.states:
            self._hash.update(scan_line(state))
        self.end = end if page.next is None else above(page.next)

    def answer(self) -> NotedAnswer:
        call = {"name": "scan", "branch": self.branch, "from": self.start, "to": self.end}
        ranges: list[IdRange] = [(self.branch, self.start, self.end)]
        return NotedAnswer(call, self._hash.hexdigest(), ranges)


def scan_line(state: State) -> bytes:
    """Return the part of an entity that counts in the digest of a scan."""
    return canonical([state.id, state.hash]) + b"\n"


class ReadSet:
    """Grows while a run reads; any thread of the run may add to it."""

    def __init__(self, *, branch: str, version: int, validate: str, is_kept: bool) -> None:
        """is_kept  whether anyone will ask: a run that commits nothing has nothing to check"""
        self.branch = branch
        self.is_kept = is_kept
        self._version = version
        self._validate = validate
        self._lock = threading.Lock()
        self._entities: dict[tuple[str, str | None], None] = {}
        self._returned: dict[str, None] = {}  # shown by questions about many
        self._answers: list[NotedAnswer | NotedScan] = []
        self._ranges: dict[IdRange, None] = {}
        self._size = 0  # of all of them

    @property
    def names_entities(self) -> bool:
        """Whether it is kept by the entities that answers show, not by the answers."""
        return self.is_kept and self._validate != ANSWERS

    def add_entity(self, id: str, path: str | None = None) -> None:
        if not self.is_kept:
            return
        with self._lock:
            if (id, path) not in self._entities:
                self._take_room(1)
                self._entities[(id, path)] = None

    def add_range(self, start: str, end: str | None) -> None:
        if not self.is_kept:
            return
        with self._lock:
            if (self.branch, start, end) not in self._ranges:
                self._take_room(1)
                self._ranges[(self.branch, start, end)] = None

    def add_answer(self, answer: NotedAnswer | NotedScan, returned: Iterable[str] = ()) -> None:
        if not self.is_kept:
            return
        with self._lock:
            if self._validate == ANSWERS:
                self._take_room(1 if isinstance(answer, NotedScan) else len(answer.ranges))
                self._answers.append(answer)
            else:
                self._add_returned(returned)

    def add_page(self, scan: NotedScan, page: ScanPage, end: str | None) -> None:
        """Note more entities that a scan has shown; it would end at `end`."""
        if not self.is_kept:
            return
        with self._lock:
            if self._validate == ANSWERS:
                scan.add(page, end)
            else:
                self._add_returned([state.id for state in page.states])

    def _add_returned(self, ids: Iterable[str]) -> None:
        new = {id: None for id in ids if id not in self._returned}
        self._take_room(len(new))
        self._returned.update(new)

    def checks(self, written: Collection[str]) -> tuple[list[dict[str, Any]], list[NotedAnswer]]:
        """The reads as a commit takes them, and the answers, of a run that writes these ids."""
        with self._lock:
            entities = dict(self._entities)
            entities.update({(id, None): None for id in self._returned})
            answers = [
                each.answer() if isinstance(each, NotedScan) else each for each in self._answers
            ]
        if self._validate == WRITES:
            entities = {read: None for read in entities if read[0] in written}
        reads: list[dict[str, Any]] = [
            {"id": id, "version": self._version, **({} if path is None else {"path": path})}
            for id, path in entities
            if path is None or (id, None) not in entities
        ]
        if self._validate == ANSWERS:
            reads += [
                {"from": start, "to": end, "version": self._version, "branch": branch}
                for branch, start, end in self._ranges
            ]
        return reads, [answer for answer in answers if _can_change(answer)]

    def _take_room(self, count: int) -> None:
        """Room for what the commit will have to check; what there is none for is not read."""
        size = self._size + count
        if size > RUN_READS_MAX:
            raise LimitExceeded(
                "what a run has read",
                size=size,
                limit=RUN_READS_MAX,
                advice="split the run, or scan and query instead of reading one by one",
            )
        self._size = size


def _can_change(answer: NotedAnswer) -> bool:
    return any(map(holds_ids, answer.ranges))
