"""Environments: the modes of runs that each one enables.

[environments.production]
modes = ["off", "read_only"]
"""

from msgspec import Struct

from rote.errors import InvalidInput
from rote.settings.toml import read_settings, table_in
from rote.values.names import told

_KEYS = ("modes",)
_SHOWN = "[environments.NAME]"


class Environment(Struct, frozen=True):
    """One environment."""

    name: str
    modes: tuple[str, ...] | None  # enabled modes of runs; None: the modes that are always enabled


def read_environment(data: bytes, name: str, *, place: str) -> Environment:
    """Return the environment of that name in a file; errors call the file `place`."""
    settings = read_settings(data, place=place)
    environments = table_in(settings, "environments", shown=_SHOWN, place=place)
    if name not in environments:
        raise InvalidInput(f"{place} has no environment {name!r}; {told(environments)}")
    there = table_in(environments, name, shown=_SHOWN, place=place)
    for key in there:
        if key not in _KEYS:
            raise InvalidInput(f"{place}: environments.{name} has no {key!r}; it has modes")
    modes = there.get("modes")
    if modes is None:
        return Environment(name, None)
    if type(modes) is not list or any(type(mode) is not str for mode in modes):
        raise InvalidInput(f"{place}: modes of environments.{name} are a list of texts")
    return Environment(name, tuple(modes))
