"""Erasing many entities: one commit names all, and everything understands it as it does one."""

from typing import Any

import pytest

from rote.contract import Commit
from rote.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PayloadMismatch
from rote.kernel.keeping import erasures, selections
from rote.testing.space_suite.ground import A, B, C, SpaceGround, Unchanged, logged, put

P1, P2, P3 = "urn:person:1", "urn:person:2", "urn:person:3"


class ErasureOfManyTests(SpaceGround):
    def write_people(self) -> None:
        """Write three people: one lives, one was deleted, one is only on another branch."""
        other = self.space.create_branch("other")
        self.space.transact([put(P1, "one"), put(P2, "two"), put(B, "kept")], key="both")
        self.space.delete(P2)
        other.set(P3, "three")
        other.set(P1, "one elsewhere")

    def erase_people(self) -> Commit:
        return self.space.erase([P3, P1, P2], reason="asked to").commit

    # -- one commit --------------------------------------------------------------------------------

    @pytest.mark.parametrize("ids", [[P3, P1, P2, P1], {"prefix": "urn:person:"}], ids=str)
    def test_one_commit_names_all_erased_entities_in_order(self, ids: Any) -> None:
        self.write_people()
        newest = self.space.version
        erasure = self.space.erase(ids, reason="asked to")
        assert erasure.commit.event == {
            "type": "erase", "ids": [P1, P2, P3], "reason": "asked to",
        }  # fmt: skip
        assert (erasure.commit.version, erasure.facts) == (newest + 1, 5)
        assert logged(self.space)[-1] == erasure.commit
        for view in (self.space, self.space.on("other")):
            for version in range(self.space.version + 1):
                for id in (P1, P2, P3):
                    assert not view.at(version).read(id).exists
        assert self.space.get(B) == "kept"
        report = self.space.verify()
        assert (report.ok, report.erased) == (True, 5)

    @pytest.mark.parametrize("ids", [[A], [A, A], (A,), {"prefix": "urn:a"}], ids=str)
    def test_one_entity_however_it_is_named_makes_the_event_with_its_id(self, ids: Any) -> None:
        self.space.set(A, 1)
        commit = self.space.erase(ids, reason="asked to").commit
        assert commit.event == {"type": "erase", "id": A, "reason": "asked to"}

    def test_a_prefix_takes_nothing_beside_it(self) -> None:
        for id in ("urn:person:1", "urn:person", "urn:persons", "urn:person:"):
            self.space.set(id, id)
        self.space.erase({"prefix": "urn:person:"}, reason="r")
        left = [state.id for state in self.space.scan()]
        assert left == ["urn:person", "urn:persons"]

    @pytest.mark.parametrize(
        "ids",
        [[A, C], {"prefix": "urn:c"}, C],
        ids=str,
    )
    def test_an_id_that_was_never_written_erases_nothing(self, ids: Any) -> None:
        self.space.transact([put(A, 1), put(B, 2)])
        with Unchanged(self, NotFound):
            self.space.erase(ids, reason="r")

    def test_what_was_erased_before_is_left_out(self) -> None:
        self.space.transact([put(A, 1), put(B, 2), put(C, 3)])
        self.space.erase(B, reason="first")
        second = self.space.erase([A, B, C], reason="second")
        assert second.commit.event is not None
        assert (second.commit.event["ids"], second.facts) == ([A, C], 2)
        self.space.set(B, 4)
        third = self.space.erase({"prefix": "urn:"}, reason="third")
        assert third.commit.event == {"type": "erase", "id": B, "reason": "third"}
        assert self.space.verify().ok

    def test_when_all_were_erased_before_the_newest_of_these_commits_comes_back(self) -> None:
        self.space.transact([put(A, 1), put(B, 2), put(C, 3)])
        self.space.erase([A, B], reason="first")
        second = self.space.erase(C, reason="second")
        for ids in ([A, C], {"prefix": "urn:"}):
            again = self.space.erase(ids, reason="again")
            assert (again.commit, again.facts) == (second.commit, 0)
        assert self.space.version == 3

    # -- bad input ---------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "ids",
        [
            None, 7, [], (), {}, {"prefix": ""}, {"prefix": None}, {"prefix": 7}, {"suffix": "a"},
            {"prefix": "urn:", "more": 1}, {"prefix": "urn:*"}, {"prefix": "a\0b"},
            {"prefix": "\ud800"}, [A, None], [A, "no uri"], [[A]], {A}, [A, "urn:*"],
        ],
        ids=ascii,
    )  # fmt: skip
    def test_other_ways_to_name_entities_are_refused(self, ids: Any) -> None:
        self.space.set(A, 1)
        with Unchanged(self, InvalidInput):
            self.space.erase(ids, reason="r")

    def test_an_erasure_has_a_limit_of_entities(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.space.transact([put(id, 1) for id in (A, B, C)])
        for module in (erasures, selections):
            monkeypatch.setattr(module, "ERASE_ENTITIES_MAX", 2)
        for ids in ([A, B, C], {"prefix": "urn:"}):
            with Unchanged(self, LimitExceeded):
                self.space.erase(ids, reason="r")
        self.space.erase([A, B], reason="r")
        self.space.erase({"prefix": "urn:"}, reason="r")  # what was erased does not count

    def test_the_ids_of_an_erasure_have_a_limit_in_bytes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.space.transact([put(A, 1), put(B, 1)])
        monkeypatch.setattr(erasures, "COMMIT_BYTES_MAX", len(A))
        with Unchanged(self, LimitExceeded):
            self.space.erase([A, B], reason="r")

    # -- keys --------------------------------------------------------------------------------------

    def test_a_key_stands_for_the_erasure_of_several(self) -> None:
        self.space.transact([put(A, 1), put(B, 2)])
        first = self.space.erase([B, A], reason="r", key="e").commit
        self.space.set(A, 3)
        assert self.space.erase((A, B, A), reason="r", key="e").commit == first
        assert self.space.get(A) == 3
        others: list[Any] = [A, [A], {"prefix": "urn:"}, [A, B, C]]
        for ids in others:
            with pytest.raises(PayloadMismatch):
                self.space.erase(ids, reason="r", key="e")
        with pytest.raises(PayloadMismatch):
            self.space.erase([A, B], reason="another", key="e")

    def test_a_list_of_one_is_the_call_with_that_id(self) -> None:
        self.space.set(A, 1)
        first = self.space.erase([A], reason="r", key="e").commit
        assert self.space.erase(A, reason="r", key="e").commit == first

    def test_a_key_whose_digest_is_gone_still_tells_the_calls_apart(self) -> None:
        """An erasure deletes the digests of all keys below the horizon; the event is left."""
        self.space.transact([put(id, 1) for id in (A, B, C, P1, P2)])
        listed = self.space.erase([A, B], reason="r", key="listed").commit
        found = self.space.erase({"prefix": "urn:person:"}, reason="r", key="found").commit
        self.space.compact(before=self.space.version)
        self.space.erase(C, reason="blurs the keys")
        assert self.space.erase([A, B], reason="r", key="listed").commit.hash == listed.hash
        again = self.space.erase({"prefix": "urn:person:"}, reason="r", key="found")
        assert again.commit.hash == found.hash
        wrong: list[tuple[Any, str]] = [
            (A, "listed"), ([A, C], "listed"), ({"prefix": "urn:person:"}, "listed"),
            ({"prefix": "urn:a"}, "found"), (P1, "found"),
        ]  # fmt: skip
        for ids, key in wrong:
            with pytest.raises(PayloadMismatch):
                self.space.erase(ids, reason="r", key=key)

    # -- what must understand it -------------------------------------------------------------------

    @pytest.mark.parametrize("read", [{"id": P2}, {"prefix": "urn:person:"}], ids=str)
    def test_reads_of_any_of_them_conflict(self, read: dict[str, Any]) -> None:
        self.write_people()
        seen = self.space.version
        self.erase_people()
        with pytest.raises(Conflict):
            self.space.transact([put(C, 1)], reads=[{"version": seen, **read}])
        self.space.transact([put(C, 1)], reads=[{"id": B, "version": seen}])

    def test_a_watch_removes_all_erased_entities(self) -> None:
        self.space.transact([put(P1, 1), put(P2, 2), put(B, 3)])
        query: dict[str, Any] = {"select": {"urn:person:*": {}}}
        watch = self.space.watch(query, timeout=0)
        assert [shown["id"] for shown in next(watch)["upserts"]] == [P1, P2]
        self.space.erase([P1, P2], reason="r")
        assert next(watch)["removes"] == [P1, P2]
        (late,) = self.space.watch(query, since=1, timeout=0)
        assert (late["from"], late["upserts"]) == (None, [])

    def test_another_handle_that_has_read_them_sees_them_erased(self) -> None:
        self.write_people()
        others = [self.space.on("other"), self.space.at(self.space.version)]
        for view in others:
            assert view.get(P1) is not None
        self.erase_people()
        for view in others:
            assert view.get(P1) is None

    def test_copies_carry_an_erasure_of_several(self) -> None:
        self.write_people()
        target = self.open_fresh("copy")
        assert self.store.copy("notes", target).ok
        self.erase_people()
        assert self.store.copy("notes", target).ok
        copy = target.space("notes")
        assert logged(copy) == logged(self.space)
        assert (copy.verify().erased, copy.read(P1).erased) == (5, True)
        fresh = self.open_fresh("later")
        assert self.store.copy("notes", fresh).ok
        assert logged(fresh.space("notes")) == logged(self.space)
