"""The offer of a host: the verbs with their numbers of arguments, and what each profile has of them."""

from collections.abc import Iterable
from typing import Any

from rote.errors import InvalidInput
from rote.records.filters import NAMES as FILTERS
from rote.values.limits import (
    FILTER_TAGS_MAX,
    LIST_LIMIT_MAX,
    NAMESPACE_BYTES_MAX,
    RECORD_ID_BYTES_MAX,
    RECORD_KIND_BYTES_MAX,
    TTL_SECONDS_MAX,
    VALUE_BYTES_MAX,
)

V1, V1_1 = "v1", "v1.1-deterministic-metadata"
# The lowest and the highest number of arguments of each verb.
_VERBS = {
    "append": (4, 6),
    "capabilities": (0, 0),
    "delete": (3, 3),
    "get": (3, 3),
    "history": (3, 3),
    "list": (1, 5),
    "prune": (0, 1),
    "put": (4, 6),
    "put_many": (1, 1),
    "retention_report": (0, 3),
    "stats": (0, 0),
    "touch": (3, 3),
    "update": (4, 4),
}
_NOT_IN_V1 = ("history", "put_many", "touch", "update")
_LIMITS = {
    "filter_tags": FILTER_TAGS_MAX,
    "list_limit": LIST_LIMIT_MAX,
    "namespace_bytes": NAMESPACE_BYTES_MAX,
    "record_bytes": VALUE_BYTES_MAX,
    "record_id_bytes": RECORD_ID_BYTES_MAX,
    "record_kind_bytes": RECORD_KIND_BYTES_MAX,
    "ttl_seconds": TTL_SECONDS_MAX,
}


def check_profile(profile: Any) -> str:
    if profile not in (V1, V1_1):
        raise InvalidInput(
            f"there is no profile {profile!r:.80}; there are {V1} and {V1_1}", argument="profile"
        )
    name: str = profile
    return name


def check_offered(profile: str, what: str) -> None:
    """Raise InvalidInput when the profile is v1, which does not have this."""
    if profile == V1:
        raise InvalidInput(
            f"this memory has the profile {V1}, which knows no {what}; open it with {V1_1}",
            argument=what,
            profile=profile,
        )


def check_call(profile: str, verb: Any, arguments: Any) -> tuple[str, list[Any]]:
    """Return the verb and its arguments; raise when there are too few or too many."""
    name = verb.strip().lower() if type(verb) is str else ""
    if name not in _VERBS:
        raise InvalidInput(
            f"there is no verb {verb!r:.80}; there are {', '.join(_VERBS)}", argument="verb"
        )
    if isinstance(arguments, str | bytes | dict) or not isinstance(arguments, Iterable):
        raise InvalidInput(f"the arguments of {name} are a list", argument="arguments")
    taken = list(arguments)
    least, most = _VERBS[name]
    if not least <= len(taken) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise InvalidInput(
            f"{name} takes {wanted} arguments, not {len(taken)}", argument="arguments", verb=name
        )
    return name, taken


def capabilities(profile: str, namespaces: tuple[str, ...]) -> dict[str, Any]:
    in_v1 = profile == V1
    return {
        "memory_profile": profile,
        "verbs": [verb for verb in _VERBS if not (in_v1 and verb in _NOT_IN_V1)],
        "filters": [] if in_v1 else list(FILTERS),
        "limits": dict(_LIMITS),
        "namespaces": list(namespaces),
    }
