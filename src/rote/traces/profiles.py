"""Tool profiles: the parts of a call's arguments, result and effects that are compared. Frozen.

A field is a JSON pointer; `""` is the whole. The object {pointer: value} of the fields that exist is
compared, in json-v1. So a request id or a duration can be left out of the comparison.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self, get_args

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.patch import find, parse_pointer
from rote.traces.formats import HASH_ALGORITHM, NORMALIZATION
from rote.values import (
    Json,
    check_trace_name,
    decode_canonical,
    fingerprint,
    json_v1,
)
from rote.values.limits import PROFILE_FIELDS_MAX, TOOLS_MAX

_FIELDS = (
    "normalized_args_fields",
    "tool_result_fingerprint_fields",
    "side_effect_fingerprint_fields",
)
# The parts of a call, with the fields that are compared of them.
Part = Literal["args", "reply", "effects"]
_PARTS: dict[Part, str] = dict(zip(get_args(Part), _FIELDS, strict=True))
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """The compared parts of a tool's calls; a profile that changes gets a new version."""

    tool_name: str
    tool_profile_version: str
    _: KW_ONLY
    normalized_args_fields: Sequence[str] = ("",)
    tool_result_fingerprint_fields: Sequence[str] = ("",)
    side_effect_fingerprint_fields: Sequence[str] = ()  # none: effects are not compared
    _tokens: dict[str, dict[str, tuple[str, ...]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_trace_name(self.tool_name, "tool_name")
        check_trace_name(self.tool_profile_version, "tool_profile_version")
        tokens = {name: _parse_fields(name, getattr(self, name)) for name in _FIELDS}
        for name in _FIELDS:
            object.__setattr__(self, name, tuple(tokens[name]))
        object.__setattr__(self, "_tokens", tokens)

    @property
    def side_effect_required(self) -> bool:
        return bool(self.side_effect_fingerprint_fields)

    def normalized_args(self, args: dict[str, Json]) -> dict[str, Json]:
        """Return the compared arguments, in json-v1."""
        chosen = self._chosen("normalized_args_fields", args)
        normal: dict[str, Json] = decode_canonical(json_v1(chosen))
        return normal

    def result_fingerprint(self, result: Json) -> str:
        return fingerprint(self._chosen("tool_result_fingerprint_fields", result))

    def side_effect_fingerprint(self, effects: Json) -> str | None:
        """Return the fingerprint of the compared effects, None when the profile compares none."""
        if not self.side_effect_required:
            return None
        return fingerprint(self._chosen("side_effect_fingerprint_fields", effects))

    def to_dict(self) -> dict[str, Json]:
        return {
            "tool_name": self.tool_name,
            "tool_profile_version": self.tool_profile_version,
            **{name: list(getattr(self, name)) for name in _FIELDS},
            "hash_algorithm": HASH_ALGORITHM,
            "normalization_version": NORMALIZATION,
        }

    @classmethod
    def from_dict(cls, profile: Json) -> Self:
        """Return the profile whose `to_dict` is given; InvalidInput for anything else."""
        given: dict[str, Any] = dict(profile) if type(profile) is dict else {}
        forms = (given.pop("hash_algorithm", None), given.pop("normalization_version", None))
        if given.keys() != {"tool_name", "tool_profile_version", *_FIELDS}:
            raise InvalidInput("a profile has the members of ToolProfile.to_dict", argument="tools")
        if forms != (HASH_ALGORITHM, NORMALIZATION):
            raise InvalidInput(
                f"a profile has {HASH_ALGORITHM} and {NORMALIZATION}, not {forms!r:.120}",
                argument="tools",
            )
        return cls(**given)

    def _chosen(self, fields: str, value: Json) -> dict[str, Json]:
        found = {
            pointer: find(value, tokens, _ABSENT)
            for pointer, tokens in self._tokens[fields].items()
        }
        return {pointer: part for pointer, part in found.items() if part is not _ABSENT}


def profiles_by_name(profiles: Iterable[ToolProfile]) -> dict[str, ToolProfile]:
    """Return the profiles of a run by name, in the order of names, one for each tool."""
    named: dict[str, ToolProfile] = {}
    if not isinstance(profiles, Iterable):
        raise InvalidInput("tools are a list of ToolProfiles", argument="tools")
    for profile in profiles:
        if not isinstance(profile, ToolProfile):
            raise InvalidInput(f"tools are ToolProfiles, not {type(profile).__qualname__}")
        if profile.tool_name in named:
            raise InvalidInput(
                f"there are two profiles of the tool {profile.tool_name!r}; a run has one for each"
            )
        if len(named) == TOOLS_MAX:
            raise LimitExceeded("the number of tools", size=TOOLS_MAX + 1, limit=TOOLS_MAX)
        named[profile.tool_name] = profile
    return dict(sorted(named.items()))


def compared_value(profile: ToolProfile, part: Part, value: Json) -> Json:
    """Return what is compared of a part of a call: {pointer: value}, or the whole value."""
    fields = _PARTS[part]
    return value if getattr(profile, fields) == ("",) else profile._chosen(fields, value)


def profiles_told(tools: Json) -> dict[str, ToolProfile]:
    """Return the profiles that the metadata of a trace tells, by name; those that are in order."""
    told = {}
    for tool in tools[:TOOLS_MAX] if type(tools) is list else ():
        try:
            profile = ToolProfile.from_dict(tool)
        except (InvalidInput, InvalidValue, LimitExceeded):
            continue
        told[profile.tool_name] = profile
    return told


def tool_runtime_profile_hash(profiles: Iterable[ToolProfile]) -> str:
    """Return the identity of a run's tools."""
    return fingerprint([profile.to_dict() for profile in profiles_by_name(profiles).values()])


def _parse_fields(name: str, fields: Any) -> dict[str, tuple[str, ...]]:
    """Return the pointers with their tokens, in the given order."""
    if not isinstance(fields, list | tuple):
        raise InvalidInput(f"{name} is a list of JSON pointers", argument=name)
    if len(fields) > PROFILE_FIELDS_MAX:
        raise LimitExceeded(f"the number of {name}", size=len(fields), limit=PROFILE_FIELDS_MAX)
    tokens = {}
    for pointer in fields:
        path = parse_pointer(pointer)
        if pointer in tokens:
            raise InvalidInput(f"{name} names {pointer!r:.120} twice", argument=name)
        tokens[pointer] = path
    # Refuses two pointers that json-v1 makes equal: one object cannot hold both.
    json_v1(dict.fromkeys(tokens))
    return tokens
