"""Determinism: equal inputs give equal bytes, in every store."""

import pytest

from rote.errors import InvalidInput, NotFound
from rote.space import Space
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds
from rote.testing.space_suite.ground import A, B, SpaceGround, add, change, logged, put, remove


class DeterminismTests(SpaceGround):
    def _story(self, name: str, *, seed: int = 1) -> Space:
        clock = FixedClock()
        space = self.open_fresh(name, clock=clock, ids=SeededIds(seed)).space("x")
        space.transact([put(B, {"n": 1}), put(A, [1, 2])], meta={"z": 1, "a": 2})
        clock.move(seconds=0.25)
        space.transact([change(A, add("/-", 3.0)), remove(B)], key="k")
        space.set(B, {"b": 1, "a": 2})
        return space

    def test_two_stores_with_equal_ids_clock_and_writes_have_equal_logs(self) -> None:
        one, two = self._story("one"), self._story("two")
        assert (one.did, one.head) == (two.did, two.head)
        assert logged(one) == logged(two)

    def test_other_salts_make_another_head(self) -> None:
        assert self._story("one").head != self._story("two", seed=2).head

    def test_refused_writes_between_leave_the_heads_equal(self) -> None:
        one, two = self._story("one"), self._story("two")
        with pytest.raises(NotFound):
            two.transact([put("urn:refused", 1), remove("urn:never")])
        with pytest.raises(InvalidInput):
            two.set("no id", 1)
        one.set("urn:new", 1)
        two.set("urn:new", 1)
        assert one.head == two.head

    def test_reading_changes_no_hash(self) -> None:
        one, two = self._story("one"), self._story("two")
        list(two.scan())
        two.read(A)
        two.at(1).get(A)
        two.verify()
        two.checkpoint()
        one.set("urn:new", 1)
        two.set("urn:new", 1)
        assert one.head == two.head

    def test_members_in_another_order_make_the_same_fact(self) -> None:
        one, two = self._story("one"), self._story("two")
        first = one.set(A, {"x": 1, "y": {"b": 1.0, "a": 2}})
        second = two.set(A, {"y": {"a": 2, "b": 1}, "x": 1})
        assert first == second
