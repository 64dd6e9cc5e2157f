"""The store tier: entities of a space, but for those that belong to other tiers and to the space itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rote.contract import State
from rote.errors import Denied
from rote.space import Space
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Json, canonical
from rote.values.limits import PAGE_BYTES_MAX, PAGE_MAX
from rote.values.names import check_prefix
from rote.values.ranges import above, prefix_end

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_ID = Parameter("id", _TEXT)
_KEY = Parameter("key", _TEXT_OR_NULL, None)
_LIST = {"type": "array"}
VERBS = table(
    [
        Verb("get", (_ID, Parameter("default", {}, None)), False),
        Verb("read", (_ID,), False),
        Verb(
            "scan",
            (
                Parameter("prefix", _TEXT, ""),
                Parameter("after", _TEXT_OR_NULL, None),
                Parameter("limit", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}, 100),
            ),
            False,
        ),
        Verb("set", (_ID, Parameter("value", {}), _KEY), True, destructive=True),
        Verb("patch", (_ID, Parameter("ops", _LIST), _KEY), True, destructive=True),
        Verb("delete", (_ID, _KEY), True, destructive=True),
        Verb("transact", (Parameter("operations", _LIST), _KEY), True, destructive=True),
    ]
)
# Entities of the other tiers, in id order; each ends with a character that has a successor.
_RESERVED = ("agent:", "queue:", "record:")
# Read by everyone, written by the operator.
_READ_ONLY = ("urn:schema:", "urn:blob-meta:")
_SCHEMAS = "urn:schemas"
_Range = tuple[str, str | None]  # the first id, and the first id above


class StoreTier:
    """The entities of a space that users name themselves."""

    name = "store"
    verbs = VERBS
    switches: Mapping[str, bool] = {}

    def __init__(self, space: Space, *, writing: Space | None = None) -> None:
        """writing  where writes go, if not to the space that is read"""
        self._space = space
        self._writing = space if writing is None else writing

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        space, given = self._space, dict(arguments)
        for id in named_ids(verb, given):
            check_id(id, space.did, writes=VERBS[verb].writes)
        if verb == "scan":
            return self._scan(given["prefix"], given["after"], given["limit"])
        if verb == "get":
            return space.get(given["id"], given["default"])
        if verb == "read":
            return space.read(given["id"]).to_dict()
        key = given.pop("key")
        operations = given["operations"] if verb == "transact" else [{"op": verb, **given}]
        commit = self._writing.transact(operations, key=key)
        return {"version": commit.version, "hash": commit.hash}

    def close(self) -> None:
        pass

    def _scan(self, prefix: str, after: str | None, limit: int) -> Json:
        check_prefix(prefix)
        ranges = free_ranges(prefix, self._space.did)
        # Several scans show one state only together with a version.
        is_split = len(ranges) > 1 and not self._space.is_pinned
        view = self._space.at(self._space.version) if is_split else self._space
        return page_of(_scanned(view, ranges, after, limit), limit)


def named_ids(verb: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the ids that a call names; what is none is refused by the space."""
    given = arguments["operations"] if verb == "transact" else [arguments]
    ids = [each.get("id") for each in given if isinstance(each, Mapping)]
    return [id for id in ids if type(id) is str]


def check_id(id: str, did: str, *, writes: bool) -> None:
    """Raise Denied for an entity that is not this tier's."""
    if id.startswith(_RESERVED) or id == did:
        raise _reserved(id, "belongs to another tier or to the space itself; use that tier")
    if writes and (id.startswith(_READ_ONLY) or id == _SCHEMAS):
        raise _reserved(id, "is read here, and written by the operator of the space")


def free_ranges(prefix: str, did: str) -> list[_Range]:
    """Return the ranges of ids with a prefix that are this tier's, in order."""
    taken = [(name, prefix_end(name)) for name in _RESERVED] + [(did, above(did))]
    start, end = prefix, prefix_end(prefix)
    free: list[_Range] = []
    for low, high in sorted(taken):
        assert high is not None
        if high <= start or (end is not None and low >= end):
            continue
        if start < low:
            free.append((start, low))
        start = high
    if end is None or start < end:
        free.append((start, end))
    return free


def page_of(states: Iterator[State], limit: int) -> dict[str, Json]:
    """Return a page of at most `limit` states; it ends early where it gets large."""
    items: list[dict[str, Json]] = []
    size = 0
    for state in states:
        if len(items) == limit or size > PAGE_BYTES_MAX:
            return {"items": items, "next": items[-1]["id"]}
        items.append(state.to_dict())
        size += len(canonical(state.value))
    return {"items": items, "next": None}


def _scanned(
    view: Space, ranges: Sequence[_Range], after: str | None, limit: int
) -> Iterator[State]:
    for start, end in ranges:
        if after is None or end is None or after < end:
            # One more than is shown tells whether there are more.
            yield from view.scan_range(start, end, after=after, limit=limit + 1)


def _reserved(id: str, reason: str) -> Denied:
    return Denied(f"the id {id!r:.80} {reason}", code="reserved_id", id=id)
