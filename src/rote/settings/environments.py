"""Environments: the modes of runs that each one enables.

[environments.production]
modes = ["off", "read_only"]
"""

import tomllib
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput
from rote.values.limits import SETTINGS_BYTES_MAX
from rote.values.names import told

FILE_NAME = "rote.toml"
_KEYS = ("modes",)


class Environment(Struct, frozen=True):
    """One environment."""

    name: str
    modes: tuple[str, ...] | None  # enabled modes of runs; None: the modes that are always enabled


def read_environment(data: bytes, name: str, *, place: str) -> Environment:
    """Return the environment of that name in a file; errors call the file `place`."""
    if len(data) > SETTINGS_BYTES_MAX:
        raise InvalidInput(f"{place} is larger than settings can be ({SETTINGS_BYTES_MAX:,} bytes)")
    try:
        settings = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{place} is no TOML: {error}") from None
    environments = _table(settings, "environments", place)
    if name not in environments:
        raise InvalidInput(f"{place} has no environment {name!r}; {told(environments)}")
    there = _table(environments, name, place)
    for key in there:
        if key not in _KEYS:
            raise InvalidInput(f"{place}: environments.{name} has no {key!r}; it has modes")
    modes = there.get("modes")
    if modes is None:
        return Environment(name, None)
    if type(modes) is not list or any(type(mode) is not str for mode in modes):
        raise InvalidInput(f"{place}: modes of environments.{name} are a list of texts")
    return Environment(name, tuple(modes))


def _table(settings: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    table = settings.get(key, {})
    if type(table) is not dict:
        raise InvalidInput(f"{place}: {key} is a table: [environments.NAME]")
    return table
