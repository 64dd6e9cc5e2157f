"""Erasing records by what they are or ever were, on any branch; nothing else is touched."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rote.contract import Commit
from rote.contract.commands import Erase, FindWritten
from rote.errors import InvalidInput, InvalidValue
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.jobs import Job
from rote.kernel.keeping import selections
from rote.records.keys import key_of
from rote.records.memory import Memory
from rote.testing.space_suite.ground import Unchanged, logged
from rote.testing.space_suite.records import RecordGround

ADA = {"tags": ["ada"]}
OF_ADA = {"tags_any": ["ada"]}
# More than fits into an inline snapshot, so that patches are stored alone.
LONG = "long " * 500


def ids(result: dict[str, Any]) -> list[str]:
    return [key["record_id"] for key in result["erased"]]


class RecordErasureTests(RecordGround):
    def put_fact(self, id: str, metadata: Any = None, *, memory: Memory | None = None) -> None:
        (memory or self.memory).put("long_term", "fact", id, {"text": LONG}, metadata=metadata)

    def erase_records(self, *key: str, **more: Any) -> dict[str, Any]:
        return self.memory.erase(*key, reason="asked to", **more)

    # -- what matches ------------------------------------------------------------------------------

    def test_what_matches_now_or_did_in_its_past_is_erased_by_one_commit(self) -> None:
        self.put_fact("now", ADA)
        self.put_fact("past", ADA)
        self.put_fact("past", {"tags": ["somebody"]})
        self.put_fact("deleted", ADA)
        self.memory.delete("long_term", "fact", "deleted")
        self.put_fact("other", {"tags": ["bob"]})
        self.memory.append("long_term", "log", "patched", {"text": LONG}, metadata=ADA)
        self.memory.append("long_term", "log", "patched", {"text": LONG}, metadata=None)
        newest = self.space.version
        result = self.erase_records(filters=OF_ADA)
        assert result == {
            "ok": True,
            "version": newest + 1,
            "erased": [
                {"namespace": "long_term", "record_kind": kind, "record_id": id}
                for kind, id in (
                    ("fact", "deleted"), ("fact", "now"), ("fact", "past"), ("log", "patched"),
                )
            ],
        }  # fmt: skip
        assert self.space.version == newest + 1
        kept = [item["record_id"] for item in self.memory.list("long_term")["items"]]
        assert kept == ["other"]
        for version in range(1, self.space.version + 1):
            assert self.memory.list("long_term", filters=OF_ADA, at=version)["items"] == []
        report = self.space.verify()
        assert (report.ok, report.erased) == (True, 7)

    def test_a_star_in_a_prefix_of_ids_is_a_star(self) -> None:
        for id in ("a*1", "ab"):
            self.put_fact(id)
        result = self.erase_records("long_term", "fact", id_prefix="a*")
        assert ids(result) == ["a*1"]
        assert self.listed("long_term") == ["ab"]

    def test_expired_and_pruned_records_are_erased(self) -> None:
        for id in ("pruned", "expired"):
            self.memory.put("session", "turn", id, {"text": id}, ttl_seconds=5, metadata=ADA)
            self.clock.move(seconds=10)
            if id == "pruned":
                assert self.memory.prune("session")["pruned"] == 1
        assert ids(self.erase_records(filters=OF_ADA)) == ["expired", "pruned"]

    def test_every_branch_counts_deleted_ones_too(self) -> None:
        for name in ("open", "gone"):
            branch = self.space.create_branch(name)
            self.put_fact(name, ADA, memory=Memory(branch))
        self.space.delete_branch("gone")
        self.put_fact("inherited", {"tags": ["bob"]})
        late = Memory(self.space.create_branch("late"))
        late.append("long_term", "log", "x", {"text": LONG})
        self.memory.append("long_term", "log", "y", {"text": LONG})
        later = Memory(self.space.create_branch("later"))
        # Its first patch on the branch is of an inherited record that has no inline snapshot.
        later.append("long_term", "log", "y", {"text": LONG}, metadata=ADA)
        assert ids(self.erase_records(filters=OF_ADA)) == ["gone", "open", "y"]
        assert self.space.verify().ok

    def test_the_conditions_must_hold_at_the_same_time(self) -> None:
        self.put_fact("1", {"tags": ["ada"], "source": "call"})
        self.put_fact("2", {"tags": ["ada"]})
        self.put_fact("2", {"source": "call"})
        assert ids(self.erase_records(filters={**OF_ADA, "source": "call"})) == ["1"]

    def test_a_record_whose_match_was_compacted_away_is_not_found_by_it(self) -> None:
        self.put_fact("1", ADA)
        self.put_fact("1", None)
        self.put_fact("2", ADA)
        self.space.compact(before=3)
        assert ids(self.erase_records(filters=OF_ADA)) == ["2"]

    @pytest.mark.parametrize(
        ("criteria", "expected"),
        [
            ({"namespace": "ops"}, ["a!b", "a b"]),
            ({"kind": "fact"}, ["a!b", "a b", "ada", "adam"]),
            ({"id": "a b"}, ["a b", "a b"]),
            ({"namespace": "ops", "kind": "fact", "id": "a!b"}, ["a!b"]),
            ({"namespace": "long_term", "kind": "fact", "id_prefix": "ada"}, ["ada", "adam"]),
            ({"id_prefix": "a b"}, ["a b", "a b"]),
            ({"kind": "fact", "id": "ada"}, ["ada"]),
            ({"id": "ad"}, []),
            ({"namespace": "session"}, []),
        ],
        ids=str,
    )  # fmt: skip
    def test_keys_select_too(self, criteria: dict[str, str], expected: list[str]) -> None:
        for key in (
            ("long_term", "fact", "ada"), ("long_term", "fact", "adam"), ("ops", "fact", "a!b"),
            ("ops", "fact", "a b"), ("long_term", "a fact", "a b"),
        ):  # fmt: skip
            self.memory.put(*key, {})
        self.memory.delete("ops", "fact", "a b")
        assert sorted(ids(self.erase_records(**criteria))) == sorted(expected)

    def test_a_namespace_of_another_host_is_found_without_its_name(self) -> None:
        mine = Memory(self.space, namespaces=["mine"])
        mine.put("mine", "fact", "1", {}, metadata=ADA)
        assert ids(self.erase_records(filters=OF_ADA)) == ["1"]

    def test_instants_are_taken_as_datetimes(self) -> None:
        self.put_fact("1")
        moment = datetime(9998, 1, 1, tzinfo=UTC)
        assert ids(self.erase_records(filters={"created_before": moment}, dry_run=True)) == ["1"]

    # -- without a commit --------------------------------------------------------------------------

    def test_a_dry_run_says_which_and_changes_nothing(self) -> None:
        self.put_fact("1", ADA)
        self.memory.delete("long_term", "fact", "1")
        before = logged(self.space)
        told = self.erase_records(filters=OF_ADA, dry_run=True)
        assert (ids(told), told["version"]) == (["1"], None)
        assert logged(self.space) == before

    def test_nothing_found_makes_no_commit(self) -> None:
        self.put_fact("1", {"tags": ["bob"]})
        for dry_run in (False, True):
            result = self.erase_records(filters=OF_ADA, dry_run=dry_run)
            assert result == {"ok": True, "erased": [], "version": None}
        assert self.space.version == 1

    def test_what_was_erased_is_not_found_again(self) -> None:
        self.put_fact("1", ADA)
        assert ids(self.erase_records("long_term")) == ["1"]
        assert self.erase_records("long_term") == {"ok": True, "erased": [], "version": None}
        self.put_fact("1")
        assert self.erase_records(filters=OF_ADA)["erased"] == []
        assert ids(self.erase_records("long_term")) == ["1"]

    # -- beside writers ----------------------------------------------------------------------------

    @pytest.mark.parametrize("most", [1, 1_000])
    def test_what_is_written_while_it_looks_is_erased_too(
        self, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Records are looked for before the lock is taken, so one may come in between."""
        self.put_fact("1", ADA)
        self.put_fact("changed", {"tags": ["bob"]})
        commit = Committer.run
        monkeypatch.setattr(selections, "CACHE_CATCH_UP_MAX", most)

        def write_first(committer: Committer, job: Job) -> Commit | None:
            monkeypatch.setattr(Committer, "run", commit)
            self.put_fact("2", ADA)
            self.put_fact("3", {"tags": ["bob"]})
            self.put_fact("changed", ADA)
            return commit(committer, job)

        monkeypatch.setattr(Committer, "run", write_first)
        assert ids(self.erase_records(filters=OF_ADA)) == ["1", "2", "changed"]

    def test_what_another_call_erases_meanwhile_is_not_told_as_erased_by_this_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The answer was the commit of the other call, with its version and its records."""
        for id in "12":
            self.put_fact(id, ADA)
        commit = Committer.run

        def erase_first(committer: Committer, job: Job) -> Commit | None:
            monkeypatch.undo()
            self.space.erase([Memory.entity_id("long_term", "fact", id) for id in "12"], reason="x")
            return commit(committer, job)

        monkeypatch.setattr(Committer, "run", erase_first)
        assert self.erase_records(filters=OF_ADA) == {"ok": True, "erased": [], "version": None}
        assert self.space.version == 3

    @pytest.mark.parametrize("most", [4_096, 1])
    def test_a_record_that_comes_after_another_erasure_is_judged_by_itself(
        self, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        """The record was erased with what had matched under its id before."""
        for id in ("new", "old"):
            self.put_fact(id, ADA)
        commit = Committer.run
        monkeypatch.setattr(selections, "CACHE_CATCH_UP_MAX", most)

        def erase_and_put(committer: Committer, job: Job) -> Commit | None:
            monkeypatch.setattr(Committer, "run", commit)
            self.space.erase(Memory.entity_id("long_term", "fact", "new"), reason="meanwhile")
            self.put_fact("new", {"tags": ["bob"]})
            return commit(committer, job)

        monkeypatch.setattr(Committer, "run", erase_and_put)
        assert ids(self.erase_records(filters=OF_ADA)) == ["old"]
        assert self.listed("long_term", filters={"tags_any": ["bob"]}) == ["new"]

    # -- bad input ---------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "criteria",
        [
            {}, {"filters": {}}, {"filters": {"tags_any": []}}, {"filters": {"source": None}},
            {"namespace": "long_term", "filters": {"tags_any": []}}, {"filters": {"unknown": 1}},
            {"filters": {"tags_any": ["a"], "limit": 1}}, {"filters": {"source": "a", "offset": 1}},
            {"filters": 7}, {"filters": {"created_after": "yesterday"}}, {"namespace": "unknown"},
            {"namespace": 7}, {"kind": ""}, {"kind": 7}, {"id": ""}, {"id": 7}, {"id_prefix": ""},
            {"id_prefix": 7}, {"id": "\ud800"}, {"namespace": "ops", "dry_run": "no"},
        ],
        ids=ascii,
    )  # fmt: skip
    def test_a_call_without_a_criterion_or_with_a_bad_one_is_refused(
        self, criteria: dict[str, Any]
    ) -> None:
        self.put_fact("1", ADA)
        with Unchanged(self, InvalidInput):
            self.erase_records(**criteria)

    @pytest.mark.parametrize("reason", ["", None, 7])
    def test_an_erasure_of_records_needs_a_reason(self, reason: Any) -> None:
        self.put_fact("1", ADA)
        for dry_run in (False, True):
            with Unchanged(self, InvalidInput):
                self.memory.erase("long_term", reason=reason, dry_run=dry_run)

    def test_the_first_profile_has_no_erase(self) -> None:
        with pytest.raises(InvalidInput, match="erase"):
            Memory(self.space, profile="v1").erase("long_term", reason="r")

    def test_a_pinned_view_erases_nothing(self) -> None:
        self.put_fact("1", ADA)
        with pytest.raises(InvalidInput):
            Memory(self.space.at(1)).erase("long_term", reason="r")

    @pytest.mark.parametrize(
        ("prefix", "where"),
        [
            ("record:", 7), ("record:", {"unknown": 1}), ("record:", {"kind": 7}),
            ("record:", {"filters": {"limit": 1}}), ("record:", {"filters": {}}),
            ("urn:", {"kind": "fact"}), (None, {"kind": "fact"}),
        ],
        ids=str,
    )  # fmt: skip
    def test_conditions_that_nobody_can_read_are_refused(self, prefix: Any, where: Any) -> None:
        self.put_fact("1", ADA)
        with Unchanged(self, InvalidInput):
            self.port.answer(self.did, Erase("r", prefix=prefix, where=where))
        if prefix is not None:
            with pytest.raises(InvalidInput):
                self.port.answer(self.did, FindWritten(prefix, where))

    # -- ids that were written ---------------------------------------------------------------------

    def test_ids_with_content_are_listed_in_pages(self) -> None:
        for id in ("urn:p:1", "urn:p:2", "urn:p:3", "urn:q"):
            self.space.set(id, id)
        self.space.delete("urn:p:1")
        self.space.erase("urn:p:2", reason="r")
        assert list(self.space.written("urn:p:")) == ["urn:p:1", "urn:p:3"]
        page = self.port.answer(self.did, FindWritten("urn:", limit=2))
        assert page == ("urn:p:1", "urn:p:3")
        assert self.port.answer(self.did, FindWritten("urn:", after=page[-1])) == ("urn:q",)
        for bad in (("", None), ("urn:*", None), (7, None), ("urn:", "no uri")):
            with pytest.raises((InvalidInput, InvalidValue)):
                self.port.answer(self.did, FindWritten(bad[0], after=bad[1]))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "key", [("ops", "k", "1"), ("ops", "a b", "!"), ("ops", "\t", " !!"), ("a-b", "é", "x!21")]
    )
    def test_the_id_of_a_record_tells_its_key(self, key: tuple[str, str, str]) -> None:
        assert key_of(Memory.entity_id(*key)) == key
        assert key_of(Memory.entity_id(*key)[:-1]) is None
        assert key_of(f"urn:{Memory.entity_id(*key)}") is None
