"""Side rows through the port: small rows beside the chain, moved by compare-and-set."""

from typing import Any

import pytest

from rote.contract import SideRow
from rote.contract.commands import DropSide, GetSide, ListSides, PutSide
from rote.errors import Denied, InvalidInput, RoteError
from rote.testing.space_suite.ground import A, SpaceGround, Unchanged


class SideRowTests(SpaceGround):
    def test_a_new_row_has_fence_one_and_each_write_adds_one(self) -> None:
        port, did = self.port, self.did
        assert port.answer(did, PutSide("note", "r", {"s": 1}, fence=0)) == SideRow(
            "note", "r", 1, {"s": 1}
        )
        assert port.answer(did, PutSide("note", "r", {"s": 2}, fence=1)) == SideRow(
            "note", "r", 2, {"s": 2}
        )
        assert port.answer(did, GetSide("note", "r")) == SideRow("note", "r", 2, {"s": 2})

    def test_a_row_that_was_never_put_is_none(self) -> None:
        assert self.port.answer(self.did, GetSide("note", "r")) is None

    @pytest.mark.parametrize("fence", [0, 1, 3])
    def test_a_stale_fence_is_denied_and_writes_nothing(self, fence: int) -> None:
        self.port.answer(self.did, PutSide("note", "r", 1, fence=0))
        self.port.answer(self.did, PutSide("note", "r", 2, fence=1))
        with pytest.raises(Denied):
            self.port.answer(self.did, PutSide("note", "r", 3, fence=fence))
        with pytest.raises(Denied):
            self.port.answer(self.did, DropSide("note", "r", fence=fence))
        assert self.port.answer(self.did, GetSide("note", "r")) == SideRow("note", "r", 2, 2)

    def test_a_fence_for_a_row_that_is_not_there_is_denied(self) -> None:
        with pytest.raises(Denied):
            self.port.answer(self.did, PutSide("note", "r", 1, fence=1))
        assert self.port.answer(self.did, GetSide("note", "r")) is None

    def test_a_dropped_row_is_gone_and_can_be_made_anew(self) -> None:
        self.port.answer(self.did, PutSide("note", "r", 1, fence=0))
        self.port.answer(self.did, DropSide("note", "r", fence=1))
        assert self.port.answer(self.did, GetSide("note", "r")) is None
        assert self.port.answer(self.did, PutSide("note", "r", 2, fence=0)).fence == 1

    def test_rows_of_a_kind_are_paged_in_key_order(self) -> None:
        keys = ["1", "10", "2", "é", "\uffff", "\U00010000"]
        for key in reversed(keys):
            self.port.answer(self.did, PutSide("note", key, key, fence=0))
            self.port.answer(self.did, PutSide("queue", key, 0, fence=0))
        found: list[str] = []
        after = ""
        while rows := self.port.answer(self.did, ListSides("note", after=after, limit=4)).rows:
            assert all(row == SideRow("note", row.key, 1, row.key) for row in rows)
            found += [row.key for row in rows]
            after = found[-1]
        assert found == keys

    def test_side_rows_move_no_version_and_change_no_hash(self) -> None:
        self.space.set(A, 1)
        before = (self.space.version, self.space.head)
        self.port.answer(self.did, PutSide("note", "r", {"n": 1}, fence=0))
        assert (self.space.version, self.space.head) == before
        assert self.space.verify().ok

    @pytest.mark.parametrize(
        ("kind", "key"), [("key", "k"), ("checkpoint", "1"), ("note", ""), ("", "r"), ("note", 7)]
    )
    def test_kinds_of_the_kernel_and_empty_names_are_refused(self, kind: str, key: Any) -> None:
        with Unchanged(self, InvalidInput):
            self.port.answer(self.did, PutSide(kind, key, 1, fence=0))
        with Unchanged(self, InvalidInput):
            self.port.answer(self.did, DropSide(kind, key, fence=0))

    def test_bad_bodies_names_and_fences_are_errors_of_ours(self) -> None:
        attempts: list[tuple[Any, Any, Any]] = [
            ("r", float("nan"), 0),
            ("\ud800", 1, 0),
            ("r", 1, -1),
            ("r", 1, 0.0),
            ("r", 1, None),
        ]
        for key, body, fence in attempts:
            with Unchanged(self, RoteError):
                self.port.answer(self.did, PutSide("note", key, body, fence=fence))
        with pytest.raises(RoteError):
            self.port.answer(self.did, GetSide("note", "\ud800"))
        assert self.port.answer(self.did, ListSides("note", after="", limit=9)).rows == ()

    def test_changing_a_body_changes_no_stored_row(self) -> None:
        body: dict[str, list[int]] = {"items": []}
        returned = self.port.answer(self.did, PutSide("note", "r", body, fence=0))
        body["items"].append(1)
        returned.body["items"].append(2)
        row = self.port.answer(self.did, GetSide("note", "r"))
        assert row is not None
        assert row.body == {"items": []}
