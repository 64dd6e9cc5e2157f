"""Selections: the entities that an erasure takes.

They are named one by one, by a prefix of their ids, or by conditions that a layer above reads
(contract.Matcher). Conditions are compared with all values that an entity ever had.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from rote.contract import Conditions
from rote.contract.commands import Erase, FindWritten
from rote.engines import Reader
from rote.errors import InvalidInput, LimitExceeded, NotFound
from rote.kernel.committing.drafts import Draft
from rote.kernel.keeping.past_values import has_met, ids_that_met
from rote.kernel.log.page_sizes import page_size
from rote.kernel.state.open_space import OpenSpace
from rote.values import Json, check_entity_id
from rote.values.limits import CACHE_CATCH_UP_MAX, ERASE_ENTITIES_MAX, INTEGER_MAX, PAGE_MAX
from rote.values.names import check_text


class Selection(Struct, frozen=True):
    """The entities that a call names."""

    call: dict[str, Json]  # what its key stands for, without the reason

    def ids(self, draft: Draft) -> Iterable[str]:
        """Yield the ids in code point order, each once, under the lock."""
        raise NotImplementedError

    def not_found(self, id: str | None) -> NotFound:
        """Return the error for an id that was never written, or for a selection without any."""
        raise NotImplementedError


class Named(Selection, frozen=True):
    """Entities by their ids, in order."""

    named: tuple[str, ...]

    def ids(self, draft: Draft) -> Iterable[str]:
        return self.named

    def not_found(self, id: str | None) -> NotFound:
        return NotFound(f"{id} was never written; there is nothing to erase", id=id)


class Below(Selection, frozen=True):
    """All entities whose id starts with a prefix, that were ever written on any branch."""

    prefix: str

    def ids(self, draft: Draft) -> Iterable[str]:
        return ids_below(draft.reads.rows, draft.space.number, self.prefix, until=draft.version)

    def not_found(self, id: str | None) -> NotFound:
        return NotFound(
            f"no id that starts with {self.prefix!r} was ever written; there is nothing to erase",
            prefix=self.prefix,
        )


class Matching(Selection, frozen=True):
    """All entities below a prefix that met conditions at any version on any branch."""

    prefix: str
    conditions: Conditions
    found: frozenset[str]  # up to a version, before the lock was taken
    version: int

    def ids(self, draft: Draft) -> Iterable[str]:
        """Yield what was found, and look again only at what was written since.

        It may have been erased in between too, and what is written now may meet the conditions no more.
        """
        reads, until = draft.reads, draft.version
        changed = reads.rows.changed(
            reads.number, after=self.version, until=until, limit=CACHE_CATCH_UP_MAX
        )
        if len(changed) >= CACHE_CATCH_UP_MAX:
            return ids_that_met(reads, self.conditions, self.prefix, after=None, until=until)
        written = {id for _, id in changed if id.startswith(self.prefix)}
        met = {id for id in written if has_met(reads, self.conditions, id, until=until)}
        return sorted((self.found - written) | met)

    def not_found(self, id: str | None) -> NotFound:
        return NotFound("nothing that was ever written meets the conditions", prefix=self.prefix)


def find_written(space: OpenSpace, command: FindWritten) -> tuple[str, ...]:
    """Return a page of the ids below a prefix that have content at some version."""
    check_prefix(command.prefix, is_literal=command.where is not None)
    if command.after is not None:
        check_entity_id(command.after)
    limit = page_size(command.limit)
    reads, conditions = space.reader(), _conditions(space, command.prefix, command.where)

    def found(newest: int) -> tuple[str, ...]:
        ids = ids_that_met(reads, conditions, command.prefix, after=command.after, until=newest)
        return tuple(islice(ids, limit))

    return reads.steadily(None, found)


def _conditions(space: OpenSpace, prefix: str, where: Mapping[str, Json] | None) -> Conditions:
    """Return the conditions of a command, as the layer reads them that owns the ids."""
    if where is None:
        return Conditions(lambda id: True)
    for matcher in space.wiring.matchers:
        if prefix.startswith(matcher.prefix):
            return matcher.read(where)
    raise InvalidInput(f"nobody knows conditions on ids that start with {prefix!r}", prefix=prefix)


def _matching(space: OpenSpace, prefix: str, where: Mapping[str, Json]) -> Matching:
    reads, conditions = space.reader(), _conditions(space, prefix, where)

    def find(newest: int) -> Matching:
        met = ids_that_met(reads, conditions, prefix, after=None, until=newest)
        found = frozenset(islice(met, ERASE_ENTITIES_MAX + 1))
        if len(found) > ERASE_ENTITIES_MAX:
            raise too_many(len(found))
        call = {"name": "erase", "prefix": prefix, "where": dict(where)}
        return Matching(call, prefix, conditions, found, newest)

    return reads.steadily(None, find)


def selection_of(space: OpenSpace, command: Erase) -> Selection:
    """Return what a command selects; raise when it names nothing, or in two ways."""
    ways = [way for way in (command.id, command.ids, command.prefix) if way is not None]
    if len(ways) != 1:
        raise InvalidInput("an erasure names an id, a list of ids, or a prefix of ids")
    if command.where is not None and command.prefix is None:
        raise InvalidInput("conditions are those of a prefix of ids", argument="where")
    if command.prefix is not None:
        check_prefix(command.prefix, is_literal=command.where is not None)
        if command.where is not None:
            return _matching(space, command.prefix, command.where)
        return Below({"name": "erase", "prefix": command.prefix}, command.prefix)
    ids = (command.id,) if command.ids is None else command.ids
    if not isinstance(ids, list | tuple) or not ids:
        raise InvalidInput("ids are a list of at least one id")
    if len(ids) > ERASE_ENTITIES_MAX:
        raise too_many(len(ids))
    for id in ids:
        check_entity_id(id)
    named = tuple(sorted(set(ids)))
    call: dict[str, Json] = {"id": named[0]} if len(named) == 1 else {"ids": list(named)}
    return Named({"name": "erase", **call}, named)


def check_prefix(prefix: object, *, is_literal: bool) -> None:
    """Raise InvalidInput unless it is text that ids can start with.

    A `*` at its end is taken for a mistake, unless a layer above has made the prefix.
    """
    check_text(prefix, "prefix")
    assert type(prefix) is str
    if not prefix:
        raise InvalidInput(
            "an empty prefix is the whole space; store.erase_space takes that away",
            argument="prefix",
        )
    if "\0" in prefix or (prefix.endswith("*") and not is_literal):
        raise InvalidInput("a prefix is plain text here; drop the '*' or NUL", argument="prefix")


def too_many(count: int) -> LimitExceeded:
    return LimitExceeded("the number of entities to erase", size=count, limit=ERASE_ENTITIES_MAX)


def ids_below(reads: Reader, space: int, prefix: str, *, until: int) -> Iterator[str]:
    """Yield each id with a fact on any branch up to a version that starts with a prefix, in order."""
    after = (prefix, 0, 0, 0)
    while rows := reads.places(space, branch=None, until=until, after=after, limit=PAGE_MAX):
        last = after[0] if after[1] else None
        for id, *_ in rows:
            if not id.startswith(prefix):
                return
            if id != last:
                yield id
                last = id
        # Past all other facts of the last entity.
        after = (rows[-1][0], INTEGER_MAX, 0, 0)
