"""Trust: verify, checkpoints, and their proofs."""

from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.testing.space_suite.ground import A, B, SpaceGround, add, put, remove
from rote.values import canonical, verify_signature


class TrustTests(SpaceGround):
    def _write_some(self) -> None:
        self.space.transact([put(A, {"items": []}), put(B, 1)], key="k", meta={"m": 1})
        self.space.patch(A, [add("/items/-", 1)])
        self.space.transact([remove(B), put(B, 2)])

    def test_verify_counts_what_it_checked(self) -> None:
        self._write_some()
        report = self.space.verify()
        assert (report.ok, report.faults, report.erased) == (True, (), 0)
        assert (report.version, report.head) == (3, self.space.head)
        assert (report.commits, report.facts) == (3, 5)

    def test_an_empty_space_verifies(self) -> None:
        report = self.space.verify()
        assert (report.ok, report.version, report.head, report.commits) == (True, 0, None, 0)

    def test_progress_ends_at_the_total(self) -> None:
        self._write_some()
        told: list[tuple[int, int]] = []
        self.space.verify(progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (3, 3)
        assert told == sorted(told)

    def test_what_a_progress_raises_ends_verify_and_is_no_fault(self) -> None:
        """The error was reported as damage of the store, and the other passes went on."""
        self._write_some()
        self.space.put_blob(b"some bytes")

        def stop(done: int, total: int) -> None:
            raise KeyError("the caller's own")

        with pytest.raises(KeyError, match="own"):
            self.space.verify(progress=stop)
        assert self.space.verify().ok

    # -- checkpoints -------------------------------------------------------------------------------

    def test_a_checkpoint_states_the_head(self) -> None:
        self._write_some()
        self.clock.move(seconds=5)
        checkpoint = self.space.checkpoint()
        assert {name: checkpoint[name] for name in checkpoint if name != "signature"} == {
            "kind": "checkpoint/1",
            "space": self.did,
            "version": 3,
            "head": self.space.head,
            "at": "2026-01-01T12:00:05.000000Z",
            "state": None,
            "prior": None,
        }

    def test_a_checkpoint_is_signed_by_the_key_that_the_did_names(self) -> None:
        self._write_some()
        checkpoint = self.space.checkpoint()
        signature = bytes.fromhex(checkpoint.pop("signature"))
        signed = b"rote checkpoint/1\0" + canonical(checkpoint)
        assert verify_signature(self.did, signed, signature)

    def test_a_checkpoint_of_an_empty_space_has_no_head(self) -> None:
        checkpoint = self.space.checkpoint()
        assert (checkpoint["version"], checkpoint["head"]) == (0, None)
        self.space.set(A, 1)
        assert self.space.verify(against=checkpoint).ok

    def test_a_checkpoint_moves_no_version(self) -> None:
        self._write_some()
        head = self.space.head
        self.space.checkpoint()
        self.space.checkpoint()
        assert (self.space.version, self.space.head) == (3, head)
        assert self.space.verify().ok

    def test_a_log_that_grew_extends_its_checkpoint(self) -> None:
        self._write_some()
        checkpoint = self.space.checkpoint()
        assert self.space.verify(against=checkpoint).ok
        self.space.set(A, "later")
        assert self.space.verify(against=checkpoint).ok

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"version": 9},
            {"head": "0" * 64},
            {"head": None},
            {"at": "2026-01-01T12:00:00.000001Z"},
            {"state": "0" * 64},
            {"signature": "0" * 128},
            {"signature": "not hex"},
            {"signature": None},
        ],
        ids=repr,
    )
    def test_a_checkpoint_that_was_changed_proves_nothing(self, change: dict[str, Any]) -> None:
        self._write_some()
        report = self.space.verify(against={**self.space.checkpoint(), **change})
        assert not report.ok
        assert "checkpoint" in {fault.kind for fault in report.faults}

    def test_a_checkpoint_of_another_space_proves_nothing(self) -> None:
        self._write_some()
        other = self.store.space("other")
        other.set(A, 1)
        assert not self.space.verify(against=other.checkpoint()).ok

    def test_a_log_that_is_shorter_than_a_checkpoint_is_found(self) -> None:
        """The same space is in two places; the one that was cut off, or is behind, is refused."""
        seed = b"\x09" * 32
        ahead = self.open_fresh("ahead", seed=seed, ids=type(self.ids)(3)).space("x")
        behind = self.open_fresh("behind", seed=seed, ids=type(self.ids)(3)).space("x")
        for space in (ahead, behind):
            space.set(A, 1)
        ahead.set(A, 2)
        checkpoint = ahead.checkpoint()
        assert not behind.verify(against=checkpoint).ok
        behind.set(A, 2)
        assert behind.verify(against=checkpoint).ok

    def test_a_log_that_was_written_anew_is_found(self) -> None:
        seed = b"\x09" * 32
        honest = self.open_fresh("honest", seed=seed, ids=type(self.ids)(3)).space("x")
        forged = self.open_fresh("forged", seed=seed, ids=type(self.ids)(3)).space("x")
        honest.set(A, 1)
        forged.set(A, 2)
        forged.set(A, 3)
        assert forged.verify().ok
        assert not forged.verify(against=honest.checkpoint()).ok

    @pytest.mark.parametrize("thing", [{}, [], "x", 7, {"kind": "checkpoint/1"}], ids=repr)
    def test_what_is_no_checkpoint_is_refused(self, thing: Any) -> None:
        self._write_some()
        with pytest.raises(InvalidInput):
            self.space.verify(against=thing)

    def test_a_checkpoint_of_another_kind_or_with_more_members_is_refused(self) -> None:
        self._write_some()
        checkpoint = self.space.checkpoint()
        for changed in ({**checkpoint, "kind": "checkpoint/2"}, {**checkpoint, "more": 1}):
            with pytest.raises(InvalidInput):
                self.space.verify(against=changed)
