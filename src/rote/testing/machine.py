"""A state machine that runs stores beside the model and compares every answer.

    TestMyStore = make_machine({"mine": open_mine}).TestCase

Several stores run in lockstep: they get equal clocks and ids, so they must agree with each other in
every hash, too. A store whose place can be shared is opened twice, and each step goes through one
of the two handles: what one of them remembers must never hide what the other has written.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rote.contract import Commit, State
from rote.errors import Conflict, RoteError
from rote.space import Space, Store
from rote.testing.clocks import FixedClock
from rote.testing.model import ModelCommit, ModelState, Refused, SpaceModel
from rote.testing.sources import SeededIds
from rote.testing.space_suite.formulas import check_chain
from rote.testing.stores import StoreSettings
from rote.testing.strategies import documents, operations, patches_for, pointers, pointers_into
from rote.values import canonical, datetime_of, format_time, micros_of, parse_time

OpenStore = Callable[[Path, StoreSettings], Store]

# Few, so that writes meet; nested and beyond the BMP, so that order and prefixes matter.
IDS = ("urn:a", "urn:a:1", "urn:a:2", "urn:b", "urn:\uffff", "urn:\U00010000")
PREFIXES = ("", "urn:", "urn:a", "urn:a:", "urn:\uffff", "urn:\U00010000", "v")
KEYS = ("k1", "k2")

_Answer = TypeVar("_Answer")


def make_machine(openers: Mapping[str, OpenStore], *, shared: bool = True) -> type["SpaceMachine"]:
    """A machine for the stores that `openers` open, each in a place of its own.

    shared  places can be opened several times and again; False for stores in memory
    """
    return type("StoreMachine", (SpaceMachine,), {"openers": dict(openers), "shared": shared})


@dataclass
class World:
    """One store under test: its place, what it was given, and its open handles."""

    open_store: OpenStore
    place: Path
    handles_count: int
    clock: FixedClock = field(default_factory=FixedClock)
    ids: SeededIds = field(default_factory=SeededIds)
    stores: list[Store] = field(default_factory=list)
    spaces: list[Space] = field(default_factory=list)

    def open(self) -> None:
        settings = StoreSettings(clock=self.clock, ids=self.ids)
        for _ in range(self.handles_count):
            self.stores.append(self.open_store(self.place, settings))
            self.spaces.append(self.stores[-1].space("notes"))

    def space(self, handle: int) -> Space:
        return self.spaces[handle % len(self.spaces)]

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.stores.clear()
        self.spaces.clear()


class SpaceMachine(RuleBasedStateMachine):
    """Made by make_machine, which says which stores it runs."""

    openers: Mapping[str, OpenStore] = {}
    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.model = SpaceModel()
        self.answers: list[Commit] = []  # what the stores answered, version by version
        self.sent: dict[str, list[dict[str, Any]]] = {}  # what each key was sent with
        # Doing these twice without a write in between would only take the turn of something else.
        self.opened_at = self.verified_at = 0
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="rote-machine-")))
        self.worlds = []
        for name, open_store in self.openers.items():
            (folder / name).mkdir()
            world = World(open_store, folder / name, 2 if self.shared else 1)
            self._stack.callback(world.close)
            self.worlds.append(world)
            world.open()

    # -- writing -----------------------------------------------------------------------------------

    @rule(data=st.data(), handle=st.integers(0, 1))
    def write(self, data: st.DataObject, handle: int) -> None:
        self._commit(handle, data.draw(operations(IDS)))

    @rule(data=st.data(), id=st.sampled_from(IDS), value=documents(), handle=st.integers(0, 1))
    def patch(self, data: st.DataObject, id: str, value: Any, handle: int) -> None:
        """Patches that fit, so that long histories come about; and a reader of one path."""
        if not self.model.read(id).exists:
            self._commit(handle, [{"op": "set", "id": id, "value": value}])
        before = self.model.read(id).value
        read = {"id": id, "version": self.model.version, "path": data.draw(pointers_into(before))}
        self._commit(handle, [{"op": "patch", "id": id, "ops": data.draw(patches_for(before))}])
        other = data.draw(st.sampled_from(IDS))
        self._commit(handle + 1, [{"op": "set", "id": other, "value": 1}], reads=[read])

    @rule(data=st.data(), handle=st.integers(0, 1))
    def write_after_reading(self, data: st.DataObject, handle: int) -> None:
        reads = data.draw(st.lists(self._reads(), min_size=1, max_size=3))
        self._commit(handle, data.draw(operations(IDS, size_max=2)), reads=reads)

    @rule(data=st.data(), key=st.sampled_from(KEYS), same=st.booleans(), handle=st.integers(0, 1))
    def write_with_key(self, data: st.DataObject, key: str, same: bool, handle: int) -> None:
        """A key is new, or stands for a commit already and is sent with the same or other work."""
        made = self.model.commit_of_key(key)
        replayed = self.sent[key] if made is not None and same else None
        sent = replayed or data.draw(operations(IDS, size_max=1))
        reads = data.draw(st.lists(self._reads(), max_size=1))
        self._commit(handle, sent, reads=reads, key=key)
        if made is None and self.model.commit_of_key(key) is not None:
            self.sent[key] = sent

    @rule(data=st.data(), handle=st.integers(0, 1))
    def run_transaction(self, data: st.DataObject, handle: int) -> None:
        """Reads, a write of someone else in between, and a write that must notice it."""
        looked_at = data.draw(st.lists(st.sampled_from(IDS), max_size=2, unique=True))
        prefix = data.draw(st.sampled_from((*PREFIXES, None)))
        limit = data.draw(st.sampled_from((None, 1, 2)))
        pinned = self.model.version
        reads: list[dict[str, Any]] = [{"id": id, "version": pinned} for id in looked_at]
        if prefix is not None:
            reads.append(_range_read(self.model, prefix, limit, pinned))
        meanwhile = data.draw(st.none() | operations(IDS, size_max=1))
        written, value = data.draw(st.sampled_from(IDS)), data.draw(documents())

        transactions = [world.space(handle).transaction() for world in self.worlds]
        for tx in transactions:
            for id in looked_at:
                self._check_state(tx.read(id), id, self.model.read(id, pinned))
            if prefix is not None:
                found = [state.id for state in tx.scan(prefix, limit=limit)]
                assert found == self.model.scan(prefix, limit=limit, version=pinned)
        if meanwhile is not None:
            self._commit(handle + 1, meanwhile)
        sent = [{"op": "set", "id": written, "value": value}]
        answers = [_outcome(partial(_finish, tx, written, value)) for tx in transactions]
        self._compare(answers, sent, reads=reads, key=None)

    def _commit(
        self,
        handle: int,
        sent: list[dict[str, Any]],
        *,
        reads: Sequence[dict[str, Any]] = (),
        key: str | None = None,
    ) -> None:
        answers = [
            _outcome(partial(world.space(handle).transact, sent, reads=list(reads), key=key))
            for world in self.worlds
        ]
        self._compare(answers, sent, reads=reads, key=key)

    def _compare(
        self,
        answers: list[Commit | RoteError],
        sent: list[dict[str, Any]],
        *,
        reads: Sequence[dict[str, Any]],
        key: str | None,
    ) -> None:
        """The model makes the same commit; all stores must have answered as it does."""
        now = format_time(micros_of(self.worlds[0].clock.now()))
        try:
            expected = self.model.transact(sent, reads=reads, key=key, now=now)
        except Refused as refused:
            for answer in answers:
                self._check_refusal(answer, refused)
            return
        first = answers[0]
        assert isinstance(first, Commit), f"refused with {first!r}, the model made a commit"
        for other in answers[1:]:
            assert other == first, "two stores made different commits"
        if expected.version <= len(self.answers):
            assert first == self.answers[expected.version - 1], "a key gave another commit back"
        else:
            self._check_commit(first, expected)
            self.answers.append(first)

    # -- reading -----------------------------------------------------------------------------------

    @rule(data=st.data(), handle=st.integers(0, 1))
    def look_back(self, data: st.DataObject, handle: int) -> None:
        version = data.draw(st.integers(0, self.model.version))
        for world in self.worlds:
            self._check_version(world.space(handle), version)

    @rule(
        data=st.data(),
        prefix=st.sampled_from(PREFIXES),
        after=st.none() | st.sampled_from((*IDS, "urn:a\0", "urn:c")),
        limit=st.none() | st.integers(0, 4),
        handle=st.integers(0, 1),
    )
    def scan(
        self, data: st.DataObject, prefix: str, after: str | None, limit: int | None, handle: int
    ) -> None:
        version = data.draw(st.none() | st.integers(0, self.model.version))
        expected = self.model.scan(prefix, after=after, limit=limit, version=version)
        for world in self.worlds:
            space = world.space(handle)
            view = space if version is None else space.at(version)
            found = list(view.scan(prefix, after=after, limit=limit))
            assert [state.id for state in found] == expected
            for state in found:
                self._check_state(state, state.id, self.model.read(state.id, version))

    @rule(data=st.data(), id=st.sampled_from(IDS), handle=st.integers(0, 1))
    def look_through_history(self, data: st.DataObject, id: str, handle: int) -> None:
        version = data.draw(st.integers(0, self.model.version))
        limit = data.draw(st.none() | st.integers(0, 3))
        expected = self.model.history(id, version)[:limit]
        for world in self.worlds:
            space = world.space(handle).at(version)
            facts = space.history(id, limit=limit)
            assert facts == [self.answers[at - 1].facts[index] for at, index, _ in expected], (
                "the history is not what the commits said"
            )

    @rule(data=st.data(), handle=st.integers(0, 1))
    def read_log(self, data: st.DataObject, handle: int) -> None:
        since = data.draw(st.integers(0, self.model.version + 1))
        limit = data.draw(st.none() | st.integers(0, 3))
        for world in self.worlds:
            found = list(world.space(handle).log(since=since, limit=limit))
            assert found == self.answers[since:][:limit]

    @precondition(lambda self: self.model.version > 0)
    @rule(data=st.data(), offset=st.sampled_from((-1, 0, 1)), handle=st.integers(0, 1))
    def look_at_time(self, data: st.DataObject, offset: int, handle: int) -> None:
        commit = data.draw(st.sampled_from(self.model.commits))
        micros = parse_time(commit.at) + offset
        expected = self.model.version_at(format_time(micros))
        for world in self.worlds:
            space = world.space(handle)
            assert space.at(datetime_of(micros)).version == expected

    # -- what happens around a store ---------------------------------------------------------------

    @rule(seconds=st.integers(-5, 10))
    def move_clock(self, seconds: int) -> None:
        for world in self.worlds:
            world.clock.move(seconds=seconds)

    @precondition(lambda self: self.shared and self.opened_at < self.model.version)
    @rule()
    def reopen(self) -> None:
        self.opened_at = self.model.version
        for world in self.worlds:
            world.close()
            world.open()

    @precondition(lambda self: self.verified_at < self.model.version)
    @rule(handle=st.integers(0, 1))
    def verify(self, handle: int) -> None:
        self.verified_at = self.model.version
        for world in self.worlds:
            space = world.space(handle)
            checkpoint = space.checkpoint()
            report = space.verify(against=checkpoint)
            assert report.ok, report.faults
            assert report.facts == sum(len(commit.facts) for commit in self.model.commits)

    @invariant()
    def every_handle_shows_the_present(self) -> None:
        head = self.answers[-1].hash if self.answers else None
        for world in self.worlds:
            for space in world.spaces:
                assert (space.version, space.head) == (self.model.version, head)
                for id in IDS:
                    self._check_state(space.read(id), id, self.model.read(id))

    def teardown(self) -> None:
        with self._stack:
            if len(self.answers) != self.model.version:
                return  # a step failed and has said so
            check_chain(self.worlds[0].spaces[0].did, self.answers)
            for world in self.worlds:
                for space in world.spaces:
                    assert list(space.log()) == self.answers
                    for version in range(self.model.version + 1):
                        self._check_version(space, version)
                report = world.spaces[0].verify()
                assert report.ok, report.faults

    # -- comparing ---------------------------------------------------------------------------------

    def _reads(self) -> st.SearchStrategy[dict[str, Any]]:
        """Reads of all kinds, fresh, stale and now and then above the log."""
        newest = self.model.version
        version = st.integers(0, newest) | st.integers(max(0, newest - 1), newest + 1)
        id = st.sampled_from(IDS)
        return st.one_of(
            st.fixed_dictionaries({"id": id, "version": version}),
            st.fixed_dictionaries({"id": id, "version": version, "path": pointers()}),
            st.fixed_dictionaries({"prefix": st.sampled_from(PREFIXES), "version": version}),
            st.fixed_dictionaries({"from": id, "to": st.none() | id, "version": version}),
        )

    def _check_version(self, space: Space, version: int) -> None:
        view = space.at(version)
        head = self.answers[version - 1].hash if version else None
        assert (view.version, view.head) == (version, head)
        assert [state.id for state in view.scan()] == self.model.scan(version=version)
        for id in IDS:
            self._check_state(view.read(id), id, self.model.read(id, version))

    def _check_state(self, state: State, id: str, expected: ModelState) -> None:
        assert (state.id, state.exists, state.version) == (id, expected.exists, expected.version)
        assert canonical(state.value) == canonical(expected.value)
        if expected.version:
            facts = [fact for fact in self.answers[expected.version - 1].facts if fact.id == id]
            assert state.hash == facts[-1].hash
        else:
            assert state.hash is None

    def _check_commit(self, commit: Commit, expected: ModelCommit) -> None:
        previous = self.answers[-1].hash if self.answers else None
        assert (commit.version, commit.previous) == (expected.version, previous)
        assert (commit.at, commit.key) == (expected.at, expected.key)
        found = [(fact.id, fact.op, canonical(fact.body)) for fact in commit.facts]
        assert found == [(fact.id, fact.op, canonical(fact.body)) for fact in expected.facts]

    def _check_refusal(self, answer: Commit | RoteError, refused: Refused) -> None:
        assert type(answer) is refused.kind, f"{answer!r}, but the model says {refused}"
        if isinstance(answer, Conflict):
            found = [
                (conflict.expected_version, conflict.actual_version, conflict.actual_hash)
                for conflict in answer.conflicts
            ]
            assert found == [
                (
                    conflict.read["version"],
                    conflict.version,
                    self.answers[conflict.version - 1].facts[conflict.index].hash,
                )
                for conflict in refused.conflicts
            ]


def _outcome(action: Callable[[], _Answer]) -> _Answer | RoteError:
    try:
        return action()
    except RoteError as error:
        return error


def _finish(tx: Any, id: str, value: Any) -> Commit:
    with tx:
        tx.set(id, value)
    assert isinstance(tx.commit, Commit)
    return tx.commit


def _range_read(model: SpaceModel, prefix: str, limit: int | None, version: int) -> dict[str, Any]:
    """What a scan reads: all below the prefix, or up to the last entity that it gave."""
    found = model.scan(prefix, limit=limit, version=version)
    if limit is None or len(found) < limit:
        return {"prefix": prefix, "version": version}
    return {"from": prefix, "to": found[-1] + "\0", "version": version}
