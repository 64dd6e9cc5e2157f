"""The ACL of a space: granted, withdrawn, rotated and revoked by ordinary commits on main."""

from typing import Any

import pytest

from rote.contract.commands import (
    DropSides,
    GetSide,
    ListSides,
    PutSide,
    Query,
    Values,
    Watch,
)
from rote.errors import InvalidInput
from rote.testing.keys import did_of, lend
from rote.testing.space_suite.ground import B, SpaceGround, Unchanged, put

ADA, BEN = did_of("ada"), did_of("ben")


class RightTests(SpaceGround):
    def test_a_space_has_no_acl_until_something_is_granted(self) -> None:
        assert self.space.acl() is None
        commit = self.space.grant(ADA, "owner")
        acl = {"kind": "acl/1", "grants": {ADA: "owner"}, "root": "owner", "revoked": {}}
        assert self.space.acl() == acl
        assert self.space.get(self.did) == acl
        assert [(fact.id, fact.op) for fact in commit.facts] == [(self.did, "set")]

    def test_rights_are_granted_changed_withdrawn_and_rotated(self) -> None:
        self.space.grant(ADA, "owner")
        self.space.grant(BEN, "read")
        self.space.grant(BEN, "write")
        self.space.grant("*", "read")
        assert self._grants() == {ADA: "owner", BEN: "write", "*": "read"}
        self.space.withdraw(BEN)
        self.space.withdraw("*")
        assert self._grants() == {ADA: "owner"}
        self.space.rotate(ADA, BEN)
        assert self._grants() == {BEN: "owner"}
        assert self.space.version == 7

    def test_the_last_named_owner_cannot_be_withdrawn(self) -> None:
        self.space.grant(ADA, "owner")
        with Unchanged(self, InvalidInput):
            self.space.withdraw(ADA)
        with Unchanged(self, InvalidInput):
            self.space.grant(ADA, "read")
        self.space.grant(BEN, "owner")
        self.space.withdraw(ADA)
        assert self._grants() == {BEN: "owner"}

    def test_bad_arguments_change_nothing(self) -> None:
        self.space.grant(ADA, "owner")
        other = lend("ada", "ben", space=did_of("other"))
        calls: list[tuple[str, tuple[Any, ...]]] = [
            ("grant", ("ben", "read")),
            ("grant", (BEN, "all")),
            ("grant", (None, "read")),
            ("withdraw", (BEN,)),
            ("withdraw", (None,)),
            ("rotate", (BEN, ADA)),
            ("rotate", (ADA, "ben")),
            ("revoke", ("x",)),
            ("revoke", (None,)),
            ("revoke", ({},)),
            ("revoke", (other,)),
        ]
        for call, arguments in calls:
            with Unchanged(self, InvalidInput):
                getattr(self.space, call)(*arguments)

    def test_a_delegation_is_revoked_until_it_would_have_ended(self) -> None:
        lent = lend("ada", "ben", space=self.did, seconds=60)
        self.space.revoke(lent)
        self.space.revoke("a" * 64)
        revoked = (self.space.acl() or {})["revoked"]
        assert sorted(revoked.values()) == ["2026-01-01T12:01:00Z", "9999-12-31T23:59:59Z"]
        self.clock.move(seconds=60)
        self.space.revoke("b" * 64)
        assert sorted((self.space.acl() or {})["revoked"]) == ["a" * 64, "b" * 64]

    def test_the_acl_is_that_of_main_whatever_the_branch(self) -> None:
        branch = self.space.create_branch("side")
        branch.grant(ADA, "owner")
        assert branch.acl() is not None
        assert branch.acl() == self.space.acl()
        assert branch.get(self.did) is None
        assert self.space.get(self.did) is not None

    def test_a_pinned_view_shows_the_acl_of_then_and_changes_nothing(self) -> None:
        self.space.grant(ADA, "owner")
        then = self.space.at(1)
        self.space.grant(BEN, "read")
        assert (then.acl() or {})["grants"] == {ADA: "owner"}
        with Unchanged(self, InvalidInput):
            then.grant(BEN, "owner")

    @pytest.mark.parametrize("how", ["delete", "erase", "nonsense"])
    def test_an_acl_that_cannot_be_read_is_set_whole_again(self, how: str) -> None:
        self.space.grant(ADA, "owner")
        if how == "delete":
            self.space.delete(self.did)
        elif how == "erase":
            self.space.erase(self.did, reason="a test")
        else:
            self.space.set(self.did, {"kind": "acl/1", "grants": {"ada": "owner"}})
        with Unchanged(self, InvalidInput):
            self.space.grant(BEN, "read")
        if how != "erase":
            self.space.set(self.did, {"kind": "acl/1", "grants": {ADA: "owner"}})
            self.space.grant(BEN, "read")
            assert self._grants() == {ADA: "owner", BEN: "read"}

    def test_a_query_within_a_path_shows_nothing_beyond_it(self) -> None:
        link = {"/": {"link@1": {"id": B}}}
        inner = {"/": {"link@1": {"id": "urn:a:c"}}}
        self.space.transact([put("urn:a:b", [link, inner]), put("urn:a:c", 1), put(B, "secret")])
        asked: dict[str, Any] = {"select": {"urn:a:b": {"schema": True}}}
        whole = self.port.answer(self.did, Query(asked))
        assert (sorted(whole["facts"]), whole["missing"]) == (["urn:a:b", "urn:a:c", B], [])
        bound = self.port.answer(self.did, Query(asked, path="urn:a:"))
        assert (sorted(bound["facts"]), bound["missing"]) == (["urn:a:b", "urn:a:c"], [B])
        values = self.port.answer(self.did, Values(asked, path="urn:a:"))
        assert values["values"] == {"urn:a:b": [link, 1]}
        watching = self.port.watch(self.did, Watch(asked, path="urn:a:"))
        first = watching.next(5) or {}
        assert sorted(each["id"] for each in first["upserts"]) == ["urn:a:b", "urn:a:c"]
        self.space.set(B, "another")
        assert watching.next(0) is None
        self.space.set("urn:a:c", 2)
        assert [each["id"] for each in (watching.next(5) or {})["upserts"]] == ["urn:a:c"]
        watching.close()

    def test_many_side_rows_are_dropped_at_once_and_those_that_moved_stay(self) -> None:
        for key in "abc":
            self.port.answer(self.did, PutSide("note", key, {}, 0))
        self.port.answer(self.did, PutSide("note", "b", {}, 1))
        rows = (("a", 1), ("b", 1), ("x", 1))
        self.port.answer(self.did, DropSides("note", rows))
        left = self.port.answer(self.did, ListSides("note"))
        assert [(row.key, row.fence) for row in left.rows] == [("b", 2), ("c", 1)]
        with pytest.raises(InvalidInput):
            self.port.answer(self.did, DropSides("key", (("a", 1),)))
        with pytest.raises(InvalidInput):
            self.port.answer(self.did, DropSides("note", (("c", "1"),)))  # type: ignore[arg-type]
        assert self.port.answer(self.did, GetSide("note", "c")) is not None

    def _grants(self) -> Any:
        return (self.space.acl() or {})["grants"]
