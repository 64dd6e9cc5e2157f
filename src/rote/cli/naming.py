"""Names of entities on the command line, as they are typed and as they are shown.

An entity is one word, its id. A record is three words, NAMESPACE KIND ID, quoted as for a shell. Where
only one word can stand, as after an option, the three are one word in quotes: 'ops deploy web'.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

from rote.errors import InvalidInput
from rote.records.keys import entity_id, key_of
from rote.values import check_entity_id

IdWords = Annotated[
    list[str],
    typer.Argument(
        metavar="ID",
        help="An entity, urn:entity:…; or a record in three words, NAMESPACE KIND ID.",
        show_default=False,
    ),
]

IdsWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID…]",
        help="Entities, urn:entity:…; or one record in three words, NAMESPACE KIND ID.",
        show_default=False,
    ),
]

_ADVICE = "a record is named by three words: NAMESPACE KIND ID"
_entities = re.compile(r"record:[^\s'\"]+!!").sub


def id_in(words: Sequence[str]) -> str:
    """Return the id of the entity that words name."""
    if len(words) == 1 and len(parts := _split(words[0])) > 1:
        words = parts
    if len(words) == 3:
        namespace, kind, id = words
        return entity_id(namespace, kind, id)
    if len(words) != 1:
        raise InvalidInput(f"an entity is named by one word, its id; {_ADVICE}")
    try:
        check_entity_id(words[0])
    except InvalidInput as error:
        raise InvalidInput(f"{error}; {_ADVICE}", **error.details) from None
    return words[0]


def ids_in(words: Sequence[str]) -> list[str]:
    """Return the ids that words name: those of entities, or of one record in three words."""
    if len(words) == 3 and ":" not in words[0]:
        return [id_in(words)]
    return [id_in([word]) for word in words]


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that does not end
        return [text]


def shown(id: str) -> str:
    """Return an id as it is typed: a record as three words."""
    key = key_of(id)
    return id if key is None else shlex.join(key)


def told(text: str) -> str:
    """Return a text for people in which records have their names."""
    return _entities(lambda match: shown(match[0]), text)
