"""Side rows: small mutable rows beside the chain, moved by compare-and-set on a fence."""

from rote.contract import SideRow
from rote.engines import Engine, OutcomeUnknown, Reader
from rote.engines.rows import SideRecord
from rote.errors import Denied, InvalidInput, Unavailable
from rote.kernel.history import page_size
from rote.kernel.seals import side_record
from rote.values import Json, canonical, decode_canonical

# Kinds the kernel keeps for itself.
KERNEL_KINDS = frozenset({"key", "checkpoint"})


def get(engine: Engine, space: int, kind: str, key: str) -> SideRow | None:
    with engine.reader() as reads:
        row = reads.side(space, kind, key)
    return None if row is None else _seen(row)


def page(engine: Engine, space: int, kind: str, *, after: str, limit: int) -> tuple[SideRow, ...]:
    with engine.reader() as reads:
        rows = reads.sides(space, kind, after=(kind, after), limit=page_size(limit))
    return tuple(_seen(row) for row in rows)


def put(engine: Engine, space: int, kind: str, key: str, body: Json, *, fence: int) -> SideRow:
    """Write the row if nobody has since it was read with `fence`."""
    _check(kind, key)
    row = side_record(kind, key, fence + 1, canonical(body))
    try:
        with engine.writer(space) as writes:
            _check_fence(writes, space, kind, key, fence)
            writes.put_side(space, row)
    except OutcomeUnknown as error:
        raise _unknown() from error
    return _seen(row)


def drop(engine: Engine, space: int, kind: str, key: str, *, fence: int) -> None:
    _check(kind, key)
    try:
        with engine.writer(space) as writes:
            _check_fence(writes, space, kind, key, fence)
            writes.drop_side(space, kind, key)
    except OutcomeUnknown as error:
        raise _unknown() from error


def _check(kind: str, key: str) -> None:
    if kind in KERNEL_KINDS:
        raise InvalidInput(f"side rows of kind {kind!r} are the kernel's own")
    canonical([kind, key])


def _check_fence(reads: Reader, space: int, kind: str, key: str, fence: int) -> None:
    row = reads.side(space, kind, key)
    actual = 0 if row is None else row.fence
    if actual != fence:
        raise Denied(
            f"{kind} {key!r} has moved on (fence {actual}, not {fence}); read it again",
            kind=kind,
            key=key,
            expected_fence=fence,
            actual_fence=actual,
        )


def _unknown() -> Unavailable:
    return Unavailable(
        "the store failed while writing a side row; read the row to see whether it was written",
        outcome="unknown",
    )


def _seen(row: SideRecord) -> SideRow:
    return SideRow(row.kind, row.key, row.fence, decode_canonical(row.body))
