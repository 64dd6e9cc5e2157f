"""The memory tier: the verbs of the memory contract on a space, on the namespaces that are granted.

Erasing is no verb of it: that is the operator's.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rote.errors import Denied, InvalidInput
from rote.records import profiles, retention
from rote.records.arguments import check_changes
from rote.records.keys import check_namespaces
from rote.records.memory import Memory
from rote.records.searching import within
from rote.tiers.grants import check_granted
from rote.tiers.options import checked_options
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Json

_TEXT, _OBJECT, _INTEGER = {"type": "string"}, {"type": "object"}, {"type": "integer"}
_FLAG, _LIST = {"type": "boolean"}, {"type": "array"}


def _or_null(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {**schema, "type": [schema["type"], "null"]}


def _optional(name: str, schema: dict[str, Json]) -> Parameter:
    return Parameter(name, schema, optional=True)


_NAMESPACE = Parameter("namespace", _TEXT)
_ID = (_NAMESPACE, Parameter("kind", _TEXT), Parameter("id", _TEXT))
_LIFE = (_optional("ttl_seconds", _or_null(_INTEGER)), _optional("metadata", _or_null(_OBJECT)))
_KEY = _optional("key", _or_null(_TEXT))
_SAFE = (_KEY, _optional("if_version", _or_null(_INTEGER)))
_AT = _optional("at", {"type": ["integer", "string", "null"]})
_INCLUDE = _optional("include", _LIST)
VERBS = table(
    [
        Verb("put", (*_ID, Parameter("payload", _OBJECT), *_LIFE, *_SAFE), True, destructive=True),
        Verb("get", (*_ID, _AT, _INCLUDE), False),
        Verb("append", (*_ID, Parameter("entry", _OBJECT), *_LIFE, *_SAFE), True),
        Verb(
            "list",
            (
                _NAMESPACE,
                _optional("kind", _or_null(_TEXT)),
                _optional("id_prefix", _or_null(_TEXT)),
                _optional("updated_since", _or_null(_TEXT)),
                _optional("filters", _or_null(_OBJECT)),
                _AT,
                _INCLUDE,
                _optional("order", _TEXT),
                _optional("descending", _FLAG),
            ),
            False,
        ),
        Verb("delete", (*_ID, *_SAFE), True, destructive=True),
        Verb("prune", (_optional("namespace", _or_null(_TEXT)),), True, destructive=True),
        Verb("touch", _ID, True),
        Verb(
            "update",
            (
                *_ID,
                _optional("changes", _OBJECT),  # all of the next four, for calls by position
                _optional("payload", _OBJECT),
                _optional("patch", _LIST),
                _optional("metadata", _or_null(_OBJECT)),
                _optional("ttl_seconds", _or_null(_INTEGER)),
                *_SAFE,
            ),
            True,
            destructive=True,
        ),
        Verb("put_many", (Parameter("records", _LIST), _KEY), True, destructive=True),
        Verb("history", (*_ID, _optional("limit", _INTEGER)), False),
        Verb(
            "search",
            (
                Parameter("text", _TEXT),
                _optional("limit", _INTEGER),
                _optional("filters", _or_null(_OBJECT)),
                _AT,
                _INCLUDE,
                _optional("query_terms", _or_null(_LIST)),
                _optional("language", _or_null(_TEXT)),
                _optional("context", _or_null(_FLAG)),
                _optional("min_score", _or_null({"type": "number"})),
                _optional("min_share", _or_null({"type": "number"})),
                _optional("drop_duplicates", _or_null(_FLAG)),
                _optional("enable_recency_weight", _or_null(_FLAG)),
                _optional("recency_half_life_days", _or_null(_INTEGER)),
            ),
            False,
        ),
        Verb("stats", (), False),
        Verb("capabilities", (), False),
        Verb(
            "retention_report",
            (
                _optional("expire_soon_seconds", _INTEGER),
                _optional("namespace", _or_null(_TEXT)),
                _optional("kinds", _or_null(_LIST)),
            ),
            False,
        ),
    ]
)
_BY_NAMESPACE = ("default_ttl_by_namespace", "prune_strategy_by_namespace")
_OPTIONS = (
    Parameter("namespaces", _LIST, optional=True),
    Parameter("profile", _TEXT, optional=True),
    *(Parameter(name, _OBJECT, optional=True) for name in _BY_NAMESPACE),
)
MemoryOf = Callable[..., Memory]  # by the settings that rote.Memory takes


def memory_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked options, as the arguments of rote.Memory."""
    taken = checked_options("memory", _OPTIONS, options)
    profiles.check_profile(taken["profile"] or profiles.V1_1)
    namespaces = check_namespaces(taken["namespaces"])
    retention.parse_retention(namespaces, *(taken[name] for name in _BY_NAMESPACE))
    return {name: value for name, value in taken.items() if value is not None}


class MemoryTier:
    """The memory of a space, or of a run."""

    name = "memory"
    switches: Mapping[str, bool] = {}

    def __init__(self, memory_of: MemoryOf, settings: Mapping[str, Any]) -> None:
        self._memory_of = memory_of
        self._settings = settings
        self._whole = memory_of(**settings)
        self._narrowed: dict[tuple[str, ...], Memory] = {}
        offered = self._whole.capabilities()["verbs"]
        has_search = self._whole.profile != profiles.V1
        self.verbs: Mapping[str, Verb] = {
            name: verb
            for name, verb in VERBS.items()
            if name in offered or (name == "search" and has_search)
        }

    def on(self, memory_of: MemoryOf) -> "MemoryTier":
        """Return the same tier on another memory."""
        return MemoryTier(memory_of, self._settings)

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        given = dict(arguments)
        if "changes" in given:
            changes = check_changes(given.pop("changes"))
            if not changes.keys().isdisjoint(given):
                raise InvalidInput("update: a change is given twice", code="bad_arguments")
            given |= changes
        if "namespaces" not in granted:
            return getattr(self._whole, verb)(**given)
        memory = self._within(granted["namespaces"])
        if verb == "search":
            given["filters"] = within(given.get("filters"), memory.namespaces)
        return getattr(memory, verb)(**given)

    def close(self) -> None:
        pass

    def _within(self, namespaces: tuple[str, ...]) -> Memory:
        """Return the memory that knows these namespaces alone."""
        left = tuple(name for name in self._whole.namespaces if name in namespaces)
        if not left:
            raise Denied("the grant has no namespace of this memory", code="grant_denied")
        if left not in self._narrowed:
            settings = {**self._settings, "namespaces": left}
            for name in _BY_NAMESPACE:
                if name in settings:
                    settings[name] = {
                        each: value for each, value in settings[name].items() if each in left
                    }
            self._narrowed[left] = self._memory_of(**settings)
        return self._narrowed[left]


def check_names(verb: str, given: Mapping[str, Any], granted: Mapping[str, Json]) -> None:
    """Check every namespace that a call names."""
    filters = given.get("filters")
    named = [given.get("namespace")]
    named += _members(filters.get("namespaces")) if type(filters) is dict else []
    named += [
        record.get("namespace") for record in _members(given.get("records")) if type(record) is dict
    ]
    for namespace in named:
        if type(namespace) is str:
            check_granted(granted, "namespaces", namespace)


def _members(value: Json) -> list[Json]:
    return value if type(value) is list else []
