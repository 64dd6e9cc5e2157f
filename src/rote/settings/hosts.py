"""The host of state tiers that `rote host` makes.

[host]
profile = "compute-and-store"
cache = { path = "warm.cache" }
limits = { max_adapter_calls = 500 }

Its members are the options of rote.Host, which judges what is in them. Paths begin at the file's folder.
"""

from pathlib import PurePath
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput
from rote.settings.toml import read_settings, table_in
from rote.values.names import told

_PROFILE_DEFAULT = "minimal"
_TABLES = ("cache", "memory", "sqlite", "fs", "queue", "agent", "grant", "limits")
_KEYS = ("profile", *_TABLES, "redact")
# The command line names these, as for every command.
_ELSEWHERE = {"store": "--store", "space": "--space", "branch": "--branch"}
_PATHS = (("cache", "path"), ("sqlite", "path"), ("fs", "sandbox_root"), ("agent", "root"))


class HostSettings(Struct, frozen=True):
    """The settings of a host."""

    profile: str = _PROFILE_DEFAULT
    options: dict[str, Any] = {}  # arguments of rote.Host, by name


def read_host(data: bytes, *, folder: PurePath, place: str) -> HostSettings | None:
    """Return the host in a file, None when there is none; errors call the file `place`.

    folder  the folder of the file
    """
    settings = read_settings(data, place=place)
    if "host" not in settings:
        return None
    host = dict(table_in(settings, "host", shown="[host]", place=place))
    for key in host:
        if key in _ELSEWHERE:
            raise InvalidInput(f"{place}: host has no {key!r}; name it with {_ELSEWHERE[key]}")
        if key not in _KEYS:
            raise InvalidInput(f"{place}: host has no {key!r:.80}; {told(_KEYS)}")
    profile = host.pop("profile", _PROFILE_DEFAULT)
    if type(profile) is not str:
        raise InvalidInput(f"{place}: profile of host is a text")
    for name in _TABLES:
        table_in(host, name, shown=f"[host.{name}]", place=place)
    for name, member in _PATHS:
        path = host.get(name, {}).get(member)
        if type(path) is str and path:
            host[name] = {**host[name], member: str(folder / path)}
    return HostSettings(profile, host)
