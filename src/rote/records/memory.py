"""Memory: the verbs of the memory contract on a space.

A record is one entity, so it has history, point-in-time reads, branches and conflict checks like
any other. Results are plain data, and equal histories give equal results.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from rote.errors import InvalidInput
from rote.records import profiles, retention
from rote.records.arguments import check_changes
from rote.records.envelope import CARRIED, read_life, record_of
from rote.records.erasing import erase_records, selected_by
from rote.records.filters import BY_ID, parse_filters, parse_order
from rote.records.history import history
from rote.records.keys import NAMESPACES, check_kind, check_kinds, entity_id
from rote.records.listing import find_records, of_newest, skip_records, with_versions
from rote.records.searching import search_request, within
from rote.records.sent import sendable
from rote.records.writer import RecordWriter, Result
from rote.space import Space
from rote.space.arguments import check_flags, check_progress
from rote.space.driving import Progress
from rote.values import Json, micros_of
from rote.values.names import check_text

Point = int | datetime | str

_ITEM = ("record_kind", "record_id", "created_at", "updated_at", "ttl_seconds")
_INCLUDED = ("payload", "metadata", *CARRIED, "version")


class Memory(RecordWriter):
    """The memory verbs on a space, on its branch; on a pinned view the reading ones.

    In a transaction answers have no version and no time, because only its commit will have them.
    """

    _is_sent = True

    @staticmethod
    def entity_id(namespace: str, kind: str, id: str) -> str:
        """Return the id of the entity that holds a record."""
        return entity_id(namespace, kind, id)

    # -- forgetting --------------------------------------------------------------------------------

    @sendable
    def erase(
        self,
        namespace: str | None = None,
        kind: str | None = None,
        id: str | None = None,
        *,
        id_prefix: str | None = None,
        filters: Mapping[str, Json] | None = None,
        reason: str,
        dry_run: bool = False,
    ) -> Result:
        """Erase every record that matches now or did at any version of its past, on any branch.

        Deleted, pruned and expired records are among them. A dry run says which it would be.
        """
        self._check_offered("erase")
        check_flags(dry_run=dry_run)
        if namespace is not None:
            self.check_namespace(namespace)
        selected = selected_by(namespace, kind, id, id_prefix=id_prefix, filters=filters)
        return erase_records(self.space, selected, reason=reason, dry_run=dry_run)

    # -- reading -----------------------------------------------------------------------------------

    @sendable
    def get(
        self,
        namespace: str,
        kind: str,
        id: str,
        *,
        at: Point | None = None,
        include: Iterable[str] = (),
    ) -> Result:
        """Return a record, as it is now or was at a version. Nothing is written.

        With `include=("version",)` the version in which it was last written is beside it, 0 when
        there is none.
        """
        entity = self._entity(namespace, kind, id)
        included = check_included(include)
        self._check_offered("at", at)
        self._check_offered("include", included or None)
        view = self.space if at is None else self.space.at(at)
        state = view.read(entity)
        record = record_of(state)
        if record is not None:
            life = read_life(record["created_at"], record["updated_at"], record["ttl_seconds"])
            if life is None or life.has_expired(micros_of(view.now)):
                record = None
        result: Result = {"found": record is not None, "record": record}
        if "version" in included:
            result["version"] = 0 if record is None else state.version or None
        return result

    @sendable
    def list(
        self,
        namespace: str,
        kind: str | None = None,
        id_prefix: str | None = None,
        updated_since: str | datetime | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        at: Point | None = None,
        include: Iterable[str] = (),
        order: str = "id",
        descending: bool = False,
    ) -> Result:
        """List the records that match, by kind and id. Nothing is written.

        include     members that each item has too: payload, metadata, version
        order       "id", or "created" or "updated", where kind and id decide between equal times
        descending  the whole list in the reverse order
        """
        self.check_namespace(namespace)
        if kind is not None:
            check_kind(kind)
        if id_prefix is not None:
            check_text(id_prefix, "id_prefix")
        included = check_included(include)
        ordered = parse_order(order, descending)
        for name, value in (
            ("filters", filters), ("at", at), ("include", included or None),
            ("order", None if ordered == BY_ID else ordered),
        ):  # fmt: skip
            self._check_offered(name, value)
        wanted = parse_filters(filters, updated_since)
        base = self.space if at is None else self.space.at(at)
        now = micros_of(base.now)
        if wanted.limit == 0:
            return {"items": []}

        def page_of(view: Space) -> list[dict[str, Json]]:
            place: dict[str, Any] = {
                "namespace": namespace,
                "kind": kind,
                "id_prefix": id_prefix or "",
                "now": now,
            }
            after, rest = None, wanted
            if ordered == BY_ID:
                after, rest = skip_records(view, wanted, **place)
            found = find_records(view, rest, **place, order=ordered, after=after)
            left = islice(found, rest.offset, None)
            page = [
                {member: record.get(member) for member in shown}
                for record in islice(left, None if rest.limit is None else rest.limit + 1)
            ]
            return with_versions(view, namespace, page) if "version" in included else page

        shown = (*_ITEM, *(name for name in included if name != "version"))

        page = of_newest(base, page_of)
        if wanted.limit is not None and len(page) > wanted.limit:
            return {"items": page[: wanted.limit], "next_offset": wanted.offset + wanted.limit}
        return {"items": page}

    @sendable
    def search(
        self,
        text: str,
        *,
        limit: int = 10,
        filters: Mapping[str, Any] | None = None,
        at: Point | None = None,
        include: Iterable[str] = (),
        **scoring: Any,
    ) -> Result:
        """Find the records, and entries of appended ones, that answer a question best. Nothing is
        written.

        filters  as in a request of retrieval: namespaces, kinds, tags_any, tags_all, after, before, …
        include  members of its record that each item has too, as in `list`
        scoring  as in a request by lexical-1: language, context, min_score, …
        """
        self._check_offered("search")
        included = check_included(include)
        named = filters.get("namespaces") if type(filters) is dict else None
        for name in named if type(named) is list else ():
            if type(name) is str:  # what is no name is refused with the filters
                self.check_namespace(name)
        if self.namespaces != NAMESPACES:  # a host of its own shows nothing of others
            filters = within(filters, self.namespaces)
        view = self.space if at is None else self.space.at(at)
        now = view.now if scoring.get("enable_recency_weight") else None
        request = search_request(text, limit=limit, filters=filters, scoring=scoring, now=now)
        return view.searching.search(view, request, included)

    def embed(self, embedder: Any, progress: Progress | None = None) -> Result:
        """Make and store the vectors of all texts in this state that have none, for hybrid-1.

        Without it the first retrieval by hybrid-1 makes them. `progress` is called with the number of
        texts that have their vector, and of all.
        """
        self._check_offered("embed")
        check_progress(progress)
        namespaces = None if self.namespaces == NAMESPACES else self.namespaces
        tell = progress or (lambda done, total: None)
        return dict(self.space.searching.embed(self.space, embedder, namespaces, tell))

    @sendable
    def history(self, namespace: str, kind: str, id: str, *, limit: int = 20) -> Result:
        """Return what happened to a record, newest first, with the record after each change."""
        self._check_offered("history")
        entity = self._entity(namespace, kind, id)
        return {"items": history(self.space, entity, limit=limit)}

    @sendable
    def stats(self) -> Result:
        """Return the number and the size of records."""
        return of_newest(self.space, lambda view: retention.stats(view, self.namespaces))

    @sendable
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
        if name == "update":
            # Its changes have names and no places: the last argument is an object of them.
            changes = check_changes(taken.pop())
            return self.update(*taken, **changes)
        result: Result = getattr(self, name)(*taken)
        return result


def check_included(include: Iterable[str]) -> tuple[str, ...]:
    """Return the members that are shown of each record beside the others."""
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInput("include is a list of names", argument="include")
    names = tuple(include)
    for name in names:
        if name not in _INCLUDED:
            raise InvalidInput(
                f"include knows {', '.join(_INCLUDED)}, not {name!r:.80}", argument="include"
            )
    return names
