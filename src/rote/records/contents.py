"""The content rule of records: what an entity below `record:` may hold, and how two records merge."""

from typing import Any

from msgspec import UNSET, MsgspecError, Struct, UnsetType, defstruct
from msgspec.json import Decoder

from rote.records.envelope import CARRIED, FIELDS, read_life, read_record
from rote.records.keys import PREFIX, is_key
from rote.records.metadata import instant_of
from rote.values import Encoded, Json
from rote.values.limits import INTEGER_MAX


class _Object(Struct, gc=False):
    """Any object; its members are passed over."""


# An envelope, decoded without what is below its members.
_KINDS = {"ttl_seconds": int | None, "payload": _Object, "metadata": _Object | None}
_Top = defstruct(
    "_Top",
    [
        *[(name, _KINDS.get(name, str)) for name in FIELDS],
        *[(name, _Object | UnsetType, UNSET) for name in CARRIED],
    ],
    forbid_unknown_fields=True,
    gc=False,
)
_top_of = Decoder(_Top).decode
_FAULT = "below record: there are only records, each under its own id; write it with rote.Memory"


class RecordContents:
    """The declaration; rote.open gives it to the kernel."""

    prefix = PREFIX

    def fault(self, id: str, value: Json | Encoded, /) -> str | None:
        if type(value) is Encoded:
            return None if _is_record(id, value.data) else _FAULT
        return None if read_record(id, value) is not None else _FAULT

    def reconciled(
        self, base: Json, ours: Json, theirs: Json, /, *, has_base: bool
    ) -> tuple[Json, Json]:
        """Take the later `updated_at` and `last_accessed`, and the sum of both counts of accesses; the
        larger count where nobody knows what the sides have in common."""
        if type(ours) is not dict or type(theirs) is not dict:
            return ours, theirs
        ours, theirs = _with_later("updated_at", ours, theirs)
        one, other = ours.get("metadata"), theirs.get("metadata")
        if type(one) is not dict or type(other) is not dict:
            return ours, theirs
        one, other = _with_later("last_accessed", one, other)
        before = _metadata_of(base) if has_base else None
        one, other = _with_sum("access_count", before, one, other)
        return {**ours, "metadata": one}, {**theirs, "metadata": other}


RECORD_CONTENTS = RecordContents()

_Members = dict[str, Any]


def _is_record(id: str, data: bytes) -> bool:
    """Whether canonical bytes are the record of an id: read_record, without decoding all of them."""
    try:
        top: Any = _top_of(data)
    except MsgspecError:
        return False
    return (
        is_key(id, top.namespace, top.record_kind, top.record_id)
        and read_life(top.created_at, top.updated_at, top.ttl_seconds) is not None
    )


def _metadata_of(record: Json) -> _Members:
    metadata = record.get("metadata") if type(record) is dict else None
    return metadata if type(metadata) is dict else {}


def _with_later(name: str, one: _Members, other: _Members) -> tuple[_Members, _Members]:
    """Return both with the later time; as they are when one of them has none."""
    times = [time for time in (one.get(name), other.get(name)) if instant_of(time) is not None]
    if len(times) < 2:
        return one, other
    # One instant can be written in two ways: the texts decide then, so that the order of sides does not.
    later = max(times, key=lambda time: (instant_of(time), time))
    return {**one, name: later}, {**other, name: later}


def _with_sum(
    name: str, base: _Members | None, one: _Members, other: _Members
) -> tuple[_Members, _Members]:
    """Return both with the base's count and what each has added; as they are when one has none."""
    counts = [count for count in (one.get(name), other.get(name)) if type(count) is int]
    if len(counts) < 2:
        return one, other
    before = 0 if base is None else base.get(name)
    added = sum(counts) - (before if type(before) is int else 0)
    total = max(counts) if base is None else min(max(added, 0), INTEGER_MAX)
    return {**one, name: total}, {**other, name: total}
