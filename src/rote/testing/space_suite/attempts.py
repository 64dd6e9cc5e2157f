"""Attempts: one try to write, which may be sent again and is made once, and leaves no mark in the log."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rote.contract import Commit, SideRow
from rote.contract.commands import (
    Command,
    Compact,
    CreateBranch,
    DeleteBranch,
    DropUpload,
    Erase,
    GetMade,
    GetSide,
    MakeCommit,
    Merge,
    PutBlob,
    PutPiece,
    PutSide,
    Settle,
    SidesOut,
)
from rote.errors import Compacted, Denied, InvalidInput, NotFound, PayloadMismatch
from rote.kernel.log.key_rows import made_record
from rote.testing.space_suite.ground import (
    A,
    B,
    C,
    SpaceGround,
    Unchanged,
    answered,
    kernel_of,
    logged,
    put,
)
from rote.values.limits import ATTEMPT_SECONDS

ONE, TWO, THREE = ("1" * 32, "2" * 32, "abcdef" + "0" * 26)
THREADS = 6


class AttemptTests(SpaceGround):
    def attempt(self, *operations: dict[str, Any], attempt: str = ONE, **more: Any) -> Commit:
        return self.port.answer(self.did, MakeCommit(operations, attempt=attempt, **more))

    def attempt_row(self, attempt: str = ONE) -> SideRow | None:
        return self.port.answer(self.did, GetSide("attempt", attempt))

    # -- writing once ------------------------------------------------------------------------------

    def test_a_repeated_attempt_gives_the_first_commit_back(self) -> None:
        first = self.attempt(put(A, 1))
        self.space.set(A, 2)
        draws = len(self.ids.draws)
        assert self.attempt(put(A, 1)) == first
        assert (self.space.version, self.space.get(A), len(self.ids.draws)) == (2, 2, draws)

    def test_nothing_of_an_attempt_is_hashed_or_logged(self) -> None:
        first = self.attempt(put(A, 1))
        self.attempt(put(B, 1), attempt=TWO, key="k", meta={"m": 1})
        assert first.key is None
        told = str([commit.to_dict() for commit in logged(self.space)])
        assert ONE not in told and TWO not in told
        assert self.space.verify().ok

    def test_two_stores_have_the_same_log_with_and_without_attempts(self) -> None:
        heads = []
        for attempt in (None, ONE):
            store = self.open_fresh(f"store {attempt}", ids=type(self.ids)())
            space = store.space("notes")
            space._port.answer(space.did, MakeCommit([put(A, 1)], attempt=attempt))
            heads.append(space.head)
        assert heads[0] == heads[1]

    def attempted_writes(self) -> Iterator[tuple[Command[Any], Callable[[Any], object]]]:
        """Yield every command that makes a commit, with what of its answer names the commit."""

        def of_answer(answer: Any) -> object:
            return answer.commit.hash

        self.space.transact([put(A, 1), put(B, 1)])
        yield MakeCommit([put(A, 2)], attempt=ONE), lambda commit: commit.hash
        yield CreateBranch("other", attempt=TWO), lambda commit: commit.hash
        self.space.on("other").set(C, 1)
        yield Merge("other", attempt="3" * 32), of_answer
        yield DeleteBranch("other", attempt="4" * 32), lambda commit: commit.hash
        upload = answered(self, PutPiece(None, 0, b"bytes"))
        yield PutBlob(upload, attempt="5" * 32), lambda hash: hash
        yield Erase("asked to", B, attempt="6" * 32), of_answer
        yield Erase("asked to", prefix=A, attempt="7" * 32), of_answer
        yield Compact(before=4, attempt="8" * 32), of_answer

    def test_every_writing_command_is_made_once_by_its_attempt(self) -> None:
        for command, named in self.attempted_writes():
            first = named(answered(self, command))
            version = self.space.version
            settled = self.space.settle(command.attempt)  # type: ignore[attr-defined]
            assert settled is not None and settled.version == version
            assert named(answered(self, command)) == first
            assert self.space.version == version
        assert self.space.verify().ok

    def test_a_blob_that_is_put_twice_may_have_lost_its_upload(self) -> None:
        upload = answered(self, PutPiece(None, 0, b"bytes"))
        hash = answered(self, PutBlob(upload, attempt=ONE))
        answered(self, DropUpload(upload))
        assert answered(self, PutBlob(expect=hash, attempt=ONE)) == hash
        assert self.space.version == 1

    @pytest.mark.parametrize(
        "other",
        [
            MakeCommit([put(A, 2)], attempt=ONE),
            MakeCommit([put(B, 1)], attempt=ONE),
            MakeCommit([put(A, 1)], "other", attempt=ONE),
            MakeCommit([put(A, 1)], key="k", attempt=ONE),
            CreateBranch("third", attempt=ONE),
            Merge("other", attempt=ONE),
            Erase("asked to", A, attempt=ONE),
        ],
        ids=lambda command: type(command).__name__,
    )
    def test_an_attempt_stands_for_one_payload(self, other: Command[Any]) -> None:
        self.space.create_branch("other")
        self.attempt(put(A, 1))
        with Unchanged(self, PayloadMismatch) as caught:
            answered(self, other)
        assert caught.value.details == {"attempt": ONE, "version": 2}

    def test_a_refused_write_leaves_its_attempt_free(self) -> None:
        with Unchanged(self, NotFound):
            self.attempt({"op": "delete", "id": A})
        assert self.attempt(put(A, 1)).version == 1

    def test_a_key_that_was_used_answers_for_another_attempt_too(self) -> None:
        first = self.attempt(put(A, 1), key="k")
        assert self.attempt(put(A, 1), key="k", attempt=TWO) == first
        assert self.space.version == 1

    def test_threads_that_send_one_attempt_make_one_commit(self) -> None:
        barrier = threading.Barrier(THREADS)
        answers: list[Commit] = []

        def send() -> None:
            barrier.wait()
            answers.append(self.attempt(put(A, 1)))

        threads = [threading.Thread(target=send) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer.hash for answer in answers] == [self.space.head] * THREADS
        assert self.space.version == 1

    @pytest.mark.parametrize(
        "attempt", ["", "1" * 31, "1" * 33, "A" * 32, "g" * 32, "1" * 31 + "\n", 7, b"1" * 32]
    )
    def test_an_attempt_is_32_hex_digits(self, attempt: Any) -> None:
        for command in (
            MakeCommit([put(A, 1)], attempt=attempt),
            CreateBranch("other", attempt=attempt),
            Merge("main", attempt=attempt),
            Settle(attempt),
        ):
            with Unchanged(self, InvalidInput):
                answered(self, command)

    def test_callers_write_no_rows_of_attempts(self) -> None:
        with Unchanged(self, InvalidInput):
            answered(self, PutSide("attempt", ONE, {"digest": None, "version": 1}, fence=0))

    def test_the_commit_of_an_attempt_for_a_call_is_told(self) -> None:
        call = {"name": "count"}
        asked = GetMade("k", call, [A], attempt=ONE)
        assert answered(self, asked) is None
        made = self.attempt(put(A, 1), call=call)
        assert answered(self, asked) == made
        assert answered(self, GetMade("k", call, [A])) is None
        with pytest.raises(PayloadMismatch):
            answered(self, GetMade("k", {"name": "other"}, [A], attempt=ONE))
        assert self.attempt(put(A, 2), call=call) == made
        self.space.settle(TWO)
        with pytest.raises(Denied):
            answered(self, GetMade("k", call, [A], attempt=TWO))

    # -- settling ----------------------------------------------------------------------------------

    def test_settle_tells_the_commit_of_an_attempt(self) -> None:
        self.space.set(A, 0)
        made = self.attempt(put(A, 1), put(B, 2), meta={"m": 1})
        self.space.set(A, 2)
        assert self.space.settle(ONE) == made

    def test_an_attempt_that_was_settled_as_not_made_is_never_made(self) -> None:
        assert self.space.settle(ONE) is None
        with Unchanged(self, Denied) as caught:
            self.attempt(put(A, 1))
        assert (caught.value.code, caught.value.details) == ("settled", {"attempt": ONE})
        assert self.space.settle(ONE) is None
        assert self.attempt(put(A, 1), attempt=TWO).version == 1
        assert self.space.verify().ok

    def test_settle_and_the_attempt_itself_agree_whoever_is_first(self) -> None:
        for number in range(20):
            attempt = f"{number:032x}"
            barrier = threading.Barrier(2)
            answers: list[Commit | None] = []

            def write(attempt: str = attempt, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                try:
                    self.attempt(put(A, 1), attempt=attempt)
                except Denied as error:
                    assert error.code == "settled"

            thread = threading.Thread(target=write)
            thread.start()
            barrier.wait()
            answers.append(self.space.settle(attempt))
            thread.join()
            answers.append(self.space.settle(attempt))
            assert answers[0] == answers[1]

    def test_the_rows_of_attempts_are_as_documented(self) -> None:
        made = self.attempt(put(A, 1))
        self.space.settle(TWO)
        row, settled = self.attempt_row(), self.attempt_row(TWO)
        assert row is not None and settled is not None
        assert (row.fence, row.body.keys()) == (1, {"digest", "version"})
        assert (row.body["version"], len(row.body["digest"])) == (made.version, 64)
        assert (settled.fence, settled.body) == (
            1,
            {"at": self.space.now.isoformat().replace("+00:00", ".000000Z"), "digest": None,
             "version": 0},
        )  # fmt: skip

    # -- what becomes of them ----------------------------------------------------------------------

    def test_an_erasure_drops_the_digests_of_what_wrote_the_entity(self) -> None:
        """No digest is left to guess the value by; the attempt still stands for its commit."""
        made = self.attempt(put(A, "1234"), put(B, 1))
        self.attempt(put(B, 2), attempt=TWO)
        self.space.erase(A, reason="asked to")
        row, other = self.attempt_row(), self.attempt_row(TWO)
        assert row is not None and other is not None
        assert row.body == {"digest": None, "version": made.version}
        assert other.body["digest"] is not None
        for value in ("1234", "4321"):
            assert self.attempt(put(A, value), put(B, 1)).hash == made.hash
        for operations in ([put(B, 1)], [put(B, 1), put(A, "1234")]):
            with Unchanged(self, PayloadMismatch):
                self.attempt(*operations)
        assert self.space.verify().ok

    def test_an_erasure_drops_the_digest_of_a_merge_and_its_resolutions(self) -> None:
        self.space.set(A, 1)
        self.space.create_branch("other").set(A, 2)
        self.space.set(A, 3)
        command = Merge("other", resolutions={A: 3}, attempt=ONE)
        made = answered(self, command).commit
        self.space.erase(A, reason="asked to")
        row = self.attempt_row()
        assert row is not None
        assert row.body == {"digest": None, "version": made.version}

    def test_an_erasure_drops_the_digests_below_the_horizon(self) -> None:
        self.attempt(put(A, 1))
        self.attempt(put(B, 1), attempt=TWO)
        self.space.set(C, 1)
        self.space.compact(before=3)
        self.space.erase(A, reason="asked to")
        for attempt in (ONE, TWO):
            row = self.attempt_row(attempt)
            assert row is not None and row.body["digest"] is None

    def test_an_attempt_whose_commit_was_compacted_away_is_not_made_again(self) -> None:
        self.attempt(put(A, 1))
        self.attempt(put(B, 1), attempt=TWO, key="k")
        self.space.set(A, 2)
        self.space.compact(before=3)
        with Unchanged(self, Compacted):
            self.attempt(put(A, 1))
        with Unchanged(self, Compacted):
            self.space.settle(ONE)
        assert self.attempt(put(B, 1), attempt=TWO, key="k").version == 2
        assert self.space.verify().ok

    def test_gc_drops_attempts_after_a_week_and_not_before(self) -> None:
        self.attempt(put(A, 1))
        self.space.settle(TWO)
        self.clock.move(seconds=ATTEMPT_SECONDS - 1)
        self.attempt(put(A, 2), attempt=THREE)
        self.space.gc()
        assert None not in (self.attempt_row(), self.attempt_row(TWO), self.attempt_row(THREE))
        self.clock.move(seconds=1)
        self.space.gc()
        assert (self.attempt_row(), self.attempt_row(TWO)) == (None, None)
        assert self.attempt_row(THREE) is not None
        assert self.space.verify().ok

    def test_copies_leave_attempts(self) -> None:
        self.attempt(put(A, 1))
        self.space.settle(TWO)
        answered(self, PutSide("note", "n", 1, fence=0))
        assert [row.kind for row in answered(self, SidesOut()).rows] == ["note"]

    def test_verify_finds_an_attempt_that_leads_to_another_commit(self) -> None:
        self.attempt(put(A, 1))
        self.space.set(A, 2)
        kernel = kernel_of(self.port)
        engine, number = kernel.spaces.wiring.engine, kernel.spaces.open(self.did).number
        with engine.writer(number) as rows:
            rows.put_side(number, made_record(self.did, "attempt", ONE, 2, None))
        (fault,) = self.space.verify().faults
        assert (fault.kind, fault.id, fault.version) == ("attempt", ONE, 2)


class SharedAttemptTests(AttemptTests):
    """Attempts in a place that several have opened."""

    def test_an_attempt_is_known_to_all_who_open_the_place(self) -> None:
        made = self.attempt(put(A, 1))
        other = self.open(presumes=True).space("notes")
        assert other._port.answer(self.did, MakeCommit([put(A, 1)], attempt=ONE)) == made
        with pytest.raises(PayloadMismatch):
            other._port.answer(self.did, MakeCommit([put(A, 2)], attempt=ONE))
        assert other.settle(ONE) == made
        assert other.settle(TWO) is None
        with pytest.raises(Denied):
            self.attempt(put(A, 1), attempt=TWO)
        assert other.version == 1
