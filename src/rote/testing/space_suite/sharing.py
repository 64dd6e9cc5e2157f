"""Sharing: one place opened again, and by several at once."""

import sys
import threading

import pytest

from rote.contract import Commit, View
from rote.contract.commands import GetHistory, GetLog, Read, Scan
from rote.errors import Conflict, InvalidInput, PayloadMismatch
from rote.kernel.reading import history
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.testing.space_suite.ground import A, B, C, add, logged, port_of, put
from rote.testing.space_suite.indexes import WORDS, IndexGround
from rote.values.limits import INDEX_PENDING_MAX

ROUNDS = 25


class SharingTests(IndexGround):
    # -- again -------------------------------------------------------------------------------------

    def test_everything_is_there_when_the_store_is_opened_again(self) -> None:
        self.space.transact([put(A, {"n": 1}), put(B, 2)], key="k", meta={"m": 1})
        self.space.patch(A, [add("/m", 2)])
        self.space.delete(B)
        before = (self.did, self.space.head, logged(self.space), self.space.history(A))
        self.store.close()
        again = self.open().space("notes")
        assert (again.did, again.head, logged(again), again.history(A)) == before
        assert [again.at(version).get(A) for version in range(4)] == [
            None,
            {"n": 1},
            {"n": 1, "m": 2},
            {"n": 1, "m": 2},
        ]
        assert again.verify().ok

    def test_keys_are_remembered_when_the_store_is_opened_again(self) -> None:
        first = self.space.set(A, 1, key="k")
        self.store.close()
        again = self.open().space("notes")
        assert again.set(A, 1, key="k") == first
        with pytest.raises(PayloadMismatch):
            again.set(A, 2, key="k")
        assert again.version == 1

    def test_a_store_that_was_opened_again_goes_on_where_it_was(self) -> None:
        first = self.space.set(A, 1)
        self.store.close()
        second = self.open().space("notes").set(A, 2)
        assert (second.version, second.previous) == (2, first.hash)
        assert second.facts[0].parent == first.facts[0].hash
        assert second.facts[0].salt == first.facts[0].salt

    def test_the_key_of_a_space_is_kept(self) -> None:
        self.space.set(A, 1)
        checkpoint = self.space.checkpoint()
        self.store.close()
        again = self.open().space("notes")
        assert again.verify(against=checkpoint).ok
        assert again.checkpoint()["head"] == checkpoint["head"]

    def test_a_seed_that_already_is_a_space_makes_no_other_and_does_no_harm(self) -> None:
        seed = b"\x05" * 32
        first = self.open(seed=seed).space("first")
        first.set(A, 1)
        again = self.open(seed=seed)
        with pytest.raises(InvalidInput):
            again.space("second")
        assert [space.name for space in again.spaces()] == ["first", "notes"]
        assert again.space("first").checkpoint()["version"] == 1

    def test_version_zero_can_be_the_first_thing_that_is_read(self) -> None:
        self.space.set(A, 1)
        self.store.close()
        port = port_of(self.open())
        view = View("main", 0)
        assert not port.answer(self.did, Read([A], view))[0].exists
        port = port_of(self.open())
        assert (
            port.answer(self.did, Scan(start="", end=None, after=None, limit=9, view=view)).states
            == ()
        )
        port = port_of(self.open())
        assert port.answer(self.did, GetHistory(A, before=None, limit=9, view=view)).facts == ()

    # -- at once -----------------------------------------------------------------------------------

    def test_each_store_sees_the_others_commits_at_once(self) -> None:
        other = self.open().space("notes")
        for number in range(6):
            writer, reader = (self.space, other) if number % 2 else (other, self.space)
            writer.transact([put(A, number), put(B, {"n": number})])
            assert (reader.version, reader.head) == (writer.version, writer.head)
            assert (reader.get(A), reader.get(B)) == (number, {"n": number})
            assert [state.value for state in reader.scan()] == [number, {"n": number}]
            reader.patch(B, [add("/m", number)])
            assert writer.get(B) == {"n": number, "m": number}

    def test_many_commits_of_another_store_are_not_missed(self) -> None:
        other = self.open().space("notes")
        ids = [f"urn:{number:04d}" for number in range(1_500)]
        self.space.transact([put(id, 0) for id in ids])
        assert {state.value for state in self.space.scan()} == {0}
        assert self.space.get(ids[0]) == 0
        other.transact([put(id, 1) for id in ids])
        assert [self.space.get(id) for id in (ids[0], ids[-1])] == [1, 1]
        assert self.space.at(1).get(ids[0]) == 0

    def test_what_was_looked_for_in_vain_is_found_once_another_store_has_made_it(self) -> None:
        other = self.open().space("notes")
        for id in (A, B):
            self.space.set(C, id)
            assert self.space.get(id) is None
            assert self.space.read(id).version == 0
            other.set(id, 1)
            assert self.space.get(id) == 1
            with pytest.raises(Conflict):
                self.space.transact([put(id, 2)], reads=[{"id": id, "version": 0}])
            assert self.space.at(other.version - 1).get(id) is None

    def test_reads_are_checked_against_the_others_commits(self) -> None:
        other = self.open().space("notes")
        self.space.set(A, 1)
        assert self.space.get(A) == 1
        other.set(A, 2)
        with pytest.raises(Conflict):
            self.space.transact([put(B, 1)], reads=[{"id": A, "version": 1}])

    def test_a_space_made_in_one_store_is_the_same_in_the_other(self) -> None:
        other = self.open()
        made = self.store.space("made")
        assert other.space("made").did == made.did

    def test_keys_are_shared(self) -> None:
        other = self.open().space("notes")
        first = self.space.set(A, 1, key="k")
        assert other.set(A, 1, key="k") == first
        with pytest.raises(PayloadMismatch):
            other.set(A, 2, key="k")

    def test_counters_updated_from_two_stores_lose_nothing(self) -> None:
        other = self.open().space("notes")
        self.space.set(A, 0)

        def count(space: object) -> None:
            for _ in range(ROUNDS):
                (self.space if space is self.space else other).update(
                    A, lambda value: value + 1, attempts=1_000
                )

        threads = [threading.Thread(target=count, args=(space,)) for space in (self.space, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self.space.get(A) == other.get(A) == 2 * ROUNDS
        assert self.space.verify().ok

    # -- indexes that were declared later ----------------------------------------------------------

    @pytest.mark.usefixtures("pending_max")
    def test_an_index_declared_later_finds_what_was_written_before(self) -> None:
        self.space.set(A, {"text": "red"})
        self.space.set(A, {"text": "blue"})
        self.space.transact([put(B, {"text": "red"}), put(B, {"text": "green"})])
        later = self.open(indexes=(WORDS,)).space("notes")
        assert self.hits(later) == [("blue", A), ("green", B)]
        assert self.hits(later, version=1) == [("red", A)]
        assert later.verify().ok

    @pytest.mark.usefixtures("pending_max")
    def test_an_index_catches_up_with_a_store_that_does_not_keep_it(self) -> None:
        keeping = self.open(indexes=(WORDS,)).space("notes")
        keeping.set(A, {"text": "red"})
        assert self.hits(keeping) == [("red", A)]
        self.space.set(A, {"text": "blue"})
        assert self.hits(keeping) == [("blue", A)]
        keeping.set(B, {"text": "blue"})
        assert self.hits(keeping) == [("blue", A), ("blue", B)]
        assert self.hits(keeping, version=1) == [("red", A)]
        assert keeping.verify().ok

    @pytest.mark.usefixtures("pending_max")
    def test_an_index_that_commits_left_behind_finds_what_they_wrote(self) -> None:
        """A commit that finds the index behind leaves it alone, and later commits do not even look."""
        self.space.set(A, {"text": "red"})
        later = self.open(indexes=(WORDS,)).space("notes")
        for text in ("blue", "green", "white"):
            later.set(B, {"text": text})
        assert self.hits(later) == [("red", A), ("white", B)]
        assert self.hits(later, version=3) == [("green", B), ("red", A)]
        later.set(B, {"text": "black"})
        assert self.hits(later) == [("black", B), ("red", A)]
        assert later.verify().ok

    # -- branches ----------------------------------------------------------------------------------

    def test_a_branch_of_another_handle_is_seen_at_once(self) -> None:
        other = self.open().space("notes")
        self.space.set(A, 1)
        assert other.get(A) == 1
        self.space.create_branch("topic").set(A, 2)
        assert other.on("topic").get(A) == 2
        assert other.at(1).on("topic").get(A) == 1
        assert [branch.name for branch in other.branches()] == ["main", "topic"]
        other.on("topic").set(B, 3)
        assert self.space.on("topic").get(B) == 3
        assert other.merge("topic").merged == (A, B)
        assert self.space.merge("topic").status == "nothing"

    def test_a_branch_that_another_handle_deleted_is_not_writable(self) -> None:
        """A handle remembers its branches as they were at its last look."""
        topic = self.space.create_branch("topic")
        other = self.open().space("notes")
        held = other.on("topic")
        held.set(A, 1)
        self.space.delete_branch("topic")
        with pytest.raises(InvalidInput):
            held.set(A, 2)
        with pytest.raises(InvalidInput):
            other.create_branch("topic")
        assert (held.get(A), topic.get(A)) == (1, 1)

    def test_a_branch_that_is_made_while_the_log_is_read_comes_with_the_next_page(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The log was read up to its end at that moment and called damaged: it had commits on a
        branch that this store did not know yet."""
        other = self.open().space("notes")
        self.space.set(A, 1)
        commits_in = history.commits_in

        def late(reads: SpaceReader, after: int, until: int) -> list[Commit]:
            monkeypatch.setattr(history, "commits_in", commits_in)
            other.create_branch("topic").set(A, 2)
            return commits_in(reads, after, until)

        monkeypatch.setattr(history, "commits_in", late)
        first = self.port.answer(self.did, GetLog(limit=9))
        assert [commit.branch for commit in first] == ["main"]
        assert [commit.branch for commit in self.space.log(since=1)] == ["topic", "topic"]

    def test_a_merge_that_another_thread_has_heard_of_comes_with_its_branches(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One thread held the old list of branches when another caught up. It looked for merges up
        to the new version, and did not find their source."""
        other = self.open().space("notes")
        self.space.set(A, 1)
        assert len(self.space.branches()) == 1
        heard: list[int] = []

        def known(cache: OpenSpace) -> int:
            if sys._getframe(1).f_code.co_name == "graph" and not heard:
                heard.append(other.version)
                other.create_branch("topic").set(A, 2)
                other.merge("topic")
                thread = threading.Thread(target=lambda: heard.append(self.space.version))
                thread.start()
                thread.join()
            return cache.__dict__["known"]  # type: ignore[no-any-return]

        def know(cache: OpenSpace, version: int) -> None:
            cache.__dict__["known"] = version

        monkeypatch.setattr(OpenSpace, "known", property(known, know), raising=False)
        assert self.space.branches()
        assert heard == [1, 4]
        assert self.space.merge("topic").status == "nothing"

    # -- indexes -----------------------------------------------------------------------------------

    def test_stores_that_write_in_turn_find_what_the_others_wrote(self) -> None:
        """Each store remembers changes that it has not written to the rows, and reads those of the others."""
        spaces = [self.open(indexes=(WORDS,)).space("notes") for _ in range(2)]
        expected = []
        for number in range(3 * INDEX_PENDING_MAX):
            id = f"urn:{number:03d}"
            spaces[number % 2].set(id, {"text": "red"})
            expected.append(("red", id))
            assert self.hits(spaces[number % 3 % 2]) == expected
        assert spaces[0].verify().ok

    @pytest.mark.parametrize("writer", [0, 1])
    def test_what_is_erased_while_it_is_pending_does_not_come_back(self, writer: int) -> None:
        """Remembered changes hold content that was erased since, perhaps by another store."""
        spaces = [self.open(indexes=(WORDS,)).space("notes") for _ in range(2)]
        spaces[writer].transact([put(A, {"text": "secret"}), put(B, {"text": "red"})])
        assert self.hits(spaces[writer]) == [("red", B), ("secret", A)]
        spaces[0].erase(A, reason="asked to")
        for number in range(INDEX_PENDING_MAX + 1):
            assert ("secret", A) not in self.hits(spaces[writer])
            spaces[writer].set(f"urn:{number:03d}", {"text": "blue"})
        assert self.hits(spaces[writer], "red") == [("red", B)]
        assert spaces[0].verify().ok
