"""Merges and branches beside other writers: a plan is written as it is, or made again."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rote.contract.commands import Merge
from rote.engines.sqlite import SqliteEngine
from rote.errors import InvalidInput, RoteError
from rote.kernel.branching import merges
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.space import Space, Store
from rote.testing import StoreSettings, open_on
from rote.testing.postgres import postgres_engine

A, B, C = "urn:a", "urn:b", "urn:c"
THREADS = 8


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        engine: Any = SqliteEngine(tmp_path / "memory.db", durability="os")
        keys: Any = FolderKeys(tmp_path / "keys")
    else:
        engine, keys = postgres_engine(tmp_path), MemoryKeys()
    with open_on(engine, StoreSettings(), keys=keys) as opened:
        yield opened


@pytest.fixture
def space(store: Store) -> Space:
    space = store.space("notes")
    for id in (A, B, C):
        space.set(id, 0)
    space.create_branch("topic")
    space.create_branch("other")
    space.on("topic").set(A, "topic")
    return space


class Meanwhile:
    """Lets something happen after a merge is planned and before it is written: after the first
    plan, the second…"""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
        self.plans = 0
        plan = merges.plan_merge

        def planned(*arguments: Any, **options: Any) -> merges.MergePlan:
            self.plans += 1
            made = plan(*arguments, **options)
            for action in actions[self.plans - 1 : self.plans]:
                action()
            return made

        monkeypatch.setattr(merges, "plan_merge", planned)


def test_a_write_to_another_branch_does_not_disturb_a_plan(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = Meanwhile(monkeypatch, lambda: space.on("other").set(B, "other"))
    result = space.merge("topic")
    assert (result.status, result.merged, meanwhile.plans) == ("merged", (A,), 1)
    assert space.verify().ok


@pytest.mark.parametrize("branch", ["main", "topic"])
def test_a_head_that_moved_is_planned_again(
    space: Space, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    """A merge of the earlier state would lose the write, or name a wrong head."""
    meanwhile = Meanwhile(monkeypatch, lambda: space.on(branch).set(B, branch))
    result = space.merge("topic")
    assert (result.status, meanwhile.plans) == ("merged", 2)
    assert (space.get(A), space.get(B)) == ("topic", branch)
    assert result.merged == ((A,) if branch == "main" else (A, B))
    assert space.verify().ok


def test_a_plan_that_turns_into_a_conflict_writes_nothing(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: space.set(A, "main"))
    version = space.version
    result = space.merge("topic")
    assert (result.status, result.commit) == ("conflict", None)
    assert result.conflicts[0].ours.value == "main"
    assert space.version == version + 1


def test_a_plan_that_turns_into_nothing_writes_nothing(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: space._port.answer(space.did, Merge("topic")))
    result = space.merge("topic")
    assert (result.status, result.commit) == ("nothing", None)


def test_a_plan_that_turned_into_a_conflict_is_not_written_when_others_come_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lock a refusal counts only if nobody has written meanwhile. When somebody had, to a
    third branch, the next attempt found that the new plan still held, and wrote it. That merge took
    nothing over, and nothing was left to merge after it."""
    keys = MemoryKeys()
    with (
        open_on(postgres_engine(tmp_path), StoreSettings(presumes=True), keys=keys) as store,
        open_on(postgres_engine(tmp_path), StoreSettings(presumes=True), keys=keys) as elsewhere,
    ):
        space = store.space("notes")
        space.set(A, 0)
        space.create_branch("topic").set(A, "topic")
        space.create_branch("other")
        others = elsewhere.space("notes")
        Meanwhile(
            monkeypatch, lambda: others.set(A, "main"), lambda: others.on("other").set(B, "other")
        )
        result = space.merge("topic")
        assert (result.status, result.commit) == ("conflict", None)
        assert [commit.event for commit in space.log(since=4)] == [None, None]
        assert space.merge("topic", on_conflict="theirs").merged == (A,)


def test_a_target_that_was_deleted_meanwhile_is_not_written(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: space.delete_branch("other"))
    version = space.version
    with pytest.raises(InvalidInput):
        space.on("other").merge("topic")
    assert space.version == version + 1


def test_branches_merges_and_writes_of_many_threads_all_get_their_turn(space: Space) -> None:
    """A branch or a merge is alone in its transaction; a commit that waits behind it comes next."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            branch = space.create_branch(f"b{number}")
            for turn in range(3):
                branch.set(f"urn:{number}", turn)
                space.set(f"urn:main:{number}", turn)
                space.merge(branch.branch)
            space.delete_branch(branch.branch)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [space.get(f"urn:{number}") for number in range(THREADS)] == [2] * THREADS
    assert [row.deleted for row in space.branches()] == [False] * 3 + [True] * THREADS
    assert space.verify().ok


def test_one_of_many_makers_of_a_name_makes_it(space: Space) -> None:
    outcomes: list[object] = []

    def make() -> None:
        try:
            outcomes.append(space.create_branch("same").branch)
        except RoteError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=make) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == sorted(["same", *[str(InvalidInput)] * (THREADS - 1)])
