"""The ledger: receipts of what was retrieved, beside the history, in the order of their times.

A receipt says that something was read, never what: hashes, the names of stores and a count. It is a
side row of the space that was asked; the ledger of a store is that of all its spaces.
"""

from collections.abc import Iterator

from rote.contract import Port, SideRow
from rote.errors import Busy, Denied
from rote.values import Json
from rote.values.limits import PAGE_MAX, RECEIPTS_AT_ONCE_MAX
from rote.values.times import MICROS_MIN

_KIND = "receipt"
_INSTANT_DIGITS = 20


def add_receipt(port: Port, space: str, receipt: Json) -> None:
    """Add one; those of one instant are numbered."""
    instant = port.now() - MICROS_MIN
    for number in range(RECEIPTS_AT_ONCE_MAX):
        key = f"{instant:0{_INSTANT_DIGITS}d}.{number:06d}"
        if port.side(space, _KIND, key) is not None:
            continue
        try:
            port.put_side(space, _KIND, key, receipt, fence=0)
        except Denied:
            continue  # somebody else was here first
        return
    raise Busy("the clock stands still and its instant is full of receipts; try again")


def receipts_in(port: Port) -> list[Json]:
    """All of a store, oldest first."""
    rows = [row for info in port.spaces() for row in _rows(port, info.did)]
    return [row.body for row in sorted(rows, key=lambda row: row.key)]


def _rows(port: Port, space: str) -> Iterator[SideRow]:
    after = ""
    while page := port.sides(space, _KIND, after=after, limit=PAGE_MAX):
        yield from page
        after = page[-1].key
