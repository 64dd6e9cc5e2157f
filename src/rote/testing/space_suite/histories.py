"""Histories and the log: the same commits, read from both ends."""

import pytest

from rote.contract import Fact, View
from rote.contract.commands import GetHistory
from rote.errors import VersionNotFound
from rote.testing.space_suite.ground import A, B, SpaceGround, add, change, logged, put, remove
from rote.values.limits import PAGE_MAX


class HistoryTests(SpaceGround):
    @pytest.fixture
    def written(self) -> None:
        self.space.set(A, {})
        self.space.transact([put(B, 1), change(A, add("/n", 1)), change(A, add("/n", 2))])
        self.space.set(B, 2)
        self.space.transact([remove(A), put(A, 3)])

    @pytest.mark.usefixtures("written")
    def test_a_history_is_newest_first(self) -> None:
        facts = self.space.history(A)
        assert [(fact.version, fact.index) for fact in facts] == [
            (4, 1),
            (4, 0),
            (2, 2),
            (2, 1),
            (1, 0),
        ]
        assert [fact.op for fact in facts] == ["set", "delete", "patch", "patch", "set"]

    @pytest.mark.usefixtures("written")
    def test_a_history_holds_the_facts_of_the_log(self) -> None:
        from_log = [fact for commit in self.space.log() for fact in commit.facts if fact.id == A]
        assert self.space.history(A) == from_log[::-1]

    @pytest.mark.usefixtures("written")
    def test_a_history_gives_the_newest_of_what_is_more_than_its_limit(self) -> None:
        whole = self.space.history(A)
        for limit in range(7):
            assert self.space.history(A, limit=limit) == whole[:limit]

    @pytest.mark.usefixtures("written")
    def test_the_history_of_a_view_ends_with_it(self) -> None:
        assert [fact.version for fact in self.space.at(2).history(A)] == [2, 2, 1]
        assert self.space.at(0).history(A) == []

    def test_an_entity_that_was_never_written_has_no_history(self) -> None:
        self.space.set(A, 1)
        assert self.space.history(B) == []

    @pytest.mark.usefixtures("written")
    def test_pages_of_a_history_lose_nothing(self) -> None:
        whole = self.space.history(A)
        for limit in (1, 2, 3, 5, 9):
            found: list[Fact] = []
            before: tuple[int, int] | None = None
            while True:
                page = self.port.answer(
                    self.did, GetHistory(A, before=before, limit=limit, view=View())
                )
                found += page.facts
                if page.next is None:
                    break
                before = page.next
            assert found == whole

    def test_a_history_longer_than_a_page_comes_whole(self) -> None:
        self.space.transact([put(A, number) for number in range(PAGE_MAX + 5)])
        assert [fact.body for fact in self.space.history(A)] == list(range(PAGE_MAX + 4, -1, -1))
        assert list(self.space.facts(A)) == self.space.history(A)
        assert next(self.space.facts(A)).body == PAGE_MAX + 4

    def test_the_port_refuses_the_history_of_a_version_above_the_log(self) -> None:
        self.space.set(A, 1)
        with pytest.raises(VersionNotFound):
            self.port.answer(self.did, GetHistory(A, before=None, limit=9, view=View("main", 2)))

    # -- the log -----------------------------------------------------------------------------------

    def test_the_log_holds_the_commits_as_they_were_answered_oldest_first(self) -> None:
        answered = [
            self.space.set(A, {"n": 1}, key="k"),
            self.space.transact([put(B, 1), remove(A)], meta={"m": 1}),
            self.space.set(A, 2),
        ]
        assert logged(self.space) == answered

    @pytest.mark.usefixtures("written")
    def test_a_log_begins_above_since_and_stops_at_limit(self) -> None:
        whole = logged(self.space)
        for since in range(6):
            for limit in (None, 0, 1, 2, 9):
                expected = whole[since:] if limit is None else whole[since:][:limit]
                assert list(self.space.log(since=since, limit=limit)) == expected

    def test_a_log_longer_than_a_page_comes_whole(self) -> None:
        for number in range(PAGE_MAX + 3):
            self.space.set(A, number)
        versions = [commit.version for commit in self.space.log()]
        assert versions == list(range(1, PAGE_MAX + 4))
