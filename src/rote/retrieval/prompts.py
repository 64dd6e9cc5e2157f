"""A package as text for a prompt."""

from collections.abc import Mapping
from typing import Any

from rote.errors import InvalidInput
from rote.questions import NormalTimes

_STYLES = ("tags", "plain")
_ORDERS = ("rank", "time")
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_DAY_CHARACTERS = len("2026-01-31")


def package_text(package: Mapping[str, Any], *, style: str = "tags", order: str = "rank") -> str:
    """Return the excerpts of a package, by rank or by time; empty ones are left out.

    style  tags: each between <memory id="…" at="…"> and </memory>; plain: each a line of a list
    """
    if style not in _STYLES:
        raise InvalidInput(f"style must be one of {', '.join(_STYLES)}", argument="style")
    if order not in _ORDERS:
        raise InvalidInput(f"order must be one of {', '.join(_ORDERS)}", argument="order")
    try:
        items = [_fields(item) for item in package["selection"]["selected"] if item["excerpt"]]
        if order == "time":
            times = NormalTimes()
            items.sort(key=lambda item: times[item[1]][0])
        return "".join(map(_tagged if style == "tags" else _plain, items))
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput("a text is made of a package that `retrieve` returned") from None


_Fields = tuple[str, str | None, str]


def _fields(item: Mapping[str, Any]) -> _Fields:
    """Return memory id, time and excerpt; packages of phase6-v1 have no times."""
    return item["memory_id"], item.get("ts_utc"), item["excerpt"]


def _tagged(item: _Fields) -> str:
    id, time, excerpt = item
    at = "" if time is None else f' at="{time.translate(_ESCAPED)}"'
    return f'<memory id="{id.translate(_ESCAPED)}"{at}>\n{excerpt.translate(_ESCAPED)}\n</memory>\n'


def _plain(item: _Fields) -> str:
    _, time, excerpt = item
    day = "" if time is None else f"({time[:_DAY_CHARACTERS]}) "
    return f"- {day}{' '.join(excerpt.split())}\n"
