"""Options: what a host is told of an adapter when it is made."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from rote.errors import InvalidInput
from rote.tiers.verbs import Parameter, described
from rote.values import Json
from rote.values.names import told


def checked_options(
    adapter: str, parameters: Sequence[Parameter], options: object
) -> dict[str, Json]:
    """Return options with defaults in the places of those that are left out or null.

    InvalidInput when one is unknown, ill-typed or missing.
    """
    if not isinstance(options, Mapping):
        raise _bad(adapter, "the options are an object")
    known = {each.name: each for each in parameters}
    for name in options:
        if name not in known:
            raise _bad(adapter, f"there is no option {name!r:.80}; {told(known)}", name)
    taken: dict[str, Json] = {}
    for name, parameter in known.items():
        value: Any = options.get(name)
        if value is None:
            if parameter.is_required:
                raise _bad(adapter, f"the option {name} is missing", name)
            value = None if parameter.default is UNSET else parameter.default
        elif not parameter.takes(value):
            raise _bad(adapter, f"{name} must be {described(parameter.schema)}", name)
        elif type(value) is str and not _is_plain(value):
            raise _bad(adapter, f"{name} must be Unicode text without NUL", name)
        taken[name] = value
    return taken


def _is_plain(text: str) -> bool:
    """Return whether the system takes a text as a path."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _bad(adapter: str, reason: str, option: object = None) -> InvalidInput:
    details = {} if option is None else {"option": str(option)}
    return InvalidInput(f"{adapter}: {reason}", adapter=adapter, **details)
