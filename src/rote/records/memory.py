"""Memory: the verbs of the memory contract on a space.

A record is one entity, so it has history, point-in-time reads, branches and conflict checks like
any other. Results are plain data, and equal histories give equal results.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from rote.contract import Commit, Glance
from rote.errors import InvalidInput, NotFound, PatchFailed
from rote.records import profiles, retention
from rote.records.envelope import (
    CARRIED,
    Life,
    check_object,
    check_ttl,
    envelope,
    read_life,
    record_of,
)
from rote.records.filters import parse_filters
from rote.records.keys import check_kind, check_kinds, check_namespaces, entity_id, is_key
from rote.records.listing import find_records, of_newest
from rote.records.metadata import Metadata, check_metadata
from rote.space import Space, Transaction
from rote.values import Json, micros_of
from rote.values.limits import RECORD_ATTEMPTS_MAX
from rote.values.names import check_text

Result = dict[str, Any]
Point = int | datetime | str

_TIMES = ["/created_at", "/updated_at"]
_LIFE = ("/created_at", "/updated_at", "/ttl_seconds")
_KEY = ("/namespace", "/record_kind", "/record_id")
_ENTRIES = "/payload/entries"
_ITEM = ("record_kind", "record_id", "created_at", "updated_at", "ttl_seconds")
_INCLUDED = ("payload", "metadata", *CARRIED)


class Memory:
    """The memory verbs on a space, on its branch; on a pinned view the reading ones.

    In a transaction answers have no version and no time, because only its commit will have them.
    """

    def __init__(
        self,
        space: Space | Transaction,
        *,
        namespaces: Iterable[str] | None = None,
        profile: str = profiles.V1_1,
        default_ttl_by_namespace: Mapping[str, int | None] | None = None,
        prune_strategy_by_namespace: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(space, Transaction):
            space = space.space
        if not isinstance(space, Space):
            raise InvalidInput(
                "a memory is made of a space, Memory(store.space(name)), or of a transaction;"
                " a run has one, run.memory"
            )
        self.space = space
        self.profile = profiles.check_profile(profile)
        self.namespaces = check_namespaces(namespaces)
        self._retention = retention.parse_retention(
            self.namespaces, default_ttl_by_namespace, prune_strategy_by_namespace
        )

    @staticmethod
    def entity_id(namespace: str, kind: str, id: str) -> str:
        """Return the id of the entity that holds a record."""
        return entity_id(namespace, kind, id)

    # -- writing -----------------------------------------------------------------------------------

    def put(  # noqa: PLR0917 - hosts of v1 call it by position
        self,
        namespace: str,
        kind: str,
        id: str,
        payload: Mapping[str, Json],
        ttl_seconds: int | UnsetType | None = UNSET,
        metadata: Metadata | UnsetType | None = UNSET,
    ) -> Result:
        """Store a whole record; `created_at` of an existing one is kept."""
        entity = self._entity(namespace, kind, id)
        body = check_object(payload, "payload")
        ttl = self._ttl(namespace, ttl_seconds)
        known = self._metadata_of(body, metadata)

        may_be_new = True  # the first attempt may assume that the record is new, the second looks

        def put_once() -> Result:
            nonlocal may_be_new
            seen, life = self._look(entity, may_be_new=may_be_new)
            may_be_new = False
            created_at = None if life is None else life.created_at
            value = envelope(
                (namespace, kind, id), body, ttl_seconds=ttl, metadata=known, created_at=created_at
            )
            stamp = _TIMES if life is None else _TIMES[1:]
            commit = self._set(entity, value, stamp, seen)
            return _written(commit, created=life is None)

        return self._retry(put_once)

    def append(  # noqa: PLR0917 - as above
        self,
        namespace: str,
        kind: str,
        id: str,
        entry: Mapping[str, Json],
        ttl_seconds: int | UnsetType | None = UNSET,
        metadata: Metadata | UnsetType | None = UNSET,
    ) -> Result:
        """Add an entry to the `entries` of a record, which is made when there is none."""
        entity = self._entity(namespace, kind, id)
        added = _Appended(
            entry=check_object(entry, "entry"),
            ttl_seconds=UNSET if ttl_seconds is UNSET else check_ttl(ttl_seconds),
            metadata=UNSET if metadata is UNSET else self._check_metadata(metadata),
        )
        new = envelope(
            (namespace, kind, id),
            {"entries": [added.entry]},
            ttl_seconds=self._ttl(namespace, ttl_seconds),
            metadata=None if added.metadata is UNSET else added.metadata,
        )
        return self._retry(lambda: self._append_once(entity, added, new))

    def _append_once(self, entity: str, added: "_Appended", new: dict[str, Any]) -> Result:
        seen, life = self._look(entity, sizes=(_ENTRIES,))
        if seen.exists and life is None:
            # An expired record counts as absent: the new record replaces it.
            return _appended(self._set(entity, new, _TIMES, seen), entries=1)
        if seen.exists and seen.sizes[0] is None:
            raise _no_entries(entity)
        operation = {
            "op": "patch",
            "id": entity,
            "ops": added.operations(),
            "stamp": _TIMES[1:],
            "else": new,
            "else_stamp": _TIMES,
        }
        try:
            commit = self.space.transact([operation])
        except PatchFailed as error:
            raise _no_entries(entity) from error
        return _appended(commit, entries=self._entries_after(commit, seen))

    def _entries_after(self, commit: Commit, seen: Glance) -> int:
        """Return the number of entries after a commit; read it again when others wrote in between."""
        fact = commit.facts[0]
        if fact.op == "set":
            return 1
        if fact.parent == seen.hash and seen.sizes[0] is not None:
            return seen.sizes[0] + 1
        after = self.space.at(commit.version).glance(fact.id, sizes=(_ENTRIES,))
        return after.sizes[0] or 0

    def delete(self, namespace: str, kind: str, id: str) -> Result:
        """Delete a record, expired or not; its history stays."""
        entity = self._entity(namespace, kind, id)
        if not self.space.glance(entity).exists:
            return {"ok": True, "deleted": False}
        try:
            self.space.delete(entity)
        except NotFound as error:
            if error.details.get("id") != entity:
                raise
            return {"ok": True, "deleted": False}
        return {"ok": True, "deleted": True}

    def prune(self, namespace: str | None = None) -> Result:
        """Delete expired records, of one namespace or of all."""
        pruned = sum(
            retention.prune_namespace(self.space, name)
            for name in self._chosen(namespace)
            if self._retention.prunes(name)
        )
        return {"ok": True, "pruned": pruned}

    def touch(self, namespace: str, kind: str, id: str) -> Result:
        """Note that a record was used, in last_accessed and access_count. No other verb does."""
        self._check_offered("touch")
        entity = self._entity(namespace, kind, id)
        return self._retry(lambda: self._touch_once(entity))

    def _touch_once(self, entity: str) -> Result:
        seen, life = self._look(entity, values=("/metadata",))
        if life is None:
            self.space.glance(entity)  # a transaction notes that the answer relies on it
            return {
                "ok": True, "found": False, "last_accessed": None, "access_count": None,
                "version": None,
            }  # fmt: skip
        metadata = seen.values[-1]
        known = metadata if type(metadata) is dict else {}
        count = known.get("access_count")
        counted = (count if type(count) is int else 0) + 1
        commit = self.space.transact(
            [
                {
                    "op": "patch",
                    "id": entity,
                    "ops": [
                        *([] if known else [{"op": "add", "path": "/metadata", "value": {}}]),
                        {"op": "add", "path": "/metadata/access_count", "value": counted},
                    ],
                    "stamp": ["/metadata/last_accessed"],
                }
            ],
            # Entries that are appended meanwhile do not matter.
            reads=[{"id": entity, "version": seen.version, "path": "/metadata"}],
        )
        return {
            "ok": True, "found": True, "last_accessed": commit.at, "access_count": counted,
            "version": commit.version,
        }  # fmt: skip

    # -- reading -----------------------------------------------------------------------------------

    def get(self, namespace: str, kind: str, id: str, *, at: Point | None = None) -> Result:
        """Return a record, as it is now or was at a version. Nothing is written."""
        entity = self._entity(namespace, kind, id)
        self._check_offered("at", at)
        view = self.space if at is None else self.space.at(at)
        record = record_of(view.read(entity))
        if record is not None:
            life = read_life(record["created_at"], record["updated_at"], record["ttl_seconds"])
            if life is None or life.has_expired(micros_of(view.now)):
                record = None
        return {"found": record is not None, "record": record}

    def list(
        self,
        namespace: str,
        kind: str | None = None,
        id_prefix: str | None = None,
        updated_since: str | None = None,
        filters: Mapping[str, Json] | None = None,
        *,
        at: Point | None = None,
        include: Iterable[str] = (),
    ) -> Result:
        """List the records that match, by kind and id. Nothing is written."""
        self.check_namespace(namespace)
        if kind is not None:
            check_kind(kind)
        if id_prefix is not None:
            check_text(id_prefix, "id_prefix")
        included = check_included(include)
        for name, value in (("filters", filters), ("at", at), ("include", included or None)):
            self._check_offered(name, value)
        wanted = parse_filters(filters, updated_since)
        base = self.space if at is None else self.space.at(at)
        now = micros_of(base.now)
        if wanted.limit == 0:
            return {"items": []}

        def page_of(view: Space) -> list[dict[str, Json]]:
            found = find_records(
                view, wanted, namespace=namespace, kind=kind, id_prefix=id_prefix or "", now=now
            )
            rest = islice(found, wanted.offset, None)
            return [
                {member: record.get(member) for member in _ITEM + included}
                for record in islice(rest, None if wanted.limit is None else wanted.limit + 1)
            ]

        page = of_newest(base, page_of)
        if wanted.limit is not None and len(page) > wanted.limit:
            return {"items": page[: wanted.limit], "next_offset": wanted.offset + wanted.limit}
        return {"items": page}

    def stats(self) -> Result:
        """Return the number and the size of records."""
        return of_newest(self.space, lambda view: retention.stats(view, self.namespaces))

    def retention_report(
        self,
        expire_soon_seconds: int = 86_400,
        namespace: str | None = None,
        kinds: Iterable[str] | None = None,
    ) -> Result:
        """Return the records that have expired or will soon, and the ages of all.

        namespace, kinds  count these only
        """
        now = micros_of(self.space.now)
        chosen, wanted = self._chosen(namespace), check_kinds(kinds)
        return of_newest(
            self.space,
            lambda view: retention.retention_report(
                view, chosen, wanted, now=now, expire_soon_seconds=expire_soon_seconds
            ),
        )

    def capabilities(self) -> Result:
        """Return the profile, verbs, filters, limits and namespaces that a workflow may rely on."""
        return profiles.capabilities(self.profile, self.namespaces)

    def call(self, verb: str, arguments: Iterable[Json] = ()) -> Result:
        """Call a verb with positional arguments, for hosts that speak v1."""
        name, taken = profiles.check_call(self.profile, verb, arguments)
        result: Result = getattr(self, name)(*taken)
        return result

    # -- what the verbs share ----------------------------------------------------------------------

    def _look(
        self,
        entity: str,
        *,
        values: tuple[str, ...] = (),
        sizes: tuple[str, ...] = (),
        may_be_new: bool = False,
    ) -> tuple[Glance, Life | None]:
        """Return a glance at a record, and its life; None for one that is absent or has expired.

        The verb names in the reads of its commit what it relies on.
        """
        seen = self.space.glance(
            entity,
            values=(*_LIFE, *_KEY, *values),
            sizes=sizes,
            may_be_new=may_be_new,
            is_noted=False,
        )
        life = read_life(*seen.values[:3]) if is_key(entity, *seen.values[3:6]) else None
        if life is not None and life.has_expired(micros_of(self.space.now)):
            life = None
        return seen, life

    def _retry(self, function: Callable[[], Result]) -> Result:
        return self.space.retry(function, attempts=RECORD_ATTEMPTS_MAX)

    def _set(
        self, entity: str, value: dict[str, Any], stamp: Iterable[str], seen: Glance
    ) -> Commit:
        return self.space.transact(
            [{"op": "set", "id": entity, "value": value, "stamp": tuple(stamp)}],
            reads=[{"id": entity, "version": seen.version}],
        )

    def _entity(self, namespace: str, kind: str, id: str) -> str:
        self.check_namespace(namespace)
        return entity_id(namespace, kind, id)

    def check_namespace(self, namespace: str) -> None:
        """Raise InvalidInput unless this memory has the namespace."""
        if type(namespace) is not str or namespace not in self.namespaces:
            raise InvalidInput(
                f"there is no namespace {namespace!r:.80}; there are {', '.join(self.namespaces)}",
                argument="namespace",
            )

    def _chosen(self, namespace: str | None) -> tuple[str, ...]:
        """Return one namespace of this memory, or all."""
        if namespace is None:
            return self.namespaces
        self.check_namespace(namespace)
        return (namespace,)

    def default_ttl(self, namespace: str) -> int | None:
        """Return the time to live of records of a namespace that are put without one."""
        return self._retention.ttl_of(namespace)

    def _check_offered(self, name: str, value: object = True) -> None:
        if value is not None:
            profiles.check_offered(self.profile, name)

    def _ttl(self, namespace: str, ttl_seconds: int | UnsetType | None) -> int | None:
        if ttl_seconds is UNSET:
            return self.default_ttl(namespace)
        return check_ttl(ttl_seconds)

    def _metadata_of(
        self, payload: Mapping[str, Any], metadata: Metadata | UnsetType | None
    ) -> Metadata | None:
        if metadata is not UNSET:
            return self._check_metadata(metadata)
        if self.profile == profiles.V1:
            return None
        return check_metadata(payload.get("_metadata"), "payload._metadata")

    def _check_metadata(self, metadata: Any) -> Metadata | None:
        self._check_offered("metadata")
        return check_metadata(metadata)


class _Appended(Struct, frozen=True):
    """The arguments of an append; UNSET members leave the record's own as they are."""

    entry: Mapping[str, Json]
    ttl_seconds: int | UnsetType | None
    metadata: Metadata | UnsetType | None

    def operations(self) -> list[dict[str, Any]]:
        operations: list[dict[str, Any]] = [
            # This changes nothing, and fails unless there is an array.
            {"op": "splice", "path": _ENTRIES, "index": 0, "remove": 0, "add": []},
            {"op": "add", "path": f"{_ENTRIES}/-", "value": self.entry},
        ]
        for path, value in (("/ttl_seconds", self.ttl_seconds), ("/metadata", self.metadata)):
            if value is not UNSET:
                operations.append({"op": "add", "path": path, "value": value})
        return operations


def _written(commit: Commit, *, created: bool) -> Result:
    return {"ok": True, "created": created, "updated_at": commit.at, "version": commit.version}


def _appended(commit: Commit, *, entries: int) -> Result:
    result = _written(commit, created=commit.facts[0].op == "set")
    return {**result, "entries": entries}


def _no_entries(entity: str) -> InvalidInput:
    return InvalidInput(
        "the payload of this record has no list `entries` to append to; put it with one",
        entity=entity,
    )


def check_included(include: Iterable[str]) -> tuple[str, ...]:
    """Return the members that a list shows of each record beside its key and times."""
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInput("include is a list of names", argument="include")
    names = tuple(include)
    for name in names:
        if name not in _INCLUDED:
            raise InvalidInput(
                f"include knows {', '.join(_INCLUDED)}, not {name!r:.80}", argument="include"
            )
    return names
