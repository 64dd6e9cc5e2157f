"""Receipts of retrievals, beside the history, in the order of their times.

A receipt shows that something was read, never its content: hashes, names of stores and a count. It is
a side row of the space that was asked. Frozen: its kind and the form of its key.
"""

from rote.contract import Port, all_sides, all_spaces
from rote.contract.commands import GetSide, GetTimes, PutSide
from rote.errors import Busy, Denied
from rote.values import Json
from rote.values.limits import RECEIPTS_AT_ONCE_MAX
from rote.values.times import MICROS_MIN

_KIND = "receipt"
_INSTANT_DIGITS = 20


def add_receipt(port: Port, space: str, receipt: Json) -> None:
    """Add a receipt; receipts of one instant are numbered."""
    instant = port.answer("", GetTimes(shared=False)).now - MICROS_MIN
    for number in range(RECEIPTS_AT_ONCE_MAX):
        key = f"{instant:0{_INSTANT_DIGITS}d}.{number:06d}"
        if port.answer(space, GetSide(_KIND, key)) is not None:
            continue
        try:
            port.answer(space, PutSide(_KIND, key, receipt, 0))
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
