"""Another process compacts while this one reads: before each read of the store, one by one, and
before it writes.

At any moment the answer is the right one or Compacted. It is never made from rows of which some are
gone.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rote.contract import View
from rote.contract.commands import CopyOut, Find, MakeCommit, Read
from rote.engines import Engine, Scrubbed
from rote.engines.sqlite import SqliteEngine
from rote.errors import Compacted, Conflict, RoteError
from rote.kernel.reading import index_rows
from rote.opening.keys import FolderKeys
from rote.records.memory import Memory
from rote.space import Space, Store
from rote.testing import FixedClock, SeededIds, StoreSettings, open_on
from rote.testing.postgres import Schemas
from rote.testing.space_suite.indexes import WORDS
from rote.values.blobs import meta_id
from rote.values.limits import INDEX_PENDING_MAX
from tests.lanes import examples

SCHEMAS = Schemas()
A, B = "urn:a", "urn:b"
LARGE = {"text": "words " * 400}
# More reads than anything here takes.
LOOKS_MAX = 1_000
# Reads between two tested moments, where there are many.
STRIDE = examples(9, 1)


class Interrupted:
    """Forwards everything, but lets something happen before one of the reads of its readers, or
    before one of its write transactions."""

    def __init__(self, target: Any, moment: "Moment") -> None:
        self._target = target
        self._moment = moment

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if name == "reader":
            return lambda: Interrupted(member(), self._moment)
        if not callable(member) or not (name == "writer" or hasattr(self._target, "newest")):
            return member

        def look(*arguments: Any, **options: Any) -> Any:
            self._moment.passes()
            return member(*arguments, **options)

        return look


class Moment:
    """Counts reads, and acts before the chosen one."""

    def __init__(self) -> None:
        self.looks = 0
        self._chosen = 0
        self._action: Callable[[], object] = lambda: None

    def choose(self, look: int, action: Callable[[], object]) -> None:
        self.looks, self._chosen, self._action = 0, look, action

    def is_over(self) -> None:
        """Stop counting: the call that was to be interrupted is done."""
        self._chosen = -1

    def passes(self) -> None:
        if self._chosen < 0:
            return
        self.looks += 1
        if self.looks == self._chosen:
            self._action()


class Unscrubbed:
    """Skips scrubbing, which takes long and which no reader could notice."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return (lambda **_: Scrubbed()) if name == "scrub" else getattr(self._target, name)


class Rig:
    """A store that is interrupted, and the other process that interrupts it, on one place."""

    def __init__(self, place: Path, kind: str) -> None:
        self._place = place
        self.kind = kind
        self._spaces = 0
        self.moment = Moment()
        self.stores = [
            self._open(Unscrubbed),
            self._open(lambda engine: Interrupted(engine, self.moment)),
        ]

    def _open(self, wrap: Callable[[Any], Any]) -> Store:
        engine: Engine = (
            SCHEMAS.engine(self._place)
            if self.kind == "postgres"
            else SqliteEngine(self._place / "memory.db", durability="os")
        )
        settings = StoreSettings(clock=FixedClock(), ids=SeededIds(), indexes=(WORDS,))
        return open_on(wrap(engine), settings, keys=FolderKeys(self._place / "keys"))

    def space(self) -> None:
        """Make another space, in which nothing has happened yet and of which nothing is cached."""
        self._spaces += 1
        name = f"space-{self._spaces}"
        self.moment.choose(0, lambda: None)
        self.other = self.stores[0].space(name)
        _write(self.other)
        self.reader = self.stores[1].space(name)

    def interrupt(self, look: int) -> None:
        self.moment.choose(look, lambda: _overtake(self.other))


def _write(space: Space) -> None:
    """Write versions 1 to 16: a large document that is replayed, branches, and a base far below."""
    space.set(A, LARGE)
    topic = space.create_branch("topic")
    for number in range(5):
        space.patch(A, [{"op": "add", "path": f"/m{number}", "value": number}])
    topic.patch(A, [{"op": "add", "path": "/topic", "value": 1}])
    space.transact([{"op": "set", "id": B, "value": 1}], key="k")
    for number in range(5, 10):
        space.patch(A, [{"op": "add", "path": f"/m{number}", "value": number}])
    space.put_blob(b"payload")
    space.set(B, 2)
    assert space.version == 16


def _overtake(other: Space) -> None:
    """Write over everything, and compact everything before."""
    for number in range(10, 14):
        other.patch(A, [{"op": "add", "path": f"/m{number}", "value": number}])
    other.set(B, "overtaken")
    other.compact(before=other.version)


QUERY: dict[str, Any] = {"select": {A: {"schema": True}, "*": {}}}
# Every kind of read of version 9, and of the newest state.
PAST: dict[str, Callable[[Space], Any]] = {
    "get": lambda space: space._port.answer(space.did, Read([A], View("main", 9))),
    "read many": lambda space: space._port.answer(space.did, Read([A, B], View("main", 9))),
    "on a branch": lambda space: space._port.answer(space.did, Read([A], View("topic", 9))),
    "at": lambda space: space.at(9).head,
    "scan": lambda space: list(space.at(9).scan()),
    "history": lambda space: space.at(9).history(A),
    "branches": lambda space: space.at(9).branches(),
    "log": lambda space: list(space.log(since=8, limit=3)),
    "diff": lambda space: space.at(9).diff(4),
    "find": lambda space: space._port.answer(space.did, Find(WORDS.name, view=View("main", 9))),
    "query": lambda space: space.query({**QUERY, "at": 9}),
    "copy": lambda space: space._port.answer(space.did, CopyOut(since=8, until=12)),
}  # fmt: skip
CURRENT: dict[str, Callable[[Space], Any]] = {
    "get": lambda space: space.get(A),
    "read many": lambda space: space._port.answer(space.did, Read([A, B], View())),
    "scan": lambda space: list(space.scan()),
    "diff": lambda space: space.diff("topic"),
    "merge": lambda space: [
        (conflict.base, conflict.ours, conflict.theirs)
        for conflict in space.merge("topic", dry_run=True).conflicts
    ],
    "branches": lambda space: space.branches(),
    "query since": lambda space: space.query({"select": {"*": {}}, "since": 9})["facts"],
    "find": lambda space: space._port.answer(
        space.did, Find(WORDS.name, start="", end=None, after=None, limit=9, view=View())
    ),
    "blob": lambda space: space.blob_info(space.get(meta_id(HASH))["blob"]),
    "query": lambda space: space.query(QUERY),
    "values": lambda space: space.values(QUERY),
    "watch": lambda space: next(space.watch(QUERY, timeout=0)),
    "list of records": lambda space: Memory(space).list("ops"),
    "stats of records": lambda space: Memory(space).stats(),
}
HASH = "239f59ed55e737c77147cf55ad0c1b030b6d7ee748a7426952f9b852d5a935e5"


@pytest.fixture(params=["sqlite", "postgres"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, request.param)
    yield made
    for store in made.stores:
        store.close()
    SCHEMAS.take_back()


def each_moment(rig: Rig, stride: int = 1) -> Iterator[None]:
    """Yield a space for each read that the compaction comes before, and one in which it never comes.

    In the quick lane fewer of them on PostgreSQL, where each takes long.
    """
    apart = stride if rig.kind == "sqlite" else max(stride, examples(3, 1))
    for look in range(1, LOOKS_MAX, apart):
        rig.space()
        rig.interrupt(look)
        yield
        if rig.moment.looks < look:
            return
    raise AssertionError("it took more looks than it should")


def answer_of(space: Space, read: Callable[[Space], Any]) -> Any:
    try:
        return read(space)
    except RoteError as error:
        return type(error)


@pytest.mark.parametrize("name", PAST)
def test_a_read_of_the_past_is_right_or_compacted(name: str, rig: Rig) -> None:
    answers = []
    for _ in each_moment(rig):
        expected = PAST[name](rig.other)
        answers.append(answer_of(rig.reader, PAST[name]))
        assert answers[-1] in (expected, Compacted)
    assert answers[0] == Compacted
    assert answers[-1] == expected


@pytest.mark.parametrize("name", CURRENT)
def test_a_read_of_now_is_of_before_or_after(name: str, rig: Rig) -> None:
    for _ in each_moment(rig):
        before = CURRENT[name](rig.other)
        answer = answer_of(rig.reader, CURRENT[name])
        assert answer in (before, CURRENT[name](rig.other))
    assert answer == before


@pytest.mark.parametrize("pending_max", [0, 4])
def test_what_the_rows_of_an_index_find_is_right_too(
    rig: Rig, pending_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_rows, "INDEX_PENDING_MAX", pending_max)
    test_a_read_of_the_past_is_right_or_compacted("find", rig)
    test_a_read_of_now_is_of_before_or_after("find", rig)


@pytest.mark.parametrize("name", ["get", "read many", "scan"])
def test_nothing_wrong_is_remembered(name: str, rig: Rig) -> None:
    for _ in each_moment(rig):
        answer_of(rig.reader, PAST[name])
        rig.moment.is_over()
        for version in (None, rig.other.version):
            for branch in ("main", "topic"):
                view = View(branch, version)
                assert rig.reader._port.answer(rig.reader.did, Read([A, B], view)) == (
                    rig.other._port.answer(rig.other.did, Read([A, B], view))
                )


def test_verify_that_was_overtaken_starts_over(rig: Rig) -> None:
    for _ in each_moment(rig, STRIDE):
        report = rig.reader.verify()
        assert report.ok, report.faults


def test_a_watch_that_was_overtaken_begins_with_what_is_there(rig: Rig) -> None:
    """The watch asks for no version that could be gone."""
    for _ in each_moment(rig):
        frames = rig.reader.watch({"select": {"*": {}}}, timeout=0)
        first = next(frames)
        rig.moment.is_over()
        seen = {fact["id"]: fact.get("value") for fact in first["upserts"]}
        assert seen == {state.id: state.value for state in rig.other.at(first["to"]).scan()}
        assert first["removes"] == []


def test_a_merge_that_was_overtaken_takes_everything_along(rig: Rig) -> None:
    for _ in each_moment(rig, STRIDE):
        assert rig.reader.merge("topic", on_conflict="paths").status == "merged"
        rig.moment.is_over()
        value = rig.reader.get(A)
        members = {f"m{number}" for number in range(10)} | {"topic"}
        assert members <= value.keys()
        assert rig.other.get(A) == value
        assert rig.other.verify().ok


def test_gc_that_was_overtaken_drops_nothing_that_is_referred_to(rig: Rig) -> None:
    """The reference is in a fact that stays, though its commit is dropped."""
    for _ in each_moment(rig, STRIDE):
        look = rig.moment._chosen
        rig.moment.choose(0, lambda: None)
        rig.other.set("urn:c", {"$blob": HASH})
        rig.other.delete(meta_id(HASH))
        rig.interrupt(look)
        rig.reader.gc(grace_seconds=0)
        rig.moment.is_over()
        assert rig.reader.blob(HASH) == b"payload"


def test_gc_that_was_overtaken_takes_no_snapshot_that_nothing_can_replace(rig: Rig) -> None:
    """The facts that it read below the horizon are gone, or are results without operations now."""
    for _ in each_moment(rig):
        look = rig.moment._chosen
        rig.moment.choose(0, lambda: None)
        rig.other.set("urn:c", {})
        for number in range(1, 6):
            rig.other.patch("urn:c", [{"op": "add", "path": "/n", "value": number}])
        line = rig.other.version - 2
        rig.moment.choose(look, partial(rig.other.compact, before=line))
        rig.reader.gc()
        rig.moment.is_over()
        fresh = [rig.other.at(version).get("urn:c") for version in range(line, line + 3)]
        assert fresh == [{"n": 3}, {"n": 4}, {"n": 5}]
        report = rig.other.verify()
        assert report.ok, report.faults


def test_whoever_writes_afterwards_writes_on_what_is_there(rig: Rig) -> None:
    """The process has a cache from below the horizon and learns of the compaction only here."""
    rig.space()
    assert [rig.reader.get(A), rig.reader.get(B)]
    _overtake(rig.other)
    read = {"id": A, "version": 9, "path": "/unrelated"}
    request = MakeCommit([{"op": "set", "id": B, "value": 3}], reads=[read])
    with pytest.raises(Conflict):
        rig.reader._port.answer(rig.reader.did, request)
    rig.reader.patch(A, [{"op": "add", "path": "/new", "value": 1}])
    assert {f"m{number}" for number in range(14)} | {"new"} <= rig.other.get(A).keys()
    assert rig.other.verify().ok


def test_a_cache_from_below_the_line_is_dropped_though_its_commit_is_still_there(rig: Rig) -> None:
    """The commit has a key, so it stays. The commits after it are gone, and the log no longer tells
    what they wrote."""
    rig.space()
    rig.other.set(B, "known", key="stays")
    assert rig.reader.get(A) and rig.reader.get(B) == "known"
    for id in (A, B, "urn:c", "urn:c", "urn:c"):
        rig.other.set(id, "later")
    rig.other.compact(before=rig.other.version)
    assert (rig.reader.get(A), rig.reader.get(B)) == ("later", "later")


@pytest.mark.parametrize("asked", ["before", "behind", "never"])
@pytest.mark.parametrize("pending_max", [0, INDEX_PENDING_MAX])
def test_an_index_that_others_have_dropped_is_built_from_what_is_left(
    rig: Rig, asked: str, pending_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit is left that tells what the index has to list."""

    def find(space: Space) -> set[tuple[str, str]]:
        found = space._port.answer(
            space.did, Find(WORDS.name, start="", end=None, after=None, limit=9, view=View())
        )
        return {(hit.term, hit.id) for hit in found}

    monkeypatch.setattr(index_rows, "INDEX_PENDING_MAX", pending_max)
    rig.space()
    if asked == "behind":
        assert find(rig.reader)
    rig.other.set("urn:c", {"text": "last"})
    if asked == "before":
        assert find(rig.reader)
    rig.other.create_branch("late")
    rig.other.compact(before=rig.other.version)
    assert find(rig.reader) == find(rig.other) == {("words", A), ("last", "urn:c")}
    rig.reader.compact(before=rig.reader.version)
    assert find(rig.reader) == find(rig.other) == {("words", A), ("last", "urn:c")}
