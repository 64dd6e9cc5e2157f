"""Filters of a retrieval, in their normal form: which memories may be in the answer."""

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from rote.errors import InvalidInput, RoteError
from rote.questions.instants import normal_time
from rote.questions.members import check_text, moment, section, texts
from rote.questions.wording import NormalTags
from rote.values import Json, canonical
from rote.values.limits import RETRIEVAL_TERMS_MAX

_CODE = "invalid_filters"


class Filters(Struct, frozen=True):
    """All of them must hold; None holds for every memory."""

    namespaces: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    threads: tuple[str, ...] | None = None
    tags_any: tuple[str, ...] | None = None
    tags_all: tuple[str, ...] | None = None
    after: int | None = None  # microseconds since the epoch, included
    before: int | None = None
    where: dict[str, Json] | None = None  # members that the metadata must have

    def shown(self) -> dict[str, Json] | None:
        """Return the filters that are used, as a package shows them."""
        used = {name: value for name, value in asdict(self).items() if value is not None}
        for name in _TIMES:
            if name in used:
                used[name] = normal_time(used[name])
        return {
            name: list(value) if type(value) is tuple else value for name, value in used.items()
        } or None


NO_FILTERS = Filters()
_TIMES = ("after", "before")
_TAGS = ("tags_any", "tags_all")
_LISTS = ("namespaces", "kinds", "sources", "threads", *_TAGS)


def parse_filters(filters: Any) -> Filters:
    """Return the checked filters; raise InvalidInput for the first fault."""
    if filters is None:
        return NO_FILTERS
    given = section(filters, "filters", _CODE, (*_LISTS, *_TIMES, "where"))
    normal_tags = NormalTags()
    used: dict[str, Any] = {}
    for name in _LISTS:
        if found := texts(given, f"filters.{name}", _CODE):
            used[name] = normal_tags[tuple(found)] if name in _TAGS else tuple(sorted(set(found)))
    for name in _TIMES:
        used[name] = moment(given, f"filters.{name}", _CODE)
    return Filters(**used, where=_where(given.get("where")))


def _where(where: Any) -> dict[str, Json] | None:
    if where is None or where == {}:
        return None
    if type(where) is not dict or len(where) > RETRIEVAL_TERMS_MAX:
        raise InvalidInput(
            f"filters.where must be an object of at most {RETRIEVAL_TERMS_MAX:,} members",
            code=_CODE,
        )
    for key, value in where.items():
        check_text(key, "a key of filters.where", _CODE)
        try:
            is_plain = type(value) in (str, int, float, bool) and canonical(value) is not None
        except RoteError:
            is_plain = False
        if not is_plain:
            raise InvalidInput(
                f"filters.where.{key:.80} must be a text, a number, true or false", code=_CODE
            )
    return dict(where)
