"""Spaces: named, identified by a did, apart from each other."""

import pytest

from rote.contract import SpaceSummary
from rote.contract.commands import Describe, FindSpace, GetTimes, ListSpaces, Verify
from rote.errors import InvalidInput, NotFound, Unavailable
from rote.testing.space_suite.ground import A, SpaceGround, port_of
from rote.values import Identity


class SpaceTests(SpaceGround):
    def test_a_new_space_is_empty(self) -> None:
        assert (self.space.version, self.space.head) == (0, None)
        assert list(self.space.scan()) == []
        assert list(self.space.log()) == []
        assert self.space.history(A) == []

    def test_a_space_has_its_name_and_is_on_main(self) -> None:
        assert (self.space.name, self.space.branch) == ("notes", "main")

    def test_the_same_name_is_the_same_space(self) -> None:
        self.space.set(A, 1)
        again = self.store.space("notes")
        assert (again.did, again.get(A)) == (self.space.did, 1)

    def test_a_space_is_found_by_its_did(self) -> None:
        self.space.set(A, 1)
        found = self.store.space(self.did)
        assert (found.name, found.get(A)) == ("notes", 1)

    def test_spaces_are_listed_in_pages_by_name(self) -> None:
        for name in ("b", "a", "c"):
            self.store.space(name)
        names, page = list[str](), self.port.answer("", ListSpaces(limit=3))
        while True:
            names += [info.name for info in page.spaces]
            if page.next is None:
                break
            page = self.port.answer("", ListSpaces(page.next, 3))
        assert names == ["a", "b", "c", "notes"]

    def test_a_space_is_described(self) -> None:
        described = self.port.answer(self.did, Describe())
        assert described == SpaceSummary(self.did, "notes", 0, None, None, 1)
        self.space.set(A, 1)
        self.space.set(A, 2)
        self.space.compact(before=2)
        described = self.port.answer(self.did, Describe())
        assert (described.version, described.hash) == (3, self.space.head)
        assert (described.oldest, self.space.oldest) == (2, 2)

    def test_work_that_is_cancelled_ends_at_its_next_step(self) -> None:
        for number in range(9):
            self.space.set(A, number)
        task = self.port.begin(self.did, Verify())
        with pytest.raises(Unavailable) as caught:
            task.result(lambda what, done, total: task.cancel())
        assert caught.value.code == "cancelled"
        assert self.space.verify().ok

    def test_an_unknown_did_is_not_found(self) -> None:
        with pytest.raises(NotFound):
            self.store.space(Identity.from_seed(b"x" * 32).did)

    @pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "é", "a" * 101, "a/b", "did:x"])
    def test_a_bad_name_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput):
            self.store.space(name)
        assert [space.name for space in self.store.spaces()] == ["notes"]

    def test_the_longest_name_works(self) -> None:
        name = "a" * 100
        assert self.store.space(name).name == name

    def test_spaces_are_listed_by_name(self) -> None:
        for name in ("b", "a", "Z"):
            self.store.space(name)
        assert [space.name for space in self.store.spaces()] == ["Z", "a", "b", "notes"]

    def test_the_did_of_a_space_comes_from_the_drawn_seed(self) -> None:
        assert self.did == Identity.from_seed(self.ids.bytes_of(0, 32)).did
        assert len(self.ids.draws) == 1

    def test_the_port_makes_no_space_unless_told_to(self) -> None:
        with pytest.raises(NotFound):
            self.port.answer("", FindSpace("other", False))
        assert [info.name for info in self.port.answer("", ListSpaces()).spaces] == ["notes"]

    def test_spaces_share_nothing(self) -> None:
        other = self.store.space("other")
        self.space.set(A, 1, key="k")
        assert (other.version, other.get(A), list(other.scan())) == (0, None, [])
        assert other.set(A, 2, key="k").version == 1
        assert self.space.get(A) == 1

    def test_a_given_seed_makes_the_next_space_and_only_that(self) -> None:
        seed = b"\x07" * 32
        store = self.open_fresh("seeded", seed=seed)
        first, second = store.space("first"), store.space("second")
        assert first.did == Identity.from_seed(seed).did
        assert second.did != first.did

    def test_a_closed_store_says_so(self) -> None:
        self.store.close()
        with pytest.raises(Unavailable):
            self.space.get(A)
        with pytest.raises(Unavailable):
            self.space.set(A, 1)
        self.store.close()

    def test_a_store_closes_itself_at_the_end_of_its_block(self) -> None:
        with self.open_fresh("block") as store:
            space = store.space("x")
            space.set(A, 1)
        with pytest.raises(Unavailable):
            space.get(A)

    def test_now_is_the_clocks(self) -> None:
        before = port_of(self.store).answer("", GetTimes()).now
        self.clock.move(seconds=2)
        assert port_of(self.store).answer("", GetTimes()).now == before + 2_000_000
