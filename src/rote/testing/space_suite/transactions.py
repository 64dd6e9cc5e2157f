"""Transactions: one state to read from, one commit to write, and no write in between unnoticed."""

from typing import Any

import pytest

from rote.errors import Conflict, InvalidInput, NotFound, PatchFailed
from rote.space import Transaction
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, SpaceGround, Unchanged, add, put, remove


@each_test_uses("with_other")
class TransactionTests(SpaceGround):
    @pytest.fixture
    def with_other(self) -> None:
        self.space.transact([put(A, {"n": 1}), put(B, 2), put("urn:p:1", 1), put("urn:p:3", 3)])
        self.other = self.store.space("notes")

    # -- where it is used --------------------------------------------------------------------------

    def test_nothing_is_written_outside_of_the_block(self) -> None:
        """A write outside of the block was lost without an error."""
        tx = self.space.transaction()
        assert tx.get(A) == {"n": 1}
        with Unchanged(self, InvalidInput):
            tx.set(A, 1)
        with Unchanged(self, InvalidInput):
            tx.patch(A, [add("/n", 2)])
        with Unchanged(self, InvalidInput):
            tx.delete(A)
        with tx:
            tx.set(A, 1)
        assert self.space.get(A) == 1

    def test_a_transaction_is_begun_once(self) -> None:
        """The inner block committed, and the outer one committed the same again."""
        with self.space.transaction() as tx:
            tx.set(A, 1)
            with pytest.raises(InvalidInput, match="begun already"), tx:
                pass
        assert self.space.version == 2

    # -- what it sees ------------------------------------------------------------------------------

    def test_reads_come_from_the_version_at_its_start(self) -> None:
        with self.space.transaction() as tx:
            self.other.transact([put(A, "later"), put("urn:p:2", 2)])
            assert tx.version == 1
            assert tx.get(A) == {"n": 1}
            assert tx.read(A) == self.space.at(1).read(A)
            assert [state.id for state in tx.scan("urn:p:")] == ["urn:p:1", "urn:p:3"]

    def test_own_writes_are_seen_by_own_reads_and_by_nobody_else(self) -> None:
        with self.space.transaction() as tx:
            tx.set(C, 3)
            tx.patch(A, [add("/m", 2)])
            tx.delete(B)
            assert (tx.get(C), tx.get(A), tx.get(B, "gone")) == (3, {"n": 1, "m": 2}, "gone")
            assert (tx.read(C).exists, tx.read(B).exists) == (True, False)
            assert (self.other.get(C), self.other.get(B)) == (None, 2)
        assert (self.space.get(C), self.space.get(A)) == (3, {"n": 1, "m": 2})

    def test_scans_lay_own_writes_over_the_stored_ones_in_order(self) -> None:
        with self.space.transaction() as tx:
            tx.set("urn:p:0", 0)
            tx.delete("urn:p:1")
            tx.set("urn:p:2", 2)
            tx.set("urn:p:3", 33)
            tx.set("urn:p:4", 4)
            tx.delete("urn:p:4")
            tx.set("urn:q", 0)
            found = [(state.id, state.value) for state in tx.scan("urn:p:")]
            assert found == [("urn:p:0", 0), ("urn:p:2", 2), ("urn:p:3", 33)]
            assert [state.id for state in tx.scan("urn:p:", after="urn:p:0", limit=1)] == [
                "urn:p:2"
            ]
            assert [state.id for state in tx.scan("urn:p:", limit=0)] == []

    def test_own_writes_have_no_version_yet(self) -> None:
        with self.space.transaction() as tx:
            tx.set(C, 3)
            state = tx.read(C)
            assert (state.value, state.version, state.hash) == (3, 0, None)

    # -- how it ends -------------------------------------------------------------------------------

    def test_all_operations_become_one_commit_in_order(self) -> None:
        with self.space.transaction(key="k", meta={"m": 1}) as tx:
            tx.set(C, 1)
            tx.patch(C, [add("", 2)])
            tx.delete(B)
            assert tx.commit is None
        assert tx.commit is not None
        assert [(fact.id, fact.op) for fact in tx.commit.facts] == [
            (C, "set"),
            (C, "patch"),
            (B, "delete"),
        ]
        assert (tx.commit.version, tx.commit.key, tx.commit.meta) == (2, "k", {"m": 1})
        assert list(self.space.log(since=1)) == [tx.commit]

    def test_without_operations_nothing_is_committed_even_when_reads_are_stale(self) -> None:
        with self.space.transaction() as tx:
            tx.get(A)
            self.other.set(A, 2)
        assert tx.commit is None
        assert self.space.version == 2

    def test_an_exception_in_the_block_discards_it(self) -> None:
        class Stop(Exception):
            pass

        with pytest.raises(Stop), self.space.transaction() as tx:
            tx.set(C, 1)
            raise Stop
        assert tx.commit is None
        assert (self.space.version, self.space.get(C)) == (1, None)

    def test_an_ended_transaction_refuses_everything(self) -> None:
        with self.space.transaction() as tx:
            tx.set(C, 1)
        for use in (
            lambda: tx.get(A),
            lambda: tx.read(A),
            lambda: list(tx.scan()),
            lambda: tx.set(A, 1),
            lambda: tx.patch(A, []),
            lambda: tx.delete(A),
        ):
            with Unchanged(self, InvalidInput):
                use()

    def test_a_transaction_cannot_be_run_twice(self) -> None:
        with self.space.transaction() as tx:
            tx.set(C, 1)
        with Unchanged(self, InvalidInput), tx:
            pass

    def test_a_write_that_does_not_apply_fails_the_whole_transaction(self) -> None:
        with Unchanged(self, NotFound), self.space.transaction() as tx:
            tx.set(C, 1)
            tx.delete("urn:never")
        with Unchanged(self, PatchFailed), self.space.transaction() as tx:
            tx.set(C, 1)
            tx.patch(A, [add("/x/y", 1)])

    @pytest.mark.parametrize("ops", [5, [5], None, [{"op": "add"}]], ids=repr)
    def test_a_malformed_patch_is_refused(self, ops: Any) -> None:
        with Unchanged(self, InvalidInput), self.space.transaction() as tx:
            tx.patch(A, ops)

    def test_bad_values_and_ids_are_refused(self) -> None:
        with Unchanged(self, InvalidInput), self.space.transaction() as tx:
            tx.set(A, float("nan"))
        with Unchanged(self, InvalidInput), self.space.transaction() as tx:
            tx.set("plain", 1)
        with Unchanged(self, InvalidInput), self.space.transaction() as tx:
            tx.get("plain")

    def test_values_are_taken_over_when_they_are_passed_in(self) -> None:
        value: dict[str, list[int]] = {"items": []}
        inserted: list[int] = []
        with self.space.transaction() as tx:
            tx.set(C, value)
            tx.patch(A, [add("/items", inserted)])
            value["items"].append(1)
            inserted.append(1)
            seen = tx.get(C)
            seen["items"].append(2)
            tx.get(A)["items"].append(2)
        assert self.space.get(C) == {"items": []}
        assert self.space.get(A) == {"n": 1, "items": []}

    # -- what it notices ---------------------------------------------------------------------------

    def fails(self, work: Any, *meanwhile: dict[str, Any]) -> bool:
        """Whether a transaction that does `work` conflicts with operations of someone else."""
        try:
            with self.space.transaction() as tx:
                work(tx)
                self.other.transact(list(meanwhile))
                tx.set("urn:result", 1)
        except Conflict:
            assert self.space.get("urn:result") is None
            return True
        assert self.space.get("urn:result") == 1
        return False

    def test_a_read_that_changed_is_a_conflict(self) -> None:
        assert self.fails(lambda tx: tx.get(A), put(A, 2))
        assert self.fails(lambda tx: tx.read(B), remove(B))

    def test_a_read_of_something_absent_conflicts_with_its_first_write(self) -> None:
        assert self.fails(lambda tx: tx.get("urn:new"), put("urn:new", 1))

    def test_what_was_not_read_may_change(self) -> None:
        assert not self.fails(lambda tx: tx.get(A), put(B, 3))

    def test_blind_writes_never_conflict(self) -> None:
        def work(tx: Transaction) -> None:
            tx.set(A, 5)
            tx.delete(B)

        assert not self.fails(work, put(A, 2), put(B, 3))

    def test_a_read_after_an_own_set_or_delete_records_nothing(self) -> None:
        def work(tx: Transaction) -> None:
            tx.set(A, 5)
            tx.get(A)
            tx.delete(B)
            tx.get(B)

        assert not self.fails(work, put(A, 2), put(B, 3))

    def test_a_read_before_an_own_set_stays_recorded(self) -> None:
        def work(tx: Transaction) -> None:
            tx.set(A, tx.get(A))

        assert self.fails(work, put(A, 2))

    def test_a_read_after_an_own_patch_records_what_lies_below(self) -> None:
        def work(tx: Transaction) -> None:
            tx.patch(A, [add("/m", 1)])
            tx.get(A)

        assert self.fails(work, put(A, {"n": 2}))

    def test_an_own_patch_alone_records_nothing(self) -> None:
        assert not self.fails(lambda tx: tx.patch(A, [add("/m", 1)]), put(A, {"n": 2}))
        assert self.space.get(A) == {"n": 2, "m": 1}

    def test_a_scan_notices_a_phantom(self) -> None:
        assert self.fails(lambda tx: list(tx.scan("urn:p:")), put("urn:p:2", 2))
        assert self.fails(lambda tx: list(tx.scan("urn:none:")), put("urn:none:1", 1))

    def test_a_scan_notices_changes_and_deletes_in_its_range(self) -> None:
        assert self.fails(lambda tx: list(tx.scan("urn:p:")), put("urn:p:1", 9))
        assert self.fails(lambda tx: list(tx.scan("urn:p:")), remove("urn:p:3"))

    def test_a_scan_of_everything_covers_the_end_of_the_space(self) -> None:
        assert self.fails(lambda tx: list(tx.scan()), put("zzz:\U0010ffff", 1))

    def test_a_scan_covers_no_more_than_it_walked(self) -> None:
        assert not self.fails(lambda tx: list(tx.scan("urn:p:")), put("urn:q", 1))
        assert not self.fails(lambda tx: list(tx.scan("urn:p:", limit=1)), put("urn:p:2", 2))
        assert not self.fails(
            lambda tx: list(tx.scan("urn:p:", after="urn:p:1")), put("urn:p:0", 2)
        )
        assert not self.fails(lambda tx: next(tx.scan("urn:p:")), put("urn:p:3", 9))

    @pytest.mark.parametrize("meanwhile", [put("urn:p:0", 1), put("urn:p:1", 9), remove("urn:p:1")])
    def test_a_limited_scan_covers_up_to_its_last_entity(self, meanwhile: dict[str, Any]) -> None:
        assert self.fails(lambda tx: list(tx.scan("urn:p:", limit=1)), meanwhile)

    def test_a_scan_left_in_the_middle_covers_up_to_where_it_was_left(self) -> None:
        assert self.fails(lambda tx: next(tx.scan("urn:p:")), put("urn:p:0", 9))

    def test_a_scan_that_was_not_begun_covers_nothing(self) -> None:
        assert not self.fails(lambda tx: tx.scan("urn:p:"), put("urn:p:2", 2))
        assert not self.fails(lambda tx: list(tx.scan("urn:p:", limit=0)), put("urn:p:0", 2))

    def test_a_scan_from_above_its_prefix_covers_nothing(self) -> None:
        def scan(tx: Transaction) -> None:
            assert list(tx.scan("urn:a", after="urn:p:1")) == []

        assert not self.fails(scan, put("urn:p:2", 2))

    def test_a_scan_covers_a_stored_entity_that_an_own_delete_hides(self) -> None:
        def work(tx: Transaction) -> None:
            tx.delete("urn:p:1")
            list(tx.scan("urn:p:", limit=1))

        assert self.fails(work, put("urn:p:2", 2))

    def test_every_conflict_of_a_transaction_is_listed(self) -> None:
        with pytest.raises(Conflict) as caught, self.space.transaction() as tx:
            tx.get(A)
            tx.get(B)
            list(tx.scan("urn:p:"))
            self.other.transact([put(A, 1), put(B, 1), put("urn:p:2", 1)])
            tx.set(C, 1)
        told = caught.value.conflicts
        assert [(found.id, found.start, found.end) for found in told] == [
            (A, None, None),
            (B, None, None),
            (None, "urn:p:", "urn:p;"),
        ]
        assert {(found.expected_version, found.actual_version) for found in told} == {(1, 2)}

    def test_two_that_read_what_the_other_writes_cannot_both_commit(self) -> None:
        """Write skew: each alone keeps the sum, both together would not."""
        with pytest.raises(Conflict), self.space.transaction() as one:
            with self.other.transaction() as two:
                two.get(A)
                two.set(B, 0)
                one.get(B)
            one.set(A, 0)
        assert (self.space.get(A), self.space.get(B)) == ({"n": 1}, 0)
