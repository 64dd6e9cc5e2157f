"""Idempotency keys: the same call twice is one write."""

import threading

import pytest

from rote.contract import Commit
from rote.errors import Conflict, NotFound, PayloadMismatch
from rote.testing.space_suite.ground import A, B, SpaceGround, Unchanged, add, change, put, remove

THREADS = 6


class KeyTests(SpaceGround):
    def test_the_same_key_and_operations_give_the_first_commit_back(self) -> None:
        first = self.space.set(A, {"n": [1]}, key="k")
        self.space.set(A, 2)
        again = self.space.set(A, {"n": [1]}, key="k")
        assert again == first
        assert (self.space.version, self.space.get(A)) == (2, 2)

    def test_a_replayed_key_draws_no_salt(self) -> None:
        self.space.set(A, 1, key="k")
        draws = len(self.ids.draws)
        self.space.set(A, 1, key="k")
        assert len(self.ids.draws) == draws

    def test_every_writing_call_takes_a_key(self) -> None:
        commits = [self.space.set(A, {}, key="1"), self.space.patch(A, [add("/n", 1)], key="2")]
        commits.append(self.space.delete(A, key="3"))
        with self.space.transaction(key="4") as tx:
            tx.set(B, 1)
        assert tx.commit is not None
        commits.append(tx.commit)
        assert [commit.key for commit in commits] == ["1", "2", "3", "4"]
        assert self.space.set(A, {}, key="1") == commits[0]
        assert self.space.patch(A, [add("/n", 1)], key="2") == commits[1]
        assert self.space.delete(A, key="3") == commits[2]
        assert self.space.transact([put(B, 1)], key="4") == commits[3]
        assert self.space.version == 4

    @pytest.mark.parametrize(
        "other",
        [
            [put(A, {"n": 2})],
            [put(B, {"n": 1})],
            [put(A, {"n": 1}), put(A, {"n": 1})],
            [remove(A)],
            [put(A, {"n": 1}, stamp=["/n"])],
            [change(A, add("/n", 1))],
            [change(A, **{"else": {"n": 1}})],
        ],
        ids=ascii,
    )
    def test_the_same_key_with_other_operations_is_refused(
        self, other: list[dict[str, object]]
    ) -> None:
        self.space.transact([put(A, {"n": 1})], key="k")
        with Unchanged(self, PayloadMismatch) as caught:
            self.space.transact(other, key="k")
        assert caught.value.details == {"key": "k", "version": 1}

    def test_the_order_of_operations_is_part_of_what_a_key_stands_for(self) -> None:
        self.space.transact([put(A, 1), put(B, 1)], key="k")
        with Unchanged(self, PayloadMismatch):
            self.space.transact([put(B, 1), put(A, 1)], key="k")

    def test_equal_values_written_differently_are_the_same_operations(self) -> None:
        first = self.space.set(A, {"a": 1.0, "b": (1,)}, key="k")
        assert self.space.set(A, {"b": [1], "a": 1}, key="k") == first

    def test_unknown_members_of_a_patch_are_not_part_of_what_a_key_stands_for(self) -> None:
        self.space.set(A, {})
        first = self.space.patch(A, [add("/n", 1)], key="k")
        assert self.space.patch(A, [{**add("/n", 1), "note": "x"}], key="k") == first

    def test_reads_and_meta_are_not_compared(self) -> None:
        first = self.space.transact([put(A, 1)], key="k", meta={"try": 1})
        again = self.space.transact(
            [put(A, 1)], key="k", meta={"try": 2}, reads=[{"id": A, "version": 0}]
        )
        assert again == first
        assert again.meta == {"try": 1}

    def test_a_stamped_operation_is_compared_as_it_was_sent(self) -> None:
        first = self.space.transact([put(A, {}, stamp=["/at"])], key="k")
        self.clock.move(seconds=60)
        assert self.space.transact([put(A, {}, stamp=["/at"])], key="k") == first

    def test_a_delete_can_be_replayed_though_the_entity_is_gone(self) -> None:
        self.space.set(A, 1)
        first = self.space.delete(A, key="k")
        assert self.space.delete(A, key="k") == first

    def test_a_refused_commit_leaves_its_key_free(self) -> None:
        self.space.set(A, 1)
        with pytest.raises(Conflict):
            self.space.transact([put(A, 2)], key="k", reads=[{"id": A, "version": 0}])
        with pytest.raises(NotFound):
            self.space.delete(B, key="k")
        assert self.space.set(B, 3, key="k").version == 2

    def test_keys_are_exact(self) -> None:
        for number, key in enumerate(["k", "K", "k ", "é", "e\u0301", "k" * 200]):
            assert self.space.set(A, number, key=key).version == number + 1

    def test_a_key_spans_commits_far_back(self) -> None:
        first = self.space.transact([put(A, 1), put(B, 2)], key="k", meta={"m": 1})
        for number in range(300):
            self.space.set(A, number)
        assert self.space.transact([put(A, 1), put(B, 2)], key="k") == first

    def test_threads_that_send_one_key_make_one_commit(self) -> None:
        barrier = threading.Barrier(THREADS)
        answers: list[Commit] = []

        def send() -> None:
            barrier.wait()
            answers.append(self.space.set(A, {"n": 1}, key="k"))

        threads = [threading.Thread(target=send) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == THREADS
        assert {answer.hash for answer in answers} == {self.space.head}
        assert self.space.version == 1
