"""The type of a stored value.

    Json = None | bool | int | float | str | list[Json] | dict[str, Json]

A recursive alias makes every caller narrow what it has just built, so the alias is Any and the
domain is checked at run time, by `canonical` on the way in and `decode` on the way from outside.
"""

from typing import Any, TypeAlias

Json: TypeAlias = Any
