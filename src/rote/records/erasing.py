"""Erasing records by what they are, or ever were: the conditions, and their form in a command.

    {"namespace", "kind", "id", "id_prefix", "filters"}     each may be left out; all must hold

The key is in the id of the entity. Filters are compared with every version of a record on every
branch, whether it has expired, was deleted or pruned since.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct, ValidationError, convert

from rote.contract import Conditions
from rote.errors import InvalidInput, NotFound
from rote.records.envelope import read_record
from rote.records.filters import Filters, parse_filters
from rote.records.keys import PREFIX, check_kind, entity_id, ids_under, key_of
from rote.space import Space
from rote.values import Json, check_reason, format_time, micros_of
from rote.values.names import check_text


class Selected(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The records that an erasure selects, as a command says it."""

    namespace: str | None = None
    kind: str | None = None
    id: str | None = None
    id_prefix: str | None = None
    filters: dict[str, Any] | None = None

    def prefix(self) -> str:
        """Return the longest prefix that the ids of all selected records have."""
        if self.namespace is None:
            return PREFIX
        if self.kind is not None and self.id is not None:
            return entity_id(self.namespace, self.kind, self.id)
        return ids_under(self.namespace, self.kind, self.id_prefix or "")

    def has_key(self, entity: str) -> bool:
        key = key_of(entity)
        if key is None:
            return False
        wanted = (self.namespace, self.kind, self.id)
        return key[2].startswith(self.id_prefix or "") and all(
            want in (None, part) for want, part in zip(wanted, key, strict=True)
        )


class RecordMatcher:
    """Implements contract.Matcher for records."""

    prefix = PREFIX

    def read(self, where: Json, /) -> Conditions:
        try:
            selected = convert(where, Selected)
        except ValidationError as error:
            raise InvalidInput(f"these are no conditions on records: {error}") from None
        if selected.filters is None:
            return Conditions(selected.has_key)
        filters = _checked(selected.filters)

        def matches(entity: str, value: Json) -> bool:
            found = read_record(entity, value)
            return found is not None and filters.match(found[0])

        return Conditions(selected.has_key, matches)


MATCHER = RecordMatcher()


def selected_by(
    namespace: str | None,
    kind: str | None,
    id: str | None,
    *,
    id_prefix: str | None,
    filters: Any,
) -> Selected:
    """Return the records that a call selects; raise for the first fault."""
    if kind is not None:
        check_kind(kind)
    for name, text in (("id", id), ("id_prefix", id_prefix)):
        if text is not None:
            check_text(text, name)
            if not text:
                raise InvalidInput(f"{name} must not be empty", argument=name)
    if filters is not None:
        if isinstance(filters, dict):
            filters = {name: _sent(value) for name, value in filters.items()}
        _checked(filters)
    selected = Selected(namespace, kind, id, id_prefix, filters)
    if selected == Selected():
        raise InvalidInput(
            "say which records to erase: by namespace, kind, id, id_prefix or filters"
        )
    return selected


def erase_records(
    space: Space, selected: Selected, *, reason: str, dry_run: bool
) -> dict[str, Any]:
    """Erase the records by one commit, or say which they are."""
    check_reason(reason)
    where = {
        name: value
        for name in selected.__struct_fields__
        if (value := getattr(selected, name)) is not None
    }
    ids: list[str] = []
    version: int | None = None
    if dry_run:
        ids = list(space.written(selected.prefix(), where=where))
    else:
        try:
            named = {"prefix": selected.prefix(), "where": where}
            erasure = space.erase(named, reason=reason)
        except NotFound as error:
            if "prefix" not in error.details:
                raise  # not that nothing matches: the space is gone
        else:
            # Without facts it is the commit of another call, which has erased them meanwhile.
            if erasure.facts:
                event = erasure.commit.event or {}
                ids, version = event.get("ids") or [event["id"]], erasure.commit.version
    return {"ok": True, "erased": [_key(id) for id in ids], "version": version}


def _checked(filters: Any) -> Filters:
    """Return the filters of an erasure, which has no pages; refuse those that filter nothing."""
    parsed = parse_filters(filters)
    for name in ("limit", "offset"):
        if filters.get(name) is not None:
            raise InvalidInput(f"an erasure has no {name}: it takes all that match", filter=name)
    if parsed == Filters():
        raise InvalidInput(
            "these filters say nothing, so all would match; leave filters out if that is meant",
            argument="filters",
        )
    return parsed


def _sent(value: Any) -> Json:
    return format_time(micros_of(value)) if isinstance(value, datetime) else value


def _key(entity: str) -> dict[str, str]:
    key = key_of(entity)
    assert key is not None
    return dict(zip(("namespace", "record_kind", "record_id"), key, strict=True))
