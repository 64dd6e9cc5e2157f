"""The type of a stored value.

    Json = None | bool | int | float | str | list[Json] | dict[str, Json]

A recursive alias would make every caller narrow values it has just built, so the alias is Any. The
domain is checked at run time: by `canonical` when a value is stored, by `decode` when a text comes
from outside.
"""

from typing import Any, TypeAlias

Json: TypeAlias = Any
