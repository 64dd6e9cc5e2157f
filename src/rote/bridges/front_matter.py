"""Front matter of pages that others wrote: what it says about the records of its page.

    ---
    ainl_namespace: long_term            or namespace
    ainl_record_kind: user_preference    or kind
    ainl_record_id: theme                or id
    preference_key: theme                the members `key` and `value` of the payload
    preference_value: dark
    tags: [look, editor]                 of the metadata; also as a list of lines, or with commas
    source: obsidian
    valid_at: 2026-03-20                 a day, or RFC 3339
    ---

Five more that AINL writes become members of `provenance` and `flags`. Of YAML only this much is read:
one member a line, a text plain or in quotes. Lines that begin no member belong to the one above.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from rote.bridges.pages import Page
from rote.bridges.validator import Problem, no_namespace
from rote.errors import InvalidInput, LimitExceeded
from rote.records.keys import entity_id
from rote.records.metadata import check_metadata
from rote.values import Json, decode

_FENCE = "---"
_FENCES = (_FENCE, "...")
_line = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*:(?:[ \t]+(.*))?").fullmatch
_items = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,]*)\s*(?:,|$)""").findall
_day = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_NULLS = ("", "~", "null")

# Members of the key; AINL has names of its own for them.
_KEY = {
    "ainl_namespace": "namespace", "ainl_record_kind": "kind", "ainl_record_id": "id",
    "namespace": "namespace", "kind": "kind", "id": "id",
}  # fmt: skip
_PREFERENCE = {"preference_key": "key", "preference_value": "value"}
_METADATA = ("tags", "source", "valid_at")
_PROVENANCE = {"ainl_source_system": "source_system", "ainl_authored_by": "authored_by"}
_FLAGS = {
    "ainl_authoritative": "authoritative", "ainl_curated": "curated", "ainl_ephemeral": "ephemeral",
}  # fmt: skip
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Member(Struct, frozen=True):
    """A member as it is written."""

    line: int
    last: int
    name: str
    text: str  # with the lines that belong to it


class FrontMatter(Struct):
    """Statements of a page's front matter about its records; all are empty without one."""

    size: int = 0  # its number of lines
    namespace: str | None = None
    kind: str | None = None
    id: str | None = None
    preference: dict[str, Json] = field(default_factory=dict)  # members of the payload
    metadata: dict[str, Json] = field(default_factory=dict)
    carried: dict[str, dict[str, Json]] = field(default_factory=dict)  # provenance and flags
    others: list[Member] = field(default_factory=list)  # members without a meaning here
    is_of_ainl: bool = False
    warnings: list[Problem] = field(default_factory=list)  # about lines that were left out

    @property
    def names_record(self) -> bool:
        """Whether the page is one record, because only one can have this id or preference."""
        return self.id is not None or bool(self.preference)


def read_front_matter(page: Page, namespaces: Collection[str]) -> FrontMatter:
    """Return what the front matter of a page says; InvalidInput names the line of a bad member."""
    front = FrontMatter(size=_size(page))
    seen: dict[str, Member] = {}
    for item in _members(page, front.size):
        if isinstance(item, Problem):
            front.warnings.append(item)
            continue
        if item.name in seen:
            raise page.fault(
                item.line, f"{item.name} is there already, in line {seen[item.name].line}"
            )
        seen[item.name] = item
        front.is_of_ainl |= item.name.startswith("ainl_")
        if item.name in _METADATA:
            value: Json = _tags(item.text) if item.name == "tags" else _scalar(item.text)
        else:
            value = _scalar(item.text)
        if value is None or value == []:
            words = f"{item.name} has no value; it is left out"
            front.warnings.append(Problem("warning", page.place(item.line, item.last), words))
        elif not _take(page, front, item, value, namespaces):
            front.others.append(item)
    return front


def _size(page: Page) -> int:
    """Return the number of lines of the front matter; 0 when the page has none."""
    if page.lines[0].rstrip() != _FENCE:
        return 0
    begins = False
    for number, line in enumerate(page.lines[1:], start=2):
        if line.rstrip() in _FENCES:
            return number if begins else 0
        if not begins and line.strip() and not line.startswith("#"):
            if not _line(line):
                return 0  # a rule, and text below it
            begins = True
    return 0


def _members(page: Page, size: int) -> Iterator[Member | Problem]:
    """The members of a front matter, and a warning for each comment in it."""
    name, first, last, lines = "", 0, 0, list[str]()
    for number, line in enumerate(page.lines[1 : max(size - 1, 1)], start=2):
        match = _line(line)
        if line.startswith("#"):
            yield Problem("warning", page.place(number), "a comment is left out")
        elif match is not None:
            if lines:
                yield Member(first, last, name, "\n".join(lines))
            name, first, last, lines = match[1], number, number, [(match[2] or "").strip()]
        elif line.strip():
            last = number
            lines.append(line.rstrip())
    if lines:
        yield Member(first, last, name, "\n".join(lines))


def _take(
    page: Page, front: FrontMatter, member: Member, value: Any, namespaces: Collection[str]
) -> bool:
    """Note what a member says; False when it has no meaning here."""
    name = member.name
    try:
        if name in _KEY:
            _take_key(front, _KEY[name], value, namespaces)
        elif name in _PREFERENCE:
            front.preference[_PREFERENCE[name]] = value
        elif name in _METADATA:
            if name == "valid_at" and _day(value):
                value = f"{value}T00:00:00Z"
            front.metadata.update(check_metadata({name: value}) or {})
        elif name in _PROVENANCE:
            front.carried.setdefault("provenance", {})[_PROVENANCE[name]] = value
        elif name in _FLAGS and value.lower() in _BOOLEANS:
            front.carried.setdefault("flags", {})[_FLAGS[name]] = _BOOLEANS[value.lower()]
        else:
            return False
    except (InvalidInput, LimitExceeded) as error:
        raise page.fault(member.line, f"{name}: {error}") from None
    return True


def _take_key(front: FrontMatter, name: str, value: str, namespaces: Collection[str]) -> None:
    if getattr(front, name) not in (None, value):
        raise InvalidInput(f"the {name} is {getattr(front, name)!r:.80} further up; keep one")
    if name == "namespace" and value not in namespaces:
        raise InvalidInput(no_namespace(value, namespaces))
    entity_id("x", value if name == "kind" else "x", value if name == "id" else "x")
    setattr(front, name, value)


def _scalar(text: str) -> str | None:
    """Return a text as YAML means it, without its quotes; None for null."""
    text = text.strip()
    if text in _NULLS:
        return None
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text[0] == '"':
        try:
            decoded = decode(text)
        except InvalidInput:
            return text
        return decoded if type(decoded) is str else text
    return text


def _tags(text: str) -> list[str]:
    """Return tags that are a list in brackets, a list of lines, or texts with commas between."""
    first, *lines = text.split("\n")
    if lines and not first.strip():
        return _texts(line.strip().removeprefix("-") for line in lines)
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    return _texts(_items(inner))


def _texts(items: Iterable[str]) -> list[str]:
    return [text for text in map(_scalar, items) if text]
