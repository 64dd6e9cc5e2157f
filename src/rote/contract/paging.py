"""Iterators that ask for one page after another and yield the items of all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from rote.contract.commands import FindWritten, ListSides, ListSpaces
from rote.contract.port import Port
from rote.contract.requests import SideRow, SpaceInfo
from rote.values.limits import PAGE_MAX

_Item = TypeVar("_Item")
_Cursor = TypeVar("_Cursor")


class Pages(Iterator[_Item]):
    """The items of all pages, one page after another."""

    def __init__(self, pages: Iterator[Sequence[_Item]]) -> None:
        self.pages = pages  # those that nobody has asked for yet, to be taken whole
        self._items = chain.from_iterable(pages)

    def __iter__(self) -> Iterator[_Item]:
        return self._items

    def __next__(self) -> _Item:
        return next(self._items)


def paged(
    ask: Callable[[_Cursor | None, int], tuple[Sequence[_Item], _Cursor | None]],
    start: _Cursor | None = None,
    *,
    limit: int | None = None,
    first: int = PAGE_MAX,
) -> Pages[_Item]:
    """Yield items until there are no more, or `limit` of them.

    ask    takes the place where a page begins (None: the start) and the most items that it may have;
           returns the items and the place where the next page begins, None at the end
    first  the size of the first page: small where most callers stop early
    """

    def pages() -> Iterator[Sequence[_Item]]:
        cursor, size, left = start, first, limit
        while left is None or left > 0:
            items, cursor = ask(cursor, size if left is None else min(size, left))
            yield items
            if cursor is None:
                return
            left = None if left is None else left - len(items)
            size = PAGE_MAX

    return Pages(pages())


def all_spaces(port: Port, *, leased: bool = False) -> Iterator[SpaceInfo]:
    """Yield the spaces of a store, by name; all, or those with a lease of runs."""

    def ask(after: str | None, size: int) -> tuple[Sequence[SpaceInfo], str | None]:
        page = port.answer("", ListSpaces(after, size, leased))
        return page.spaces, page.next

    return paged(ask)


def all_sides(port: Port, space: str, kind: str) -> Iterator[SideRow]:
    """Yield the side rows of a kind, in key order."""

    def ask(after: str | None, size: int) -> tuple[Sequence[SideRow], str | None]:
        page = port.answer(space, ListSides(kind, after or "", size))
        return page.rows, page.next

    return paged(ask)


def all_written(
    port: Port, space: str, prefix: str, where: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield the ids below a prefix of entities that have content at some version, in order."""

    def ask(after: str | None, size: int) -> tuple[Sequence[str], str | None]:
        ids = port.answer(space, FindWritten(prefix, where, after, size))
        return ids, ids[-1] if len(ids) == size else None

    return paged(ask)
