"""The file rote.toml: its text, and the tables in it."""

import tomllib
from typing import Any

from rote.errors import InvalidInput
from rote.values.limits import SETTINGS_BYTES_MAX
from rote.values.names import told

FILE_NAME = "rote.toml"
_TABLES = ("environments", "host")


def read_settings(data: bytes, *, place: str) -> dict[str, Any]:
    """Return the settings in the bytes of a file; errors call the file `place`."""
    if len(data) > SETTINGS_BYTES_MAX:
        raise InvalidInput(f"{place} is larger than settings can be ({SETTINGS_BYTES_MAX:,} bytes)")
    try:
        settings = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{place} is no TOML: {error}") from None
    for key in settings:
        if key not in _TABLES:
            raise InvalidInput(f"{place} has no table {key!r:.80}; {told(_TABLES)}")
    return settings


def table_in(settings: dict[str, Any], key: str, *, shown: str, place: str) -> dict[str, Any]:
    """Return the table under a key, empty when there is none; errors show how it is written."""
    table = settings.get(key, {})
    if type(table) is not dict:
        raise InvalidInput(f"{place}: {key} is a table: {shown}")
    return table
