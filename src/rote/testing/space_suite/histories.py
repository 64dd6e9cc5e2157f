"""Histories and the log: the same commits, read from both ends."""

from typing import Any

import pytest

from rote.contract import Fact, View
from rote.contract.commands import GetHistory, GetLog
from rote.errors import InvalidInput, VersionNotFound
from rote.kernel.reading import history
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

    def test_a_fact_tells_when_who_and_why_as_its_commit_does(self) -> None:
        space = self.open_fresh("planner", author="planner").space("notes")
        commits = [
            space.set(A, 1),
            space.transact([put(A, 2), put(B, 2)], meta={"why": "Ada said so"}),
            space.transact([remove(A)], meta=0),
        ]
        for facts in (
            [fact for commit in commits for fact in commit.facts if fact.id == A],
            space.history(A)[::-1],
            [fact for commit in space.log() for fact in commit.facts if fact.id == A],
        ):
            assert [(fact.at, fact.author, fact.meta) for fact in facts] == [
                (commit.at, "planner", meta)
                for commit, meta in zip(commits, (None, {"why": "Ada said so"}, 0), strict=True)
            ]

    def test_pages_are_bounded_by_the_meta_of_their_commits_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "PAGE_BYTES_MAX", 1_000)
        monkeypatch.setattr(history, "ROWS_READ_FIRST", 1)
        for number in range(9):
            self.space.transact([put(A, number)], meta="x" * 600)
        facts = self.port.answer(self.did, GetHistory(A)).facts
        assert [fact.body for fact in facts] == [8, 7]
        for newest, versions in ((False, [1, 2]), (True, [9, 8])):
            page = self.port.answer(self.did, GetLog(newest=newest))
            assert [commit.version for commit in page] == versions
        assert [fact.body for fact in self.space.history(A)] == list(range(9))[::-1]
        assert len(list(self.space.log(newest=True))) == 9

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

    @pytest.mark.usefixtures("written")
    def test_the_newest_commits_come_first_where_they_are_asked_for(self) -> None:
        whole = logged(self.space)
        for since in range(6):
            for before in (None, 0, 1, 3, 5, 9):
                for limit in (None, 0, 1, 2, 9):
                    expected = [
                        commit
                        for commit in whole
                        if commit.version > since and (before is None or commit.version < before)
                    ]
                    asked: Any = {"since": since, "before": before, "limit": limit}
                    assert list(self.space.log(**asked)) == expected[:limit]
                    found = list(self.space.log(**asked, newest=True))
                    assert found == expected[::-1][:limit]

    def test_a_log_longer_than_a_page_comes_whole_from_both_ends(self) -> None:
        for number in range(PAGE_MAX + 3):
            self.space.set(A, number)
        versions = [commit.version for commit in self.space.log()]
        assert versions == list(range(1, PAGE_MAX + 4))
        newest = list(self.space.log(newest=True))
        assert [commit.version for commit in newest] == versions[::-1]
        assert [commit.previous for commit in newest[:-1]] == [commit.hash for commit in newest[1:]]

    @pytest.mark.usefixtures("written")
    def test_a_commit_is_found_by_its_version(self) -> None:
        self.space.create_branch("topic").set(A, 5)
        assert [self.space.commit(version) for version in range(1, 7)] == logged(self.space)
        assert self.space.at(1).commit(6).branch == "topic"
        with pytest.raises(VersionNotFound, match="version 7 does not exist; the newest is 6"):
            self.space.commit(7)

    @pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None, 2**63 + 1])
    def test_what_is_no_version_has_no_commit(self, version: Any) -> None:
        with pytest.raises(InvalidInput):
            self.space.commit(version)

    @pytest.mark.parametrize(
        "wrong",
        [{"since": -1}, {"since": "1"}, {"before": -1}, {"before": True}, {"newest": 1},
         {"newest": None}, {"limit": -1}, {"before": 2**63}],
    )  # fmt: skip
    def test_a_log_is_asked_for_in_versions(self, wrong: Any) -> None:
        with pytest.raises(InvalidInput):
            list(self.space.log(**wrong))
