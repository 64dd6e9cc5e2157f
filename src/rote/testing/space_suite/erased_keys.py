"""Keys whose digest an erasure has deleted: they still stand for their calls, as far as the log tells."""

from collections.abc import Callable
from typing import Any

from rote.contract import Commit, Compaction, MergeResult
from rote.contract.commands import CopyOut, CreateBranch
from rote.errors import PayloadMismatch
from rote.testing.space_suite.ground import A, B, C, SpaceGround, Unchanged, put


class ErasedKeyTests(SpaceGround):
    def create(self, name: str, at: int, *, parent: str = "main", key: str) -> Commit:
        """Create a branch at a version that may have been compacted since."""
        return self.port.answer(self.did, CreateBranch(name, parent, at, key))

    def test_the_key_of_a_commit_that_wrote_it_is_compared_by_all_but_the_values(self) -> None:
        """No digest is left to compare a repetition with. Other keys are compared as ever."""
        made = self.space.transact([put(A, 4711), put(B, 1)], key="k")
        self.space.set(B, 2, key="l")
        self.space.erase(A, reason="asked to")
        for value in (4711, 4712):
            again = self.space.transact([put(A, value), put(B, 1)], key="k")
            assert (again.version, again.hash) == (made.version, made.hash)
        other = self.space.create_branch("other")
        mismatches: list[Callable[[], object]] = [
            lambda: self.space.set(B, 3, key="l"),
            lambda: self.space.set(B, 1, key="k"),
            lambda: self.space.transact([put(B, 1), put(A, 4711)], key="k"),
            lambda: other.transact([put(A, 4711), put(B, 1)], key="k"),
            lambda: self.space.create_branch("third", key="k"),
        ]
        for call in mismatches:
            with Unchanged(self, PayloadMismatch):
                call()
        self.space.compact(before=self.space.version)
        assert self.space.transact([put(A, 4711), put(B, 1)], key="k").version == made.version

    def test_the_key_of_a_merge_tells_nothing_of_its_resolutions(self) -> None:
        """A resolution that changes nothing leaves no fact, and was part of the digest."""
        self.space.set(A, 1)
        other = self.space.create_branch("other")
        other.set(A, 2)
        self.space.set(A, 3)
        merged = self.space.merge("other", resolutions={A: 3}, key="m")
        assert merged.commit is not None
        assert merged.commit.facts == ()
        self.space.erase(A, reason="asked to")
        [row] = self.port.answer(self.did, CopyOut(since=0, until=self.space.version)).keys
        assert row.body == {"payload": None, "version": merged.commit.version}
        again = self.space.merge("other", resolutions={A: 4}, key="m")
        assert again.commit == merged.commit

    def test_the_key_of_a_merge_stands_for_no_other_call_when_its_digest_is_gone(self) -> None:
        """Any call that records an event was taken for the merge: an erasure was confirmed and not done."""
        self.space.transact([put(A, 1), put(B, 1)])
        other = self.space.create_branch("other")
        other.set(A, 2)
        version = version_of(self.space.merge("other", key="m"))
        self.space.erase(A, reason="asked to")
        other.set(C, 3)
        mismatches: list[Callable[[], object]] = [
            lambda: self.space.erase(B, reason="asked to", key="m"),
            lambda: self.space.create_branch("third", key="m"),
            lambda: self.space.delete_branch("other", key="m"),
            lambda: self.space.compact(before=3, key="m"),
            lambda: other.merge("main", key="m"),
            lambda: self.space.set(A, 2, key="m"),
        ]
        for call in mismatches:
            with Unchanged(self, PayloadMismatch):
                call()
        assert version_of(self.space.merge("other", key="m")) == version

    def test_keys_of_events_are_compared_by_what_the_events_tell(self) -> None:
        """An erasure deletes the digests of all keys below the horizon."""
        for number in range(4):
            self.space.set(A, number)
        self.space.create_branch("one", key="create")
        self.space.create_branch("two", at=2, key="create at")
        self.space.delete_branch("two", key="delete")
        self.space.set(B, 1)
        self.space.erase(B, reason="asked to", key="erase")
        self.space.compact(before=2, key="before")
        self.space.set(A, 5)
        self.space.compact(keep=6, key="keep")
        self.space.compact(before=self.space.version)
        self.space.erase(A, reason="asked to")
        again = [
            self.space.create_branch("one", key="create").branch,
            self.create("one", 4, key="create").branch,
            self.create("two", 2, key="create at").branch,
        ]
        assert again == ["one", "one", "two"]
        assert self.space.delete_branch("two", key="delete").version == 7
        assert self.space.erase(B, reason="asked to", key="erase").commit.version == 9
        assert version_of(self.space.compact(before=2, key="before")) == 10
        assert version_of(self.space.compact(keep=6, key="keep")) == 12
        mismatches: list[Callable[[], object]] = [
            lambda: self.space.create_branch("three", key="create"),
            lambda: self.create("one", 3, key="create"),
            lambda: self.create("two", 2, parent="one", key="create at"),
            lambda: self.space.create_branch("two", key="create at"),
            lambda: self.space.delete_branch("one", key="delete"),
            lambda: self.space.erase(A, reason="asked to", key="erase"),
            lambda: self.space.erase(B, reason="another", key="erase"),
            lambda: self.space.compact(before=3, key="before"),
            lambda: self.space.compact(keep=5, key="keep"),
            lambda: self.space.merge("one", key="delete"),
        ]
        for call in mismatches:
            with Unchanged(self, PayloadMismatch):
                call()

    def test_a_key_stands_for_no_other_kind_of_operation_when_its_digest_is_gone(self) -> None:
        patch: Any = {"op": "patch", "id": A, "ops": [{"op": "add", "path": "/n", "value": 1}]}
        self.space.transact([put(A, {})], key="set")
        self.space.transact([patch], key="patch")
        self.space.delete(A, key="delete")
        self.space.transact([{**patch, "else": {}}], key="else")
        self.space.erase(A, reason="asked to")
        calls: dict[str, list[str]] = {
            "set": ["set", "else"], "patch": ["patch", "else"], "delete": ["delete"],
            "else": ["set", "else"],
        }  # fmt: skip
        sent = {
            "set": put(A, {}), "patch": patch, "delete": {"op": "delete", "id": A},
            "else": {**patch, "else": {}},
        }  # fmt: skip
        for version, (key, kinds) in enumerate(calls.items(), start=1):
            for kind, operation in sent.items():
                if kind in kinds:
                    assert self.space.transact([operation], key=key).version == version
                else:
                    with Unchanged(self, PayloadMismatch):
                        self.space.transact([operation], key=key)


def version_of(result: MergeResult | Compaction) -> int:
    assert result.commit is not None
    return result.commit.version
