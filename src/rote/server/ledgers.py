"""Commands of a server about what runs and retrievals leave behind: the ledger and receipts."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from rote.contract import Commit, Port
from rote.contract.commands import ListSides
from rote.errors import Denied, InvalidInput, NotFound
from rote.runs.identities import payload_fingerprint
from rote.runs.ledger import Ledger, RunRecord
from rote.runs.life import commit_of
from rote.runs.run_rows import COMMIT_PENDING, RUN, pending_in
from rote.space.receipts import add_receipt
from rote.values.limits import PAGE_MAX


class RunsAsked(Struct, frozen=True):
    """The arguments of `runs`."""

    after: str | None = None
    limit: int = PAGE_MAX


class RunPage(Struct, frozen=True):
    """Runs of a space, by run id."""

    runs: tuple[RunRecord, ...]
    next: str | None  # the run id to go on after; None at the end


class ReceiptAdded(Struct, frozen=True):
    """The arguments of `receipt_add`."""

    receipt: dict[str, Any]


class RunCommitted(Struct, frozen=True):
    """The arguments of `commit_run`."""

    run_id: str
    fence: int


def list_runs(port: Port, space: str, asked: RunsAsked) -> RunPage:
    page = port.answer(space, ListSides(RUN, asked.after or "", asked.limit))
    ledger = Ledger(port)
    return RunPage(tuple(ledger.row_of(space, side).record() for side in page.rows), page.next)


def commit_run(port: Port, space: str, asked: RunCommitted) -> Commit:
    """Commit a pending run as its owner would; Denied when its row has moved on."""
    row = Ledger(port).read(space, asked.run_id)
    if row is None:
        raise NotFound(f"there is no run {asked.run_id!r:.80}", run_id=asked.run_id)
    if row.fence != asked.fence:
        raise Denied(
            f"the row of run {asked.run_id!r:.80} has moved on; read it again",
            fence=row.fence,
        )
    if row.body.state != COMMIT_PENDING:
        raise InvalidInput(
            f"run {asked.run_id!r:.80} is {row.body.state}; only a pending run is committed",
            state=row.body.state,
        )
    pending = pending_in(row.body)
    operations = [] if pending is None else pending.operations
    if payload_fingerprint(row.body.branch, operations) != row.body.payload_fingerprint:
        raise InvalidInput(
            f"run {asked.run_id!r:.80} would write something else than its fingerprint says",
            run_id=asked.run_id,
        )
    return port.answer(space, commit_of(row))


def put_receipt(port: Port, space: str, asked: ReceiptAdded) -> None:
    """Keep the receipt of a retrieval that the caller has made from pages of this space."""
    check_receipt(asked.receipt)
    # Nobody knows what the caller had read before an erasure, so the hash goes with the first one.
    add_receipt(port, space, asked.receipt, since=None)


def check_receipt(receipt: Any) -> None:
    """Refuse what no retrieval leaves: an erasure has to understand every receipt."""
    try:
        msgspec.convert(receipt, _Receipt, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"the receipt is not one that rote.receipt returns: {error}", argument="receipt"
        ) from None


class _ReceiptData(Struct, forbid_unknown_fields=True):
    query_hash: str
    store_paths: list[str]
    selected_count: int
    package_hash: str | None  # None: something was erased while the retrieval went on
    erased: bool = False  # whether that is so


class _Receipt(Struct, forbid_unknown_fields=True):
    kind: Literal["memory.read"]
    data: _ReceiptData
