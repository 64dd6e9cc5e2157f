"""Side rows and keys over the wire: those that others rely on cannot be spoiled."""

from collections.abc import Iterator
from typing import Any

import pytest

from rote.contract import Guard
from rote.runs.identities import payload_fingerprint
from rote.runs.run_rows import PendingCommit
from rote.testing.keys import did_of
from tests.callers import Served, serving_notes
from tests.wires import Reply

A, B = "urn:entity:a", "urn:other:b"
ADA, BEN, CYD = did_of("ada"), did_of("ben"), did_of("cyd")


@pytest.fixture
def served() -> Iterator[Served]:
    with serving_notes() as served:
        yield served


# -- side rows and keys -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["session", "verdict", "attempt", "nonce", "grant", "scrub"])
def test_rows_of_the_server_are_neither_read_nor_written(served: Served, kind: str) -> None:
    row = {"kind": kind, "key": "k"}
    for caller in (served.operator, served.ben):
        assert caller.command("side", row).status == 403
        assert caller.command("sides", {"kind": kind}).status == 403
        assert caller.command("put_side", {**row, "body": {}, "fence": 0}).status == 403
        assert caller.command("drop_side", {**row, "fence": 1}).status == 403
        guard = {**row, "body": {}, "fence": 0}
        assert caller.set(A, guards=[guard]).status == 403


@pytest.mark.parametrize("kind", ["key", "checkpoint", "compaction", "delegation"])
def test_rows_of_rote_are_read_and_not_written(served: Served, kind: str) -> None:
    row = {"kind": kind, "key": "k"}
    assert served.ben.command("sides", {"kind": kind}).status == 200
    assert served.ben.command("put_side", {**row, "body": {}, "fence": 0}).status == 403
    assert served.ben.command("drop_side", {**row, "fence": 1}).status == 403
    assert served.ben.set(A, guards=[{**row, "body": {}, "fence": 0}]).status == 403
    assert served.ben.set(A, guards=[{**row, "fence": 1, "drop": True}]).status == 403


def test_rows_that_others_read_must_have_their_form(served: Served) -> None:
    for kind, body in (
        ("run", {}), ("run", None), ("run", {"run_id": "k"}), ("lease", {}), ("lease", {"until": "x"}),
        ("lease", {"until": 1, "more": 1}), ("message", {}), ("message", {"tries": 1}), ("receipt", {}),
        ("receipt", {"kind": "memory.read"}),
    ):  # fmt: skip
        put = {"kind": kind, "key": "k", "body": body, "fence": 0}
        assert served.ben.command("put_side", put).status == 400, (kind, body)
        assert served.ben.set(A, guards=[put]).status == 400, (kind, body)
    for kind, body in (("lease", {"until": 1}), ("note", {"any": "thing"})):
        put = {"kind": kind, "key": "k", "body": body, "fence": 0}
        assert served.ben.command("put_side", put).status == 200
    assert served.operator.command("erase", {"id": B, "reason": "it still works"}).status == 200


RUN: dict[str, Any] = {
    "run_id": "r1", "workflow_id": "w", "policy_set_id": "p", "mode": "buffered_write",
    "validate": "answers", "branch": "main", "memory_snapshot_id": "x", "commit_id": "0" * 64,
    "snapshot_version": 1, "base_version": 1, "now": 0, "owner": "o",
    "started_at": "2026-01-01T00:00:00.000000Z",
}  # fmt: skip


def test_a_run_moves_only_along_its_machine(served: Served) -> None:
    def put(fence: int, key: str = "r1", **changes: Any) -> Reply:
        row = {"kind": "run", "key": key, "body": {**RUN, **changes}, "fence": fence}
        return served.ben.command("put_side", row)

    operations = [{"op": "set", "id": A, "value": 7}]
    pending: dict[str, Any] = {
        "state": "commit_pending",
        "payload": PendingCommit(operations, [], []).text(),
        "payload_fingerprint": payload_fingerprint("main", operations),
    }
    ended = {"state": "commit_applied", "at": "2026-01-01T00:00:01.000000Z"}
    assert put(0, key="r2").status == 400
    assert put(0, run_id="..", key="..").status == 400
    assert put(0, **pending).status == 400
    assert put(0, **ended).status == 400
    assert put(0).status == 200
    for changes in (
        {**pending, "payload": None},
        {**pending, "payload": "nonsense"},
        {**pending, "payload_fingerprint": "0" * 64},
        {**pending, "payload": PendingCommit([{"op": "set"}], [], []).text()},
        {"state": "flying"},
        {"workflow_id": "another"},
        {"at": "2026-01-01T00:00:01.000000Z"},
        {"discarded": True},
        {"state": "commit_applied"},
    ):
        assert put(1, **changes).status == 400, changes
    touching = [{"op": "set", "id": served.notes.did, "value": served.acl({BEN: "owner"})}]
    payload = PendingCommit(touching, [], []).text()
    fingerprint = payload_fingerprint("main", touching)
    assert (
        put(1, **{**pending, "payload": payload, "payload_fingerprint": fingerprint}).status == 403
    )
    assert put(1, **pending).status == 200
    assert put(2).status == 400
    assert served.ben.command("drop_side", {"kind": "run", "key": "r1", "fence": 2}).status == 403
    assert put(2, **ended).status == 200
    assert put(3, **ended).status == 400


def test_a_pending_run_is_not_recovered_under_an_older_acl(served: Served) -> None:
    operations = [{"op": "set", "id": A, "value": 7}]
    body = {
        **RUN,
        "snapshot_version": served.notes.version,
        "base_version": served.notes.version,
        "state": "commit_pending",
        "payload": PendingCommit(operations, [], []).text(),
        "payload_fingerprint": payload_fingerprint("main", operations),
    }
    opened = {**RUN, "snapshot_version": served.notes.version, "base_version": served.notes.version}
    for fence, each in enumerate((opened, body)):
        row = {"kind": "run", "key": "r1", "body": each, "fence": fence}
        assert served.ben.command("put_side", row).status == 200
    lease = {"kind": "lease", "key": "o", "body": {"until": 1}, "fence": 0}
    assert served.ben.command("put_side", lease).status == 200
    served.notes.withdraw(BEN)
    (record,) = served.store.recover()
    assert (record.run_id, record.state) == ("r1", "commit_aborted")
    assert served.notes.get(A) == 1


def pending_run(served: Served, operations: list[Any], **more: Any) -> dict[str, Any]:
    """Return the row of a run, opened by ben, that is to be committed by whoever recovers it."""
    version = served.notes.version
    opened = {**RUN, "snapshot_version": version, "base_version": version}
    for kind, key, body in (("run", "r1", opened), ("lease", "o", {"until": 1})):
        row = {"kind": kind, "key": key, "body": body, "fence": 0}
        assert served.ben.command("put_side", row).status == 200
    body = {
        **opened,
        "state": "commit_pending",
        "payload": PendingCommit(operations, [], [], **more).text(),
        "payload_fingerprint": payload_fingerprint("main", operations),
    }
    return {"kind": "run", "key": "r1", "body": body, "fence": 1}


def test_no_guard_hands_a_write_to_recovery(served: Served) -> None:
    operation = {"op": "set", "id": served.notes.did, "value": served.acl({BEN: "owner"})}
    before = served.notes.acl()
    row = pending_run(served, [operation])
    assert served.ben.set(A, 5, guards=[row]).status == 400
    served.store.recover()
    assert served.notes.acl() == before
    assert served.notes.get(A) == 1


@pytest.mark.parametrize("kind", ["delegation", "attempt", "key", "checkpoint"])
def test_what_a_pending_run_claims_is_judged(served: Served, kind: str) -> None:
    operations = [{"op": "set", "id": A, "value": 7}]
    row = pending_run(served, operations, guards=[Guard(kind, "k" * 32, 0, {"forged": True})])
    assert served.ben.command("put_side", row).status == 403
    served.store.recover()
    assert served.side(kind, "k" * 32) is None


def test_reserved_keys_are_for_runs(served: Served) -> None:
    for key in ("rote:x", "rote:run:x", "rote:run:" + "0" * 64):
        assert served.ben.set(A, key=key).status == 400
        guard = {"kind": "note", "key": "k", "fence": 0, "body": 1}
        assert served.ben.set(A, key=key, guards=[guard]).status == 400
