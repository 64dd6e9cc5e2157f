"""The filters of a list: parsed once, then matched with each record."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput
from rote.records.envelope import Envelope, life_of
from rote.records.metadata import distinct_texts, instant_of, source_of, tags_of, time_of
from rote.values.limits import FILTER_TAGS_MAX, INTEGER_MAX, LIST_LIMIT_MAX
from rote.values.names import check_text
from rote.values.times import instant

# Filters that bound an instant: its name, and the side.
_BOUNDS = {
    "created_after": ("created", "after"),
    "created_before": ("created", "before"),
    "updated_after": ("updated", "after"),
    "updated_before": ("updated", "before"),
    "valid_at_after": ("valid_at", "after"),
    "valid_at_before": ("valid_at", "before"),
    "since_last_accessed": ("last_accessed", "after"),
}
ORDERS = ("id", "created", "updated")
NAMES = ("tags_any", "tags_all", *_BOUNDS, "source", "limit", "offset")


class Window(Struct, frozen=True, gc=False):
    """Instants from one to another, both included; None is no bound."""

    after: int | None = None
    before: int | None = None

    def holds(self, instant: int | None) -> bool:
        if instant is None:
            return False
        if self.after is not None and instant < self.after:
            return False
        return self.before is None or instant <= self.before


class Filters(Struct, frozen=True, gc=False):
    """The conditions of a list. A record matches when all of them hold."""

    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    source: str | None = None
    windows: tuple[tuple[str, Window], ...] = ()  # created, updated, valid_at, last_accessed
    limit: int | None = None
    offset: int = 0

    @property
    def has_conditions(self) -> bool:
        """Whether a record may not match."""
        return bool(self.tags_any or self.tags_all or self.source is not None or self.windows)

    @property
    def needed(self) -> int | None:
        """The number of matching records that show a page and whether there is more; None for all."""
        return None if self.limit is None else self.offset + self.limit + 1

    def match(self, record: Envelope) -> bool:
        metadata = record["metadata"]
        if self.tags_any or self.tags_all:
            tags = set(tags_of(metadata))
            if self.tags_any and tags.isdisjoint(self.tags_any):
                return False
            if not tags.issuperset(self.tags_all):
                return False
        if self.source is not None and source_of(metadata) != self.source:
            return False
        return all(window.holds(record_instant(record, name)) for name, window in self.windows)


class Order(Struct, frozen=True, gc=False):
    """The order of a list. Between equal times kind and id decide."""

    name: str | None = None  # "created" or "updated"; None: by kind and id
    descending: bool = False


BY_ID = Order()


def parse_order(order: Any, descending: Any) -> Order:
    if order not in ORDERS or type(order) is not str:
        raise InvalidInput(
            f"there is no order {order!r:.80}; there are {', '.join(ORDERS)}", argument="order"
        )
    if type(descending) is not bool:
        raise InvalidInput("descending is true or false", argument="descending")
    return Order(None if order == ORDERS[0] else order, descending)


def parse_filters(filters: Any, updated_since: Any = None) -> Filters:
    """Return the filters of a call; raise for the first fault."""
    if filters is None:
        filters = {}
    if not isinstance(filters, dict):
        raise InvalidInput("filters must be an object", argument="filters")
    for name in filters:
        if name not in NAMES:
            raise InvalidInput(
                f"there is no filter {name!r:.80}; there are {', '.join(NAMES)}", filter=str(name)
            )
    return Filters(
        tags_any=_tags(filters, "tags_any"),
        tags_all=_tags(filters, "tags_all"),
        source=_source(filters.get("source")),
        windows=_windows(filters, updated_since),
        limit=_count(filters, "limit", LIST_LIMIT_MAX, None),
        offset=_count(filters, "offset", INTEGER_MAX, 0) or 0,
    )


def _windows(filters: Mapping[str, Any], updated_since: Any) -> tuple[tuple[str, Window], ...]:
    bounds: dict[str, dict[str, int]] = {}
    for filter, (name, side) in _BOUNDS.items():
        if filters.get(filter) is not None:
            bounds.setdefault(name, {})[side] = _time(filters[filter], filter)
    if updated_since is not None:
        since = _time(updated_since, "updated_since")
        updated = bounds.setdefault("updated", {})
        updated["after"] = max(since, updated.get("after", since))
    return tuple((name, Window(**sides)) for name, sides in bounds.items())


def _tags(filters: Mapping[str, Any], name: str) -> tuple[str, ...]:
    tags = filters.get(name)
    if tags is None:
        return ()
    if type(tags) not in (list, tuple) or len(tags) > FILTER_TAGS_MAX:
        raise InvalidInput(f"{name} must be a list of at most {FILTER_TAGS_MAX} tags", filter=name)
    return tuple(distinct_texts(tags, name, filter=name))


def _source(source: Any) -> str | None:
    if source is None:
        return None
    if type(source) is not str or not source:
        raise InvalidInput("source must be text, and not empty", filter="source")
    check_text(source, "source")
    return source


def _time(time: Any, name: str) -> int:
    try:
        return instant(time)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}", filter=name) from None


def _count(filters: Mapping[str, Any], name: str, most: int, default: int | None) -> int | None:
    count = filters.get(name)
    if count is None:
        return default
    if type(count) is not int or not 0 <= count <= most:
        raise InvalidInput(f"{name} must be an integer from 0 to {most:,}", filter=name)
    return count


def record_instant(record: Envelope, name: str) -> int | None:
    """Return a time of a record: created, updated, or one of its metadata."""
    if name == "created":
        return instant_of(record["created_at"])
    if name == "updated":
        life = life_of(record)
        return None if life is None else life.updated_at
    return time_of(record["metadata"], name)
