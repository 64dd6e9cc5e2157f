"""A state machine that runs stores beside the model and compares every answer.

    TestMyStore = make_machine({"mine": open_mine}).TestCase

Several stores run in lockstep: they get equal clocks and ids, so they must agree with each other in
every hash, too. A store whose place can be shared is opened twice, and each step goes through one
of the two handles. The cache of one handle must never hide a write of the other.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rote.contract import DELETE, Branch, Commit, Compaction, Fact, MergeResult, State
from rote.contract.commands import CreateBranch, Merge
from rote.errors import Compacted, Conflict, RoteError
from rote.patch import apply
from rote.space import Space
from rote.testing.machine_calls import (
    erase_by,
    finish,
    outcome_of,
    range_read,
    without,
)
from rote.testing.merge_model import Merging, ModelMerge, same
from rote.testing.model import ModelCommit, ModelState, Refused, SpaceModel
from rote.testing.space_suite.formulas import check_chain
from rote.testing.strategies import documents, operations, patches_for, pointers, pointers_into
from rote.testing.worlds import OpenStore, World
from rote.values import canonical, datetime_of, format_time, micros_of, parse_time

# Few ids, so that writes meet; nested and beyond the BMP, so that order and prefixes matter.
IDS = ("urn:a", "urn:a:1", "urn:a:2", "urn:b", "urn:\uffff", "urn:\U00010000")
PREFIXES = ("", "urn:", "urn:a", "urn:a:", "urn:\uffff", "urn:\U00010000", "v")
RANGES = [{"from": a, "to": b} for a in IDS for b in (*IDS, None) if b is None or a < b]
KEYS = ("k1", "k2")
ANY_CALL = "any"  # a key that calls of every kind are sent with
NAMES = ("b1", "b2", "b3", "b4")
# Commits before a machine first compacts, so that there is something to drop.
COMPACTED_FROM = 6
STRATEGIES = ("fail", "fail", "ours", "theirs", "latest", "paths")

_Answer = TypeVar("_Answer")


def make_machine(openers: Mapping[str, OpenStore], *, shared: bool = True) -> type["SpaceMachine"]:
    """Return a machine for the stores that `openers` open, each in a place of its own.

    shared  places can be opened several times and again; False for stores in memory
    """
    return type("StoreMachine", (SpaceMachine,), {"openers": dict(openers), "shared": shared})


class SpaceMachine(RuleBasedStateMachine):
    """Made by make_machine, which sets the stores it runs."""

    openers: Mapping[str, OpenStore] = {}
    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.model = SpaceModel()
        self.answers: list[Commit] = []  # each version as the stores return it now
        self.made: list[Commit] = []  # each version as it was first returned, before any erasure
        self.sent: dict[str, list[dict[str, Any]]] = {}  # the operations each key was sent with
        # Doing these twice without a write in between would only waste a step.
        self.opened_at = self.verified_at = self.erased_at = 0
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
        self._commit(handle, data.draw(operations(IDS)), branch=self._branch(data))

    @rule(data=st.data(), id=st.sampled_from(IDS), value=documents(), handle=st.integers(0, 1))
    def patch(self, data: st.DataObject, id: str, value: Any, handle: int) -> None:
        """Patch a value so that it applies and histories grow long; then write after a read of one path."""
        branch = data.draw(st.sampled_from(self._living()))
        if not self.model.read(id, branch=branch).exists:
            self._commit(handle, [{"op": "set", "id": id, "value": value}], branch=branch)
        before = self.model.read(id, branch=branch).value
        read = {"id": id, "version": self.model.version, "path": data.draw(pointers_into(before))}
        operation = {"op": "patch", "id": id, "ops": data.draw(patches_for(before))}
        self._commit(handle, [operation], branch=branch)
        other = data.draw(st.sampled_from(IDS))
        sent = [{"op": "set", "id": other, "value": 1}]
        self._commit(handle + 1, sent, reads=[read], branch=branch)

    @rule(data=st.data(), handle=st.integers(0, 1))
    def write_after_reading(self, data: st.DataObject, handle: int) -> None:
        reads = data.draw(st.lists(self._reads(), min_size=1, max_size=3))
        sent = data.draw(operations(IDS, size_max=2))
        self._commit(handle, sent, reads=reads, branch=self._branch(data))

    @rule(
        data=st.data(),
        key=st.sampled_from((*KEYS, ANY_CALL)),
        same=st.booleans(),
        handle=st.integers(0, 1),
    )
    def write_with_key(self, data: st.DataObject, key: str, same: bool, handle: int) -> None:
        """Write with a new key, or with a used one and the same or other operations."""
        made = self.model.commit_of_key(key)
        replayed = self.sent.get(key) if made is not None and same else None
        sent = replayed or data.draw(operations(IDS, size_max=1))
        reads = data.draw(st.lists(self._reads(), max_size=1))
        self._commit(handle, sent, reads=reads, key=key)
        if made is None and self.model.commit_of_key(key) is not None:
            self.sent[key] = sent

    @rule(data=st.data(), handle=st.integers(0, 1))
    def run_transaction(self, data: st.DataObject, handle: int) -> None:
        """Run a transaction that must notice a write of another one between its reads and its end."""
        looked_at = data.draw(st.lists(st.sampled_from(IDS), max_size=2, unique=True))
        prefix = data.draw(st.sampled_from((*PREFIXES, None)))
        limit = data.draw(st.sampled_from((None, 1, 2)))
        branch = data.draw(st.sampled_from(self._living()))
        pinned = self.model.version
        reads: list[dict[str, Any]] = [{"id": id, "version": pinned} for id in looked_at]
        if prefix is not None:
            reads.append(range_read(self.model, prefix, limit, pinned, branch=branch))
        meanwhile = data.draw(st.none() | operations(IDS, size_max=1))
        written, value = data.draw(st.sampled_from(IDS)), data.draw(documents())

        transactions = [world.space(handle, branch).transaction() for world in self.worlds]
        for tx in transactions:
            for id in looked_at:
                self._check_state(tx.read(id), id, self.model.read(id, pinned, branch))
            if prefix is not None:
                found = [state.id for state in tx.scan(prefix, limit=limit)]
                expected = self.model.scan(prefix, limit=limit, version=pinned, branch=branch)
                assert found == expected
        if meanwhile is not None:
            self._commit(handle + 1, meanwhile, branch=self._branch(data))
        sent = [{"op": "set", "id": written, "value": value}]
        answers = [outcome_of(partial(finish, tx, written, value)) for tx in transactions]
        self._compare(answers, sent, reads=reads, key=None, branch=branch)

    def _commit(
        self,
        handle: int,
        sent: list[dict[str, Any]],
        *,
        reads: Sequence[dict[str, Any]] = (),
        key: str | None = None,
        branch: str = "main",
    ) -> None:
        answers = [
            outcome_of(
                partial(world.space(handle, branch).transact, sent, reads=list(reads), key=key)
            )
            for world in self.worlds
        ]
        self._compare(answers, sent, reads=reads, key=key, branch=branch)

    def _compare(
        self,
        answers: list[Commit | RoteError],
        sent: list[dict[str, Any]],
        *,
        reads: Sequence[dict[str, Any]],
        key: str | None,
        branch: str,
    ) -> None:
        """Make the same commit in the model; all stores must have answered as it does."""
        expect = partial(
            self.model.transact, sent, reads=reads, key=key, now=self._now(), branch=branch
        )
        self._compare_commits(answers, expect)

    def _compare_commits(
        self, answers: list[Commit | RoteError], expect: Callable[[], ModelCommit]
    ) -> None:
        try:
            expected = expect()
        except Refused as refused:
            for answer in answers:
                self._check_refusal(answer, refused)
            return
        first = answers[0]
        assert isinstance(first, Commit), f"refused with {first!r}, the model made a commit"
        for other in answers[1:]:
            assert other == first, "two stores made different commits"
        self._take(first, expected)

    def _take(self, first: Commit, expected: ModelCommit) -> None:
        """Compare a commit with the model's, and remember it when it is new."""
        if expected.version <= len(self.answers):
            made = self.answers[expected.version - 1]
            if made.version < self.model.oldest:
                first, made = (replace(one, facts=(), previous=None) for one in (first, made))
            assert first == made, "a key gave another commit back"
        else:
            self._check_commit(first, expected)
            self.answers.append(first)
            self.made.append(first)

    @precondition(lambda self: self.erased_at < self.model.version - 2)
    @rule(
        ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=3),
        key=st.sampled_from((None, "erased", ANY_CALL)),
        handle=st.integers(0, 1),
    )
    def erase(self, ids: list[str], key: str | None, handle: int) -> None:
        self.erased_at = self.model.version
        answers = [
            outcome_of(partial(erase_by, world.space(handle), ids, key)) for world in self.worlds
        ]
        before = self.model.version
        expect = partial(self.model.erase, ids, reason="r", key=key, now=self._now())
        self._compare_commits(answers, expect)
        if self.model.version > before:
            self.answers = [without(commit, ids) for commit in self.answers]

    # -- branches ----------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        name=st.sampled_from(NAMES),
        key=st.sampled_from((None, None, "made", ANY_CALL)),
        handle=st.integers(0, 1),
    )
    def create_branch(self, data: st.DataObject, name: str, key: str | None, handle: int) -> None:
        newest = self.model.version
        at = data.draw(
            st.none() | st.integers(0, newest + 1) | st.integers(max(0, newest - 2), newest)
        )
        parent = self._branch(data)
        ask = CreateBranch(name, parent, at, key)
        answers = [
            outcome_of(partial(world.port(handle).answer, world.space(handle).did, ask))
            for world in self.worlds
        ]
        expect = partial(
            self.model.create_branch, name, parent=parent, at=at, key=key, now=self._now()
        )
        self._compare_commits(answers, expect)

    @rule(
        name=st.sampled_from((*NAMES, "main")),
        key=st.sampled_from((None, None, "gone", ANY_CALL)),
        handle=st.integers(0, 1),
    )
    def delete_branch(self, name: str, key: str | None, handle: int) -> None:
        """Delete a branch, or be refused; then write to it, which the model answers in the same way."""
        answers = [
            outcome_of(partial(world.space(handle).delete_branch, name, key=key))
            for world in self.worlds
        ]
        self._compare_commits(
            answers, partial(self.model.delete_branch, name, key=key, now=self._now())
        )
        if name in self.model.branches:
            self._commit(handle + 1, [{"op": "set", "id": IDS[0], "value": 0}], branch=name)

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(
        data=st.data(),
        on_conflict=st.sampled_from(STRATEGIES),
        key=st.sampled_from((None, None, None, "merged", ANY_CALL)),
        handle=st.integers(0, 1),
    )
    def merge(self, data: st.DataObject, on_conflict: str, key: str | None, handle: int) -> None:
        source, target = self._branch(data), self._branch(data)
        given = data.draw(
            st.just({})
            | st.dictionaries(st.sampled_from(IDS), st.just(DELETE) | documents(), max_size=2)
        )
        ask = Merge(source, target, on_conflict, given, False, key)
        tried = self._merge_in_stores(handle, replace(ask, dry_run=True, key=None))
        answers = self._merge_in_stores(handle, ask)
        try:
            expected = Merging(self.model).merge(
                source, target, on_conflict=on_conflict, resolutions=given, key=key, now=self._now()
            )
        except Refused as refused:
            for answer in answers:
                assert type(answer) is refused.kind, f"{answer!r}, but the model says {refused}"
            return
        for answer in answers:
            self._check_merge(answer, expected)
            assert answer == answers[0], "two stores merged differently"
        is_replayed = expected.commit is not None and expected.commit.version < self.model.version
        if not is_replayed and key is None:
            for answer, trial in zip(answers, tried, strict=True):
                assert isinstance(answer, MergeResult)
                assert isinstance(trial, MergeResult)
                assert replace(answer, commit=None) == trial, "a dry run told something else"

    def _merge_in_stores(self, handle: int, ask: Merge) -> list[MergeResult | RoteError]:
        return [
            outcome_of(partial(world.port(handle).answer, world.space(handle).did, ask))
            for world in self.worlds
        ]

    def _check_merge(self, answer: MergeResult | RoteError, expected: ModelMerge) -> None:
        assert isinstance(answer, MergeResult), f"{answer!r}, but the model merged"
        assert (answer.status, list(answer.merged)) == (expected.status, expected.merged)
        assert [conflict.id for conflict in answer.conflicts] == [
            conflict.id for conflict in expected.conflicts
        ]
        for found, conflict in zip(answer.conflicts, expected.conflicts, strict=True):
            self._check_state(found.ours, found.id, conflict.ours)
            self._check_state(found.theirs, found.id, conflict.theirs)
            assert (found.base.exists, canonical(found.base.value)) == (
                conflict.base.exists, canonical(conflict.base.value),
            )  # fmt: skip
        if expected.commit is None:
            assert answer.commit is None
        else:
            assert answer.commit is not None
            self._take(answer.commit, expected.commit)

    @rule(data=st.data(), handle=st.integers(0, 1))
    def compare(self, data: st.DataObject, handle: int) -> None:
        """Compare a diff with the result of reading both states."""
        places = [(self._branch(data), data.draw(self._versions())) for _ in range(2)]
        expected = []
        for id in self.model.ids():
            before, after = (self.model.read(id, version, branch) for branch, version in places)
            if not same(before, after):
                kind = "changed" if before.exists and after.exists else ""
                kind = kind or ("removed" if before.exists else "added")
                expected.append((id, kind, canonical(before.value), canonical(after.value)))
        for world in self.worlds:
            one, other = (world.space(handle, branch).at(at) for branch, at in places)
            changes = one.diff(other)
            assert expected == [
                (change.id, change.kind, canonical(change.before), canonical(change.after))
                for change in changes
            ]
            for change in changes:
                if change.patch is not None:
                    assert canonical(apply(change.before, change.patch)) == canonical(change.after)

    def _branch(self, data: st.DataObject) -> str:
        """Draw any of the branches, deleted ones too."""
        return data.draw(st.sampled_from(["main", *self.model.branches]))

    def _living(self) -> list[str]:
        rows = self.model.branches.items()
        return [name for name, row in rows if row.deleted_version is None]

    def _now(self) -> str:
        return format_time(micros_of(self.worlds[0].clock.now()))

    # -- reading -----------------------------------------------------------------------------------

    @rule(data=st.data(), handle=st.integers(0, 1))
    def look_back(self, data: st.DataObject, handle: int) -> None:
        version = data.draw(self._versions())
        branch = self._branch(data)
        for world in self.worlds:
            self._check_version(world.space(handle, branch), version, branch)

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
        version = data.draw(st.none() | self._versions())
        branch = self._branch(data)
        expected = self.model.scan(prefix, after=after, limit=limit, version=version, branch=branch)
        for world in self.worlds:
            space = world.space(handle, branch)
            view = space if version is None else space.at(version)
            found = list(view.scan(prefix, after=after, limit=limit))
            assert [state.id for state in found] == expected
            for state in found:
                self._check_state(state, state.id, self.model.read(state.id, version, branch))

    @rule(data=st.data(), id=st.sampled_from(IDS), handle=st.integers(0, 1))
    def look_through_history(self, data: st.DataObject, id: str, handle: int) -> None:
        version = data.draw(self._versions())
        limit = data.draw(st.none() | st.integers(0, 3))
        branch = self._branch(data)
        history = self.model.history(id, version, branch)[:limit]
        expected = [fact for fact in history if fact[0] >= self.model.oldest]
        for world in self.worlds:
            space = world.space(handle, branch).at(version)
            found = space.history(id, limit=limit)
            facts = [fact for fact in found if fact.version >= self.model.oldest]
            assert facts == [self.answers[at - 1].facts[index] for at, index, _ in expected], (
                "the history is not what the commits said"
            )

    @rule(data=st.data(), handle=st.integers(0, 1))
    def read_log(self, data: st.DataObject, handle: int) -> None:
        since = data.draw(st.integers(max(self.model.oldest - 1, 0), self.model.version + 1))
        limit = data.draw(st.none() | st.integers(0, 3))
        for world in self.worlds:
            found = list(world.space(handle).log(since=since, limit=limit))
            assert found == self.answers[since:][:limit]

    @precondition(lambda self: self.model.version > 0)
    @rule(data=st.data(), offset=st.sampled_from((-1, 0, 1)), handle=st.integers(0, 1))
    def look_at_time(self, data: st.DataObject, offset: int, handle: int) -> None:
        commit = data.draw(st.sampled_from(self.model.commits[max(self.model.oldest - 1, 0) :]))
        micros = parse_time(commit.at) + offset
        expected = self.model.version_at(format_time(micros))
        for world in self.worlds:
            found = outcome_of(partial(world.space(handle).at, datetime_of(micros)))
            if isinstance(found, Compacted):
                assert expected < self.model.oldest
            else:
                assert isinstance(found, Space)
                assert found.version == expected

    def _versions(self) -> st.SearchStrategy[int]:
        """Return a strategy for the versions that can be read."""
        return st.just(0) | st.integers(self.model.oldest, self.model.version)

    # -- what happens around a store ---------------------------------------------------------------

    @rule(seconds=st.integers(-5, 10))
    def move_clock(self, seconds: int) -> None:
        for world in self.worlds:
            world.clock.move(seconds=seconds)

    @precondition(lambda self: self.model.version > COMPACTED_FROM)
    @rule(data=st.data(), handle=st.integers(0, 1))
    def compact(self, data: st.DataObject, handle: int) -> None:
        """Compact; no later answer may miss what was dropped, and all stores compute the same
        digest of the rest."""
        newest = self.model.version
        before = data.draw(st.integers(1, newest // 2) | st.integers(1, newest + 1))
        answers = [
            outcome_of(partial(world.space(handle).compact, before=before)) for world in self.worlds
        ]
        first = answers[0]
        checkpoint = {} if isinstance(first, RoteError) else first.checkpoint or {}
        try:
            expected = self.model.compact(before, checkpoint=checkpoint, now=self._now())
        except Refused as refused:
            assert all(type(answer) is refused.kind for answer in answers)
            return
        assert isinstance(first, Compaction) and all(answer == first for answer in answers)
        if expected is None:
            assert first.commit is None
        else:
            assert first.commit is not None
            self._take(first.commit, expected)

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
            facts = [fact for commit in self.answers for fact in commit.facts]
            erased = sum(fact.erased for fact in facts)
            if self.model.oldest:
                assert 0 < report.facts <= len(facts)
                assert report.erased <= erased
            else:
                assert (report.facts, report.erased) == (len(facts), erased)

    @invariant()
    def every_handle_shows_the_present(self) -> None:
        head = self.answers[-1].hash if self.answers else None
        for world in self.worlds:
            for space in world.spaces:
                assert (space.version, space.head) == (self.model.version, head)
                for name in self.model.branches:
                    branch = space if name == "main" else space.on(name)
                    for id in IDS:
                        self._check_state(branch.read(id), id, self.model.read(id, branch=name))

    def teardown(self) -> None:
        with self._stack:
            if len(self.answers) != self.model.version:
                return  # a step failed and has reported it
            check_chain(self.worlds[0].spaces[0].did, self.made)
            for world in self.worlds:
                for space in world.spaces:
                    since = max(self.model.oldest - 1, 0)
                    assert list(space.log(since=since)) == self.answers[since:]
                    self._check_branches(space)
                    for name in self.model.branches:
                        for version in range(self.model.oldest, self.model.version + 1):
                            self._check_version(space.on(name), version, name)
                report = world.spaces[0].verify()
                assert report.ok, report.faults

    # -- comparing ---------------------------------------------------------------------------------

    def _reads(self) -> st.SearchStrategy[dict[str, Any]]:
        """Return a strategy for reads of all kinds: fresh, stale and now and then above the log."""
        newest = self.model.version
        version = st.integers(0, newest) | st.integers(max(0, newest - 1), newest + 1)
        id = st.sampled_from(IDS)
        return st.one_of(
            st.fixed_dictionaries(
                {"id": id, "version": version},
                optional={"branch": st.sampled_from([*self.model.branches, "nowhere"])},
            ),
            st.fixed_dictionaries({"id": id, "version": version, "path": pointers()}),
            st.fixed_dictionaries({"prefix": st.sampled_from(PREFIXES), "version": version}),
            st.builds(lambda a, b: {**a, "version": b}, st.sampled_from(RANGES), version),
        )

    def _check_branches(self, space: Space) -> None:
        expected = [
            Branch(
                name, row.parent, row.fork_version, row.created_version,
                max((c.version for c in self.model.commits if c.branch == name), default=0),
                row.deleted_version is not None,
            )
            for name, row in self.model.branches.items()
        ]  # fmt: skip
        assert space.branches() == expected

    def _check_version(self, space: Space, version: int, branch: str) -> None:
        view = space.at(version)
        head = self.answers[version - 1].hash if version else None
        assert (view.version, view.head) == (version, head)
        found = [state.id for state in view.scan()]
        assert found == self.model.scan(version=version, branch=branch)
        for id in IDS:
            self._check_state(view.read(id), id, self.model.read(id, version, branch))

    def _check_state(self, state: State, id: str, expected: ModelState) -> None:
        assert (state.id, state.exists, state.version) == (id, expected.exists, expected.version)
        assert canonical(state.value) == canonical(expected.value)
        assert state.erased == expected.erased
        written = expected.written or expected.version
        if written:
            facts = [fact for fact in self.answers[written - 1].facts if fact.id == id]
            assert state.hash == facts[-1].hash
        else:
            assert state.hash is None

    def _check_commit(self, commit: Commit, expected: ModelCommit) -> None:
        previous = self.answers[-1].hash if self.answers else None
        assert (commit.version, commit.previous) == (expected.version, previous)
        assert (commit.at, commit.key) == (expected.at, expected.key)
        assert (commit.branch, commit.event) == (expected.branch, expected.event)
        found = [(fact.id, fact.op, canonical(fact.body)) for fact in commit.facts]
        assert found == [(fact.id, fact.op, canonical(fact.body)) for fact in expected.facts]

    def _fact_at(self, version: int, index: int) -> Fact:
        return self.answers[version - 1].facts[index]

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
                    None if conflict.fact is None else self._fact_at(*conflict.fact).hash,
                )
                for conflict in refused.conflicts
            ]
