"""The writing verbs of a memory, and what all verbs share.

Each verb looks at the record, commits under that look, and looks again when others wrote in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from rote.contract import Commit, Glance
from rote.errors import Compacted, Conflict, InvalidInput, NotFound, PatchFailed
from rote.records import profiles, retention
from rote.records.arguments import (
    TIMES,
    Keyed,
    NewRecord,
    check_if_version,
    keyed,
    named,
    parse_correction,
    refusal,
)
from rote.records.envelope import Life, check_object, check_ttl, envelope, read_life
from rote.records.keys import check_namespaces, entity_id, is_key
from rote.records.metadata import Metadata, check_metadata
from rote.records.sent import sendable, verbs_of
from rote.space import Space, Transaction
from rote.space.sessions import Transacting
from rote.values import Json, check_key, micros_of, parse_time
from rote.values.limits import INTEGER_MAX, RECORD_ATTEMPTS_MAX

Result = dict[str, Any]
Written = tuple[Commit | None, Result]  # None: nothing was to be written

_LIFE = ("/created_at", "/updated_at", "/ttl_seconds")
_KEY = ("/namespace", "/record_kind", "/record_id")
_ENTRIES = "/payload/entries"
_NO_COMMIT = {"ok": True, "created": 0, "version": None}


class RecordWriter:
    """The verbs that write, on a space and its branch."""

    # Whether a server may answer its verbs whole (records/sent.py).
    _is_sent = False
    # Of the error about a namespace that this memory does not have.
    _advice_on_namespaces = (
        "; list all that you use in Memory(space, namespaces=[…]),"
        " for a host in memory={'namespaces': […]}"
    )

    def __init__(
        self,
        space: Space | Transaction | Transacting,
        *,
        namespaces: Iterable[str] | None = None,
        profile: str = profiles.V1_1,
        default_ttl_by_namespace: Mapping[str, int | None] | None = None,
        prune_strategy_by_namespace: Mapping[str, str] | None = None,
    ) -> None:
        # Each verb runs on a transaction of its own.
        self.session = space if isinstance(space, Transacting) else None
        if isinstance(space, Transaction | Transacting):
            space = space.space
        if not isinstance(space, Space):
            raise InvalidInput(
                "a memory is made of a space, Memory(store.space(name)), a session or a transaction;"
                " a run has one, run.memory"
            )
        self.space = space
        # A run reads from one space and writes to another, one verb at a time.
        self._writing = space
        self._turn: AbstractContextManager[object] = nullcontext()
        self.profile = profiles.check_profile(profile)
        self.namespaces = check_namespaces(namespaces)
        has_rules = default_ttl_by_namespace or prune_strategy_by_namespace
        # The profile v1 knows no key, which stands for the attempt of a verb on a server.
        is_plain = self.profile == profiles.V1_1 and not has_rules and self.session is None
        self.verbs = verbs_of(space) if self._is_sent and is_plain else None
        self._retention = retention.parse_retention(
            self.namespaces, default_ttl_by_namespace, prune_strategy_by_namespace
        )

    # -- writing -----------------------------------------------------------------------------------

    @sendable
    def put(  # noqa: PLR0917 - hosts of v1 call it by position
        self,
        namespace: str,
        kind: str,
        id: str,
        payload: Mapping[str, Json],
        ttl_seconds: int | UnsetType | None = UNSET,
        metadata: Metadata | UnsetType | None = UNSET,
        *,
        key: str | None = None,
        if_version: int | None = None,
    ) -> Result:
        """Store a whole record; `created_at` of an existing one is kept.

        key         the same call again with this key changes nothing and answers the same
        if_version  Conflict unless the record was last written in this version; 0: it must not exist
        """
        new = self._new((namespace, kind, id), payload, ttl_seconds, metadata)
        self._check_condition(key, if_version)
        call = None if key is None else keyed(key, "put", (new.entity,), **new.arguments())

        may_be_new = not if_version  # the first attempt may assume that the record is new

        def put_once() -> Written | Conflict:
            nonlocal may_be_new
            seen, life = self._look(new.entity, may_be_new=may_be_new)
            may_be_new = False
            refused = self._refusal(new.entity, seen, if_version, is_there=life is not None)
            if refused is not None:
                return refused
            commit = self._set(new.entity, *new.as_put(life), seen, call)
            return commit, _written(commit, created=life is None)

        return self._write(
            call,
            put_once,
            lambda made: _written(made, created=self._was_new(made, new.entity)),
        )

    @sendable
    def put_many(self, records: Iterable[Mapping[str, Any]], *, key: str | None = None) -> Result:
        """Store records in one commit, all or none.

        Each is {namespace, record_kind, record_id, payload, ttl_seconds?, metadata?}.
        """
        self._check_offered("put_many")
        self._check_condition(key)
        new = named(records, self._new_of)
        if not new:
            return dict(_NO_COMMIT)
        ids = [each.entity for each in new]
        call = None
        if key is not None:
            call = keyed(key, "put_many", ids, records=[each.arguments() for each in new])

        def put_once() -> Written:
            looks = [self._look(entity) for entity in ids]
            operations = []
            for each, (_, life) in zip(new, looks, strict=True):
                value, stamp = each.as_put(life)
                operations.append({"op": "set", "id": each.entity, "value": value, "stamp": stamp})
            reads = [
                {"id": entity, "version": seen.version}
                for entity, (seen, _) in zip(ids, looks, strict=True)
            ]
            commit = self._transact(operations, reads, call)
            return commit, _many_put(commit, sum(life is None for _, life in looks))

        return self._write(call, put_once, lambda made: _many_put(made, self._are_new(made, ids)))

    @sendable
    def update(
        self,
        namespace: str,
        kind: str,
        id: str,
        *,
        payload: Mapping[str, Json] | UnsetType = UNSET,
        patch: Iterable[Mapping[str, Any]] | UnsetType = UNSET,
        metadata: Metadata | UnsetType | None = UNSET,
        ttl_seconds: int | UnsetType | None = UNSET,
        key: str | None = None,
        if_version: int | None = None,
    ) -> Result:
        """Change parts of a record; what is not given stays. NotFound when it is absent or expired.

        payload   replaces the payload
        patch     changes the payload: operations of RFC 6902, and splice
        metadata  its members replace those of the same names, null removes one; None removes all
        """
        self._check_offered("update")
        entity = self._entity(namespace, kind, id)
        self._check_condition(key, if_version)
        correction = parse_correction(payload, patch, metadata, ttl_seconds)
        call = None if key is None else keyed(key, "update", (entity,), **asdict(correction))

        def update_once() -> Written | Conflict:
            seen, life = self._look(entity, values=correction.wanted)
            if life is None:
                self._writing.glance(entity)  # a transaction notes that the answer relies on it
                raise NotFound(f"there is no record {namespace} {kind} {id}; put it", id=entity)
            refused = self._refusal(entity, seen, if_version, is_there=life is not None)
            if refused is not None:
                return refused
            operation = {
                "op": "patch",
                "id": entity,
                "ops": correction.operations(*seen.values[len(_LIFE + _KEY) :]),
                "stamp": TIMES[1:],
            }
            commit = self._transact([operation], [{"id": entity, "version": seen.version}], call)
            return commit, _updated(commit)

        return self._write(call, update_once, _updated)

    @sendable
    def append(  # noqa: PLR0917 - as above
        self,
        namespace: str,
        kind: str,
        id: str,
        entry: Mapping[str, Json],
        ttl_seconds: int | UnsetType | None = UNSET,
        metadata: Metadata | UnsetType | None = UNSET,
        *,
        key: str | None = None,
        if_version: int | None = None,
    ) -> Result:
        """Add an entry to the `entries` of a record, which is made when there is none."""
        entity = self._entity(namespace, kind, id)
        self._check_condition(key, if_version)
        added = _Appended(
            entry=check_object(entry, "entry"),
            ttl_seconds=UNSET if ttl_seconds is UNSET else check_ttl(ttl_seconds),
            metadata=UNSET if metadata is UNSET else self._check_metadata(metadata),
        )
        call = None if key is None else keyed(key, "append", (entity,), **asdict(added))
        new = envelope(
            (namespace, kind, id),
            {"entries": [added.entry]},
            ttl_seconds=self._ttl(namespace, ttl_seconds),
            metadata=None if added.metadata is UNSET else added.metadata,
        )
        return self._write(
            call,
            lambda: self._append_once(entity, added, new, if_version, call),
            lambda made: _appended(made, entries=self._entries_after(made, None)),
        )

    def _append_once(
        self,
        entity: str,
        added: "_Appended",
        new: dict[str, Any],
        if_version: int | None,
        call: Keyed | None,
    ) -> Written | Conflict:
        seen, life = self._look(entity, sizes=(_ENTRIES,))
        refused = self._refusal(entity, seen, if_version, is_there=life is not None)
        if refused is not None:
            return refused
        if seen.exists and life is None:
            # An expired record counts as absent: the new record replaces it.
            commit = self._set(entity, new, TIMES, seen, call)
            return commit, _appended(commit, entries=1)
        if seen.exists and seen.sizes[0] is None:
            raise _no_entries(entity)
        operation = {
            "op": "patch",
            "id": entity,
            "ops": added.operations(),
            "stamp": TIMES[1:],
            "else": new,
            "else_stamp": TIMES,
        }
        # An append commutes with all other writes, unless it has a condition.
        reads = () if if_version is None else ({"id": entity, "version": seen.version},)
        try:
            commit = self._transact([operation], reads, call)
        except PatchFailed as error:
            raise _no_entries(entity) from error
        return commit, _appended(commit, entries=self._entries_after(commit, seen))

    def _entries_after(self, commit: Commit, seen: Glance | None) -> int | None:
        """Return the number of entries after a commit; read it again when others wrote in between.

        None when a compaction has taken that state.
        """
        fact = commit.facts[0] if commit.facts else None
        if fact is None:
            return None
        if fact.op == "set":
            return 1
        if seen is not None and fact.parent == seen.hash and seen.sizes[0] is not None:
            return seen.sizes[0] + 1
        after = self.space.at(commit.version).glance(fact.id, sizes=(_ENTRIES,))
        return after.sizes[0] or 0

    @sendable
    def delete(
        self,
        namespace: str,
        kind: str,
        id: str,
        *,
        key: str | None = None,
        if_version: int | None = None,
    ) -> Result:
        """Delete a record, expired or not; its history stays."""
        entity = self._entity(namespace, kind, id)
        self._check_condition(key, if_version)
        call = None if key is None else keyed(key, "delete", (entity,))

        def delete_once() -> Written | Conflict:
            seen = self._writing.glance(entity)
            # An expired record is still there to be deleted.
            refused = self._refusal(entity, seen, if_version, is_there=seen.exists)
            if refused is not None:
                return refused
            if not seen.exists:
                return None, {"ok": True, "deleted": False}
            reads = () if if_version is None else ({"id": entity, "version": seen.version},)
            try:
                commit = self._transact([{"op": "delete", "id": entity}], reads, call)
            except NotFound as error:
                if error.details.get("id") != entity:
                    raise
                return None, {"ok": True, "deleted": False}
            return commit, {"ok": True, "deleted": True}

        return self._write(call, delete_once, lambda _: {"ok": True, "deleted": True})

    @sendable
    def prune(self, namespace: str | None = None) -> Result:
        """Delete expired records, of one namespace or of all."""
        pruned = sum(
            retention.prune_namespace(self._writing, name)
            for name in self._chosen(namespace)
            if self._retention.prunes(name)
        )
        return {"ok": True, "pruned": pruned}

    @sendable
    def touch(self, namespace: str, kind: str, id: str, *, key: str | None = None) -> Result:
        """Note that a record was used, in last_accessed and access_count. No other verb does."""
        self._check_offered("touch")
        self._check_condition(key)
        entity = self._entity(namespace, kind, id)
        call = None if key is None else keyed(key, "touch", (entity,))
        return self._write(
            call,
            lambda: self._touch_once(entity, call),
            lambda made: _touched(made, self._accesses_after(made, entity)),
        )

    def _touch_once(self, entity: str, call: Keyed | None) -> Written:
        seen, life = self._look(entity, values=("/metadata",))
        if life is None:
            self._writing.glance(entity)  # a transaction notes that the answer relies on it
            return None, {
                "ok": True, "found": False, "last_accessed": None, "access_count": None,
                "version": None,
            }  # fmt: skip
        metadata = seen.values[-1]
        known = metadata if type(metadata) is dict else {}
        count = known.get("access_count")
        counted = min((count if type(count) is int else 0) + 1, INTEGER_MAX)
        operation = {
            "op": "patch",
            "id": entity,
            "ops": [
                *([] if known else [{"op": "add", "path": "/metadata", "value": {}}]),
                {"op": "add", "path": "/metadata/access_count", "value": counted},
            ],
            "stamp": ["/metadata/last_accessed"],
        }
        # Entries that are appended meanwhile do not matter.
        reads = [{"id": entity, "version": seen.version, "path": "/metadata"}]
        commit = self._transact([operation], reads, call)
        return commit, _touched(commit, counted)

    def _accesses_after(self, commit: Commit, entity: str) -> Json:
        """Return the count of accesses after a commit; None when that state is gone."""
        try:
            view = self.space.at(commit.version)
        except Compacted:
            return None
        return view.glance(entity, values=("/metadata/access_count",)).values[0]

    # -- what the verbs share ----------------------------------------------------------------------

    def _look(
        self,
        entity: str,
        *,
        values: tuple[str, ...] = (),
        sizes: tuple[str, ...] = (),
        may_be_new: bool = False,
        view: Space | None = None,
        now: int | None = None,
    ) -> tuple[Glance, Life | None]:
        """Return a glance at a record, and its life; None for one that is absent or has expired.

        The verb names in the reads of its commit what it relies on.
        """
        seen = (view or self._writing).glance(
            entity,
            values=(*_LIFE, *_KEY, *values),
            sizes=sizes,
            may_be_new=may_be_new,
            is_noted=False,
        )
        life = read_life(*seen.values[:3]) if is_key(entity, *seen.values[3:6]) else None
        if life is not None and life.has_expired(
            micros_of(self._writing.now) if now is None else now
        ):
            life = None
        return seen, life

    def _write(
        self,
        call: Keyed | None,
        write: Callable[[], Written | Conflict],
        again: Callable[[Commit], Result],
    ) -> Result:
        """Write, and return the result; with a key that was used before only what it was.

        `write` commits and is called again on Conflict. `again` says the result of a commit.
        """
        with self._turn:
            made = None if call is None else self._writing.made(call.key, call.call, call.ids)
            if made is None:
                outcome = self._writing.retry(write, attempts=RECORD_ATTEMPTS_MAX)
                if isinstance(outcome, Conflict):
                    raise outcome
                made, result = outcome
                if made is None or call is None:
                    return result
        # Also for a commit of now: another process may have made it with the same key meanwhile.
        return again(made)

    def _was_new(self, commit: Commit, entity: str) -> bool | None:
        count = self._are_new(commit, [entity])
        return None if count is None else count == 1

    def _are_new(self, commit: Commit, entities: Iterable[str]) -> int | None:
        """Return how many of the records were absent before a commit; None when that is compacted away."""
        try:
            before = self.space.at(commit.version - 1)
        except Compacted:
            return None
        now = parse_time(commit.at)
        return sum(self._look(entity, view=before, now=now)[1] is None for entity in entities)

    def _set(
        self,
        entity: str,
        value: dict[str, Any],
        stamp: Iterable[str],
        seen: Glance,
        call: Keyed | None,
    ) -> Commit:
        return self._transact(
            [{"op": "set", "id": entity, "value": value, "stamp": tuple(stamp)}],
            [{"id": entity, "version": seen.version}],
            call,
        )

    def _transact(
        self, operations: Sequence[dict[str, Any]], reads: Any, call: Keyed | None
    ) -> Commit:
        if call is None:
            return self._writing.transact(operations, reads=reads)
        return self._writing.transact(operations, reads=reads, key=call.key, call=call.call)

    def _new(
        self, key: tuple[str, str, str], payload: Any, ttl_seconds: Any, metadata: Any
    ) -> NewRecord:
        entity = self._entity(*key)
        body = check_object(payload, "payload")
        return NewRecord(
            entity,
            key,
            body,
            self._ttl(key[0], ttl_seconds),
            self._metadata_of(body, metadata),
        )

    def _new_of(self, record: Mapping[str, Any]) -> NewRecord:
        return self._new(
            (record["namespace"], record["record_kind"], record["record_id"]),
            record["payload"],
            record.get("ttl_seconds", UNSET),
            record.get("metadata", UNSET),
        )

    def _refusal(
        self, entity: str, seen: Glance, if_version: int | None, *, is_there: bool
    ) -> Conflict | None:
        if if_version is None:
            return None
        self._writing.glance(entity)  # a transaction notes that the answer relies on it
        return refusal(entity, self._writing.branch, seen, if_version, is_there=is_there)

    def _check_condition(self, key: str | None, if_version: int | None = None) -> None:
        self._check_offered("key", key)
        self._check_offered("if_version", if_version)
        if key is not None:
            check_key(key)
        check_if_version(if_version)

    def _entity(self, namespace: str, kind: str, id: str) -> str:
        self.check_namespace(namespace)
        return entity_id(namespace, kind, id)

    def check_namespace(self, namespace: str) -> None:
        """Raise InvalidInput unless this memory has the namespace."""
        if type(namespace) is not str or namespace not in self.namespaces:
            raise InvalidInput(
                f"there is no namespace {namespace!r:.80}; there are {', '.join(self.namespaces)}"
                f"{self._advice_on_namespaces}",
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


def _written(commit: Commit, *, created: bool | None) -> Result:
    return {"ok": True, "created": created, "updated_at": commit.at, "version": commit.version}


def _touched(commit: Commit, count: Json) -> Result:
    return {
        "ok": True, "found": True, "last_accessed": commit.at, "access_count": count,
        "version": commit.version,
    }  # fmt: skip


def _many_put(commit: Commit, created: int | None) -> Result:
    return {"ok": True, "created": created, "version": commit.version}


def _updated(commit: Commit) -> Result:
    return {"ok": True, "updated_at": commit.at, "version": commit.version}


def _appended(commit: Commit, *, entries: int | None) -> Result:
    result = _written(commit, created=commit.facts[0].op == "set" if commit.facts else None)
    return {**result, "entries": entries}


def _no_entries(entity: str) -> InvalidInput:
    return InvalidInput(
        "the payload of this record has no list `entries` to append to; put it with one",
        entity=entity,
    )
