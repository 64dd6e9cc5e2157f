"""The registry of schemas by the ids that they govern.

It is one entity, `urn:schemas`, whose value is an object of id prefixes and names of schemas. The
longest prefix of an id decides; an id that no prefix fits has no schema. The schema called `note` is
the entity `urn:schema:note`.
"""

from functools import lru_cache
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput
from rote.patch.pointer import format_pointer
from rote.schemas.violations import Violated, Violation
from rote.values import Json, check_entity_id, decode_canonical
from rote.values.limits import SCHEMA_PREFIXES_MAX, VALIDATORS_KEPT_MAX

REGISTRY_ID = "urn:schemas"
SCHEMA_PREFIX = "urn:schema:"
# Only ids that begin so can be the registry or a schema.
RESERVED_PREFIX = "urn:schema"

_RULE = "registry"


class Registry(Struct, frozen=True):
    """Names of schemas by id prefix."""

    names: dict[str, str]
    lengths: tuple[int, ...]  # of the prefixes, longest first

    def name_for(self, id: str) -> str | None:
        """Return the name of the schema that governs an entity, None when there is none."""
        for length in self.lengths:
            name = self.names.get(id[:length])
            if name is not None:
                return name
        return None

    def prefix_of(self, name: str) -> str | None:
        """Return the first prefix that a schema is registered for."""
        return min((prefix for prefix in self.names if self.names[prefix] == name), default=None)


@lru_cache(maxsize=VALIDATORS_KEPT_MAX)
def parse_registry(data: bytes) -> Registry | Violation:
    """Return the registry in a canonical value, or the first violation in it."""
    try:
        return _parsed(decode_canonical(data))
    except Violated as error:
        return error.violation


def _parsed(document: Json) -> Registry:
    if type(document) is not dict:
        raise Violated("", _RULE, "the registry is an object of id prefixes and names of schemas")
    if len(document) > SCHEMA_PREFIXES_MAX:
        raise Violated("", _RULE, f"the registry may have {SCHEMA_PREFIXES_MAX:,} prefixes")
    for prefix, name in document.items():
        _check_member(prefix, name)
    lengths = sorted({len(prefix) for prefix in document}, reverse=True)
    return Registry(document, tuple(lengths))


def _check_member(prefix: str, name: Any) -> None:
    pointer = format_pointer((prefix,))
    if prefix.endswith("*"):
        raise Violated(pointer, _RULE, "a prefix is written without the '*'")
    if prefix.startswith(SCHEMA_PREFIX):
        raise Violated(pointer, _RULE, "schemas are judged by their own rules; take another prefix")
    if type(name) is not str or not name:
        raise Violated(pointer, _RULE, "a prefix has the name of a schema, a text")
    try:
        check_entity_id(SCHEMA_PREFIX + name)
    except InvalidInput as error:
        raise Violated(pointer, _RULE, f"not the name of a schema: {error}") from None
