"""Selections: the entities that an erasure takes, named one by one or by a prefix of their ids."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from rote.contract.commands import Erase
from rote.engines import Reader
from rote.errors import InvalidInput, LimitExceeded, NotFound
from rote.kernel.committing.drafts import Draft
from rote.values import Json, check_entity_id
from rote.values.limits import ERASE_ENTITIES_MAX, INTEGER_MAX, PAGE_MAX
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


def selection_of(command: Erase) -> Selection:
    """Return what a command selects; raise when it names nothing, or in two ways."""
    ways = [way for way in (command.id, command.ids, command.prefix) if way is not None]
    if len(ways) != 1:
        raise InvalidInput("an erasure names an id, a list of ids, or a prefix of ids")
    if command.prefix is not None:
        check_prefix(command.prefix)
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


def check_prefix(prefix: object) -> None:
    """Raise InvalidInput unless it is text that ids can start with."""
    check_text(prefix, "prefix")
    assert type(prefix) is str
    if not prefix:
        raise InvalidInput(
            "an empty prefix is the whole space; store.erase_space takes that away",
            argument="prefix",
        )
    if "\0" in prefix or prefix.endswith("*"):
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
