"""Views: the space as it was at a version or at a time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rote.contract import Head, View
from rote.contract.commands import GetHead, Read
from rote.errors import InvalidInput, NotFound, VersionNotFound
from rote.testing.clocks import START
from rote.testing.space_suite.ground import A, B, SpaceGround, Unchanged, add, logged, put, remove
from rote.values import micros_of


class ViewTests(SpaceGround):
    def test_every_version_reads_as_it_was(self) -> None:
        self.space.set(A, {"n": 1})
        self.space.patch(A, [add("/m", 2)])
        self.space.delete(A)
        self.space.set(A, "again")
        values = [self.space.at(version).get(A, "absent") for version in range(5)]
        assert values == ["absent", {"n": 1}, {"n": 1, "m": 2}, "absent", "again"]

    def test_a_state_says_which_write_made_it(self) -> None:
        first = self.space.set(A, 1)
        self.space.set(B, 1)
        state = self.space.at(2).read(A)
        assert (state.version, state.hash) == (1, first.facts[0].hash)

    def test_version_zero_is_empty(self) -> None:
        self.space.set(A, 1)
        empty = self.space.at(0)
        assert (empty.version, empty.head) == (0, None)
        assert list(empty.scan()) == []
        assert (empty.read(A).exists, empty.read(A).version) == (False, 0)
        assert empty.history(A) == []

    def test_version_zero_of_a_space_that_was_never_written_is_there(self) -> None:
        assert self.space.at(0).get(A) is None

    def test_a_version_above_the_log_is_not_found(self) -> None:
        self.space.set(A, 1)
        with pytest.raises(VersionNotFound) as caught:
            self.space.at(2)
        assert caught.value.details == {"version": 2, "newest": 1}

    @pytest.mark.parametrize("point", [-1, 1.0, True, "1", None, datetime(2026, 1, 1)])
    def test_only_versions_and_aware_times_are_points(self, point: object) -> None:
        self.space.set(A, 1)
        with Unchanged(self, InvalidInput):
            self.space.at(point)  # type: ignore[arg-type]

    def test_a_view_has_the_version_and_the_head_of_its_commit(self) -> None:
        hashes = [self.space.set(A, number).hash for number in range(3)]
        view = self.space.at(2)
        assert (view.version, view.head) == (2, hashes[1])

    def test_a_view_is_one_state_whatever_is_written_later(self) -> None:
        self.space.transact([put(A, 1), put(B, 1)])
        view = self.space.at(1)
        before = (list(view.scan()), view.read(A), view.history(A), view.head)
        self.space.transact([put(A, 2), remove(B), put("urn:new", 1)])
        self.space.set(B, 3)
        assert (list(view.scan()), view.read(A), view.history(A), view.head) == before

    def test_a_view_of_the_newest_version_stays_there(self) -> None:
        self.space.set(A, 1)
        view = self.space.at(self.space.version)
        assert view.get(A) == 1
        self.space.set(A, 2)
        assert (view.get(A), self.space.get(A)) == (1, 2)

    def test_a_view_refuses_every_write(self) -> None:
        self.space.set(A, {})
        view = self.space.at(1)
        for write in (
            lambda: view.set(A, 1),
            lambda: view.patch(A, [add("/n", 1)]),
            lambda: view.delete(A),
            lambda: view.transact([put(A, 1)]),
            lambda: view.update(A, lambda value: value),
            view.transaction,
            # These change what is stored, but no answer.
            view.gc,
            view.reindex,
        ):
            with Unchanged(self, InvalidInput):
                write()

    def test_a_view_can_be_taken_further_back(self) -> None:
        for number in range(3):
            self.space.set(A, number)
        assert self.space.at(3).at(1).get(A) == 0

    def test_the_log_is_the_whole_spaces_whatever_the_view(self) -> None:
        self.space.set(A, 1)
        view = self.space.at(1)
        self.space.set(A, 2)
        assert list(view.log()) == logged(self.space)
        assert len(logged(self.space)) == 2

    # -- by time -----------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("seconds", "version"),
        [(-1, 0), (-0.000001, 0), (0, 2), (9.999999, 2), (10, 3), (11, 3), (20, 4), (9_999, 4)],
    )
    def test_a_time_is_the_newest_commit_not_after_it(self, seconds: float, version: int) -> None:
        """Two commits at 0 seconds, one at 10, one at 20."""
        self.space.set(A, 1)
        self.space.set(A, 2)
        self.clock.move(seconds=10)
        self.space.set(A, 3)
        self.clock.move(seconds=10)
        self.space.set(A, 4)
        view = self.space.at(START + timedelta(seconds=seconds))
        assert view.version == version
        assert view.get(A, 0) == version

    def test_a_time_is_resolved_once(self) -> None:
        self.space.set(A, 1)
        view = self.space.at(START)
        self.space.set(A, 2)
        assert (view.version, view.get(A)) == (1, 1)
        assert self.space.at(START).version == 2

    def test_times_are_compared_as_instants(self) -> None:
        self.space.set(A, 1)
        there = START.astimezone(timezone(timedelta(hours=5, minutes=30)))
        assert self.space.at(there).version == 1
        assert self.space.at(datetime(1, 1, 1, tzinfo=UTC)).version == 0
        assert self.space.at(datetime(9999, 12, 31, tzinfo=UTC)).version == 1

    # -- through the port --------------------------------------------------------------------------

    def test_many_entities_are_read_from_one_state_in_the_order_asked(self) -> None:
        self.space.transact([put(A, 1), put(B, 2)])
        self.space.set(A, 3)
        ids = [B, "urn:never", A, B]
        for view, values in ((View(), [2, None, 3, 2]), (View("main", 1), [2, None, 1, 2])):
            states = self.port.answer(self.did, Read(ids, view))
            assert [state.id for state in states] == ids
            assert [state.value for state in states] == values

    def test_reading_no_entities_gives_no_states(self) -> None:
        self.space.set(A, 1)
        assert self.port.answer(self.did, Read([], View())) == ()
        assert self.port.answer(self.did, Read([], View("main", 1))) == ()

    def test_a_head_of_the_past_carries_the_time_of_its_commit(self) -> None:
        first = self.space.set(A, 1)
        self.clock.move(seconds=1)
        second = self.space.set(A, 2)
        instant = micros_of(START)
        past = Head(1, first.hash, instant)
        assert self.port.answer(self.did, GetHead(version=1)) == past
        assert self.port.answer(self.did, GetHead(at=instant + 999_999)) == past
        assert self.port.answer(self.did, GetHead(version=0)) == Head(0, None, None)
        newest = Head(2, second.hash, instant + 1_000_000)
        assert (
            self.port.answer(self.did, GetHead()) == self.port.answer(self.did, GetHead()) == newest
        )

    def test_the_port_refuses_a_version_above_the_log_and_an_unknown_branch(self) -> None:
        self.space.set(A, 1)
        with pytest.raises(VersionNotFound):
            self.port.answer(self.did, Read([A], View("main", 2)))
        with pytest.raises(NotFound):
            self.port.answer(self.did, Read([A], View("never")))
        with pytest.raises(NotFound):
            self.port.answer(self.did, Read([A], View("never", 1)))
        with pytest.raises(NotFound):
            self.port.answer("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK", GetHead())

    def test_a_glance_shows_parts_of_an_entity_and_the_lengths_of_arrays(self) -> None:
        self.space.set(A, {"kind": "note", "tags": ["x", "y"], "deep": {"list": []}})
        self.space.patch(A, [add("/tags/-", "z")])
        pointers = ("/kind", "/tags/1", "/none", "/deep")
        glance = self.space.glance(A, values=pointers, sizes=("/tags", "/deep/list", "/kind"))
        state = self.space.read(A)
        assert glance.values == ("note", "y", None, {"list": []})
        assert glance.sizes == (3, 0, None)
        assert (glance.exists, glance.version, glance.hash) == (True, 2, state.hash)
        assert self.space.at(1).glance(A, sizes=("/tags",)).sizes == (2,)
        absent = self.space.glance(B, values=("/kind",), sizes=("/tags",))
        assert (absent.exists, absent.version, absent.hash) == (False, 0, None)
        assert (absent.values, absent.sizes) == ((None,), (None,))
