"""Receipts of retrievals, beside the history, in the order of their times.

A receipt shows that something was read, never its content: hashes, names of stores and a count. It is
a side row of the space that was asked. The hash of a package is a digest of excerpts without a salt, so
an erasure takes it away. Frozen: its kind, the form of its key, and what an erasure leaves.
"""

from collections.abc import Callable

from rote.contract import Erased, Port, SideRow, all_sides, all_spaces
from rote.contract.commands import GetHead, GetSide, GetTimes, PutSide
from rote.errors import Busy, Conflict, Denied
from rote.values import Json
from rote.values.limits import RECEIPTS_AT_ONCE_MAX
from rote.values.times import MICROS_MIN

_KIND = "receipt"
_INSTANT_DIGITS = 20


def add_receipt(port: Port, space: str, receipt: Json, *, since: int | None) -> None:
    """Add a receipt; receipts of one instant are numbered.

    No receipt has an earlier time than the commits before it, also when the clock was set back: an
    erasure must find all that were made since the entity was first written. `since` is a version from
    before the retrieval: after an erasure above it the receipt is kept without its hash.
    """
    newest = port.answer(space, GetHead()).at
    now = port.answer("", GetTimes(shared=False)).now
    instant = max(now, newest or now) - MICROS_MIN
    for number in range(RECEIPTS_AT_ONCE_MAX):
        key = f"{instant:0{_INSTANT_DIGITS}d}.{number:06d}"
        if port.answer(space, GetSide(_KIND, key)) is not None:
            continue
        try:
            try:
                port.answer(space, PutSide(_KIND, key, receipt, 0, since))
            except Conflict:
                port.answer(space, PutSide(_KIND, key, _without_hash(receipt), 0))
        except Denied as error:
            if "read_only" in error.details:
                raise
            continue  # another process has taken this number
        return
    raise Busy("the clock stands still and its instant is full of receipts; try again")


def receipts_in(port: Port) -> list[Json]:
    """Return all receipts of a store, oldest first."""
    rows = [row for info in all_spaces(port) for row in all_sides(port, info.did, _KIND)]
    return [row.body for row in sorted(rows, key=lambda row: row.key)]


def _without_hash(receipt: Json) -> Json | None:
    """Return what an erasure leaves of a receipt; None when it has no hash, or others wrote it."""
    data = receipt.get("data") if type(receipt) is dict else None
    if type(receipt) is not dict or type(data) is not dict or data.get("package_hash") is None:
        return None
    return {**receipt, "data": {**data, "package_hash": None, "erased": True}}


class ReceiptRule:
    """Implements contract.SideRule for receipts."""

    kind = _KIND
    travels = True
    is_final = True

    def erased(self, row: SideRow, erased: Erased) -> Json | None:
        """Take the hash out of a receipt that may be about an erased entity."""
        instant, _, _ = row.key.partition(".")
        if instant.isdecimal() and int(instant) + MICROS_MIN < erased.since:
            return None
        return _without_hash(row.body)

    def pinning(
        self, row: SideRow, *, before: int, now: int, side: Callable[[str, str], SideRow | None]
    ) -> Busy | None:
        return None

    def is_over(
        self, row: SideRow, *, now: int, side: Callable[[str, str], SideRow | None]
    ) -> bool:
        return False
