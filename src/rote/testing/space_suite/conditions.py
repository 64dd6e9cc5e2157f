"""Conditions of writes beside their reads: `unchanged_since` of a commit, `only_if` of other commands."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from msgspec import structs

from rote.contract import OnlyIf
from rote.contract.commands import (
    Command,
    Compact,
    CreateBranch,
    DeleteBranch,
    DropSide,
    Erase,
    GetSide,
    MakeCommit,
    Merge,
    PutBlob,
    PutPiece,
    PutSide,
)
from rote.errors import Conflict, InvalidInput, NotFound, ReadConflict
from rote.testing.space_suite.ground import A, B, C, SpaceGround, Unchanged, answered, put


class ConditionTests(SpaceGround):
    # -- unchanged_since ---------------------------------------------------------------------------

    def test_a_commit_may_rely_on_the_version_of_the_whole_space(self) -> None:
        self.space.set(A, 1)
        self.space.create_branch("other").set(B, 1)
        with Unchanged(self, Conflict) as caught:
            answered(self, MakeCommit([put(C, 1)], unchanged_since=2))
        assert isinstance(caught.value, Conflict)
        assert caught.value.conflicts == (ReadConflict(None, None, "", None, "main", 2, 3, None),)
        assert answered(self, MakeCommit([put(C, 1)], unchanged_since=3)).version == 4
        assert answered(self, MakeCommit([put(C, 2)], unchanged_since=9)).version == 5

    def test_a_repeated_commit_is_answered_though_the_space_has_moved(self) -> None:
        command = MakeCommit([put(A, 1)], unchanged_since=0, key="k")
        first = answered(self, command)
        self.space.set(A, 2)
        assert answered(self, command) == first

    @pytest.mark.parametrize("since", ["1", 1.0, True])
    def test_unchanged_since_is_a_version(self, since: Any) -> None:
        with Unchanged(self, InvalidInput):
            answered(self, MakeCommit([put(A, 1)], unchanged_since=since))

    # -- only_if -----------------------------------------------------------------------------------

    def conditional_writes(self) -> Iterator[Command[Any]]:
        """Yield every writing command without reads, each where it would do something."""
        self.space.transact([put(A, 1), put(B, 1)])
        self.space.create_branch("done").set(C, 1)
        answered(self, PutSide("note", "n", 1, fence=0))
        yield CreateBranch("new")
        yield Merge("done")
        yield DeleteBranch("done")
        yield PutBlob(answered(self, PutPiece(None, 0, b"bytes")))
        yield PutSide("note", "n", 2, fence=1)
        yield DropSide("note", "n", fence=2)
        yield Erase("asked to", B)
        yield Compact(before=4)

    def test_every_write_without_reads_may_rely_on_one_fact(self) -> None:
        for command in self.conditional_writes():
            row = answered(self, GetSide("note", "n"))
            for only_if in (OnlyIf(A, 0), OnlyIf(A, 9), OnlyIf("urn:new", 1)):
                with Unchanged(self, Conflict):
                    answered(self, structs.replace(command, only_if=only_if))
            assert answered(self, GetSide("note", "n")) == row
            answered(self, structs.replace(command, only_if=OnlyIf(A, 1)))
        assert answered(self, GetSide("note", "n")) is None
        assert self.space.verify().ok

    def test_a_conflict_names_the_newest_fact(self) -> None:
        self.space.set(A, 1)
        newest = self.space.set(A, 2)
        with Unchanged(self, Conflict) as caught:
            answered(self, CreateBranch("new", only_if=OnlyIf(A, 1)))
        assert isinstance(caught.value, Conflict)
        hash = newest.facts[0].hash
        assert caught.value.conflicts == (ReadConflict(A, None, None, None, "main", 1, 2, hash),)

    def test_a_fact_counts_on_its_own_branch(self) -> None:
        self.space.set(A, 1)
        self.space.create_branch("other").set(A, 2)
        for version, branch in ((1, "main"), (3, "other")):
            answered(self, CreateBranch(f"from-{branch}", only_if=OnlyIf(A, version, branch)))
        with Unchanged(self, Conflict):
            answered(self, CreateBranch("new", only_if=OnlyIf(A, 3, "main")))
        with Unchanged(self, NotFound):
            answered(self, CreateBranch("new", only_if=OnlyIf(A, 0, "nowhere")))

    def test_an_entity_that_was_never_written_has_version_0(self) -> None:
        assert answered(self, CreateBranch("new", only_if=OnlyIf(A, 0))).version == 1

    def test_deleted_and_erased_entities_have_another_newest_fact(self) -> None:
        self.space.set(A, 1)
        self.space.delete(A)
        with Unchanged(self, Conflict):
            answered(self, CreateBranch("new", only_if=OnlyIf(A, 1)))
        answered(self, CreateBranch("new", only_if=OnlyIf(A, 2)))
        self.space.set(A, 3)
        self.space.erase(A, reason="asked to")
        with Unchanged(self, Conflict):
            answered(self, CreateBranch("newer", only_if=OnlyIf(A, 4)))
        answered(self, CreateBranch("newer", only_if=OnlyIf(A, self.space.read(A).version)))

    def test_a_repeated_write_is_answered_though_the_fact_is_old(self) -> None:
        self.space.set(A, 1)
        command = CreateBranch("new", attempt="1" * 32, only_if=OnlyIf(A, 1))
        first = answered(self, command)
        self.space.set(A, 2)
        assert answered(self, command) == first

    @pytest.mark.parametrize(
        "only_if",
        [
            OnlyIf("no uri", 1),
            OnlyIf(A, -1),
            OnlyIf(A, cast(Any, 1.0)),
            OnlyIf(A, 1, ""),
            "urn:a",
            {"id": A},
        ],
        ids=ascii,
    )
    def test_a_malformed_condition_is_refused(self, only_if: Any) -> None:
        for command in self.conditional_writes():
            with Unchanged(self, InvalidInput):
                answered(self, structs.replace(command, only_if=only_if))
            break
        with Unchanged(self, InvalidInput):
            answered(self, PutSide("note", "m", 1, fence=0, only_if=only_if))
