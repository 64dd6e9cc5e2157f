"""Filters: which memories a question leaves out."""

from array import array
from collections.abc import Iterable
from typing import Protocol

from rote.questions import NO_FILTERS, NO_INSTANT, Filters
from rote.retrieval.details import Details
from rote.values import canonical

_NOTHING = Details()


class Rows(Protocol):
    """The memories that are filtered, as columns."""

    tags: list[tuple[str, ...]]
    instants: "array[int]"
    details: list[Details | None]


def filtered_rows(filters: Filters, corpus: Rows, rows: Iterable[int]) -> list[int]:
    """Return those of some rows that the filters leave out."""
    if filters == NO_FILTERS:
        return []
    where = canonical_members(filters)
    return [
        row
        for row in rows
        if not (
            has_time(filters, corpus.instants[row])
            and has_tags(filters, corpus.tags[row])
            and has_details(filters, where, corpus.details[row] or _NOTHING)
        )
    ]


def canonical_members(filters: Filters) -> dict[str, bytes]:
    """Return the members of metadata that are asked for, as they are compared."""
    return {key: canonical(value) for key, value in (filters.where or {}).items()}


def has_time(filters: Filters, instant: int) -> bool:
    if filters.after is None and filters.before is None:
        return True
    return (
        instant != NO_INSTANT
        and (filters.after is None or filters.after <= instant)
        and (filters.before is None or instant <= filters.before)
    )


def has_tags(filters: Filters, tags: tuple[str, ...]) -> bool:
    some, all_of = filters.tags_any, filters.tags_all
    return (some is None or not set(some).isdisjoint(tags)) and (
        all_of is None or set(all_of).issubset(tags)
    )


def has_details(filters: Filters, where: dict[str, bytes], details: Details) -> bool:
    pairs = (
        (filters.namespaces, details.namespace),
        (filters.kinds, details.kind),
        (filters.sources, details.source),
        (filters.threads, details.thread),
    )
    if any(wanted is not None and found not in wanted for wanted, found in pairs):
        return False
    metadata = details.metadata or {}
    return all(
        key in metadata and canonical(metadata[key]) == value for key, value in where.items()
    )
