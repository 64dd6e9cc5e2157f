"""A daily log as Markdown: one record is one text, and that text is exactly that record.

    ---
    rote: "daily_log/1"
    record_kind: "note"
    record_id: "2026-03-20"
    created_at: "2026-03-20T09:00:00.000000Z"
    updated_at: "2026-03-20T17:30:00.000000Z"
    ttl_seconds: null
    metadata: null
    ---

    # 2026-03-20

    - [2026-03-20T09:00:00Z] asked about teapots
    - bought one,
      the blue one
      `{"price":20}`

The values of the front matter are JSON, which is YAML as well. A bullet is an entry: its time, its
text, and its other members as JSON in a last line. The lines of a text stand below each other,
indented, so what is Markdown in the text is Markdown here, and a bullet can be written by hand.

Escaped is only what would be read as something else: a backslash comes before a line that begins
with one, with a time in brackets or with "`{", and stands for an empty line at the end; a character
that cannot be seen is a numeric reference (&#13;). Frozen: a new form gets a new number.

Bullets are by time. An entry without one stays behind the entry it follows. Where that is not the
order of the record, `order` has the place in the record of each bullet. `more` has the members of
the payload beside its entries; a payload whose `entries` are no list of objects is in `payload`.
`provenance` and `flags` are there when the record carries them.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from rote.bridges.pages import Page
from rote.bridges.validator import Problem
from rote.errors import InvalidInput
from rote.records.envelope import CARRIED, Envelope
from rote.records.metadata import instant_of
from rote.values import Json, canonical, decode
from rote.values.times import MICROS_MIN

NAMESPACE = "daily_log"
FORM = "daily_log/1"
_FENCE = "---"
_FIRST = f'rote: "{FORM}"'
_ENVELOPE = ("record_kind", "record_id", "created_at", "updated_at", "ttl_seconds", "metadata")
_EXTRA = (*CARRIED, "more", "payload", "order")
# Members that may hold the time of an entry; the name of the first is not written.
_TIMES = ("at", "ts", "time")
_TIME_CHARACTERS_MAX = 64

# Lines of a damaged file that are searched: a little more than an export has above its bullets.
_DAMAGED_LINES = 20

_front_line = re.compile(r"([a-z_]+): (.*)").fullmatch
_front_name = re.compile(r"\s*(rote|record_kind|record_id)\s*:").match
_odd_time = re.compile(r" {0,3}[-*+] +(\[(?:(?:ts|time) )?[0-9]{4}-[0-9]{2}.*)").match
_star = re.compile(r"[*+]( |$)|[0-9]{1,9}[.)]( |$)").match
_time_mark = re.compile(r"\[(?:(ts|time) )?([0-9][^\[\]]{0,63})\](?: |$)").match
# Characters that editors hide or take for the end of a line; tabs and line feeds stay as they are.
_HIDDEN = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff"
_hidden = re.compile(f"[{_HIDDEN}]")
_reference = re.compile(r"&((?:amp;)*)#([0-9]{1,5});")
_hidden_or_reference = re.compile(f"[{_HIDDEN}]|{_reference.pattern}")


def is_daily_log(page: Page) -> bool:
    """Whether a page is a daily log of any form number."""
    return begins_log("\n".join(page.lines[:2]).encode())


def begins_log(data: bytes) -> bool:
    """Whether the first bytes of a file begin a daily log of any form number."""
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"")
    return lines.startswith(f"{_FENCE}\nrote: ".encode())


def check_no_log(page: Page) -> None:
    """Check that a page is no damaged daily log; InvalidInput when it is.

    Taken as a note, it would replace the record and lose the members of the front matter. One name
    of such a member alone may stand in any page.
    """
    names: set[str] = set()
    for number, line in enumerate(page.lines[:_DAMAGED_LINES], start=1):
        match = _front_name(line)
        names.update([match[1]] if match else [])
        if len(names) > 1:
            raise page.fault(
                number,
                "this looks like an export, but its front matter is damaged: the first line must be"
                f" {_FENCE} and the second {_FIRST}, without blanks around them; mend it, or remove"
                " all of the front matter to make it a note; --skip leaves the file out",
            )


def odd_times(page: Page) -> list[Problem]:
    """Return a warning for each bullet that begins with something like a time in brackets."""
    return [
        Problem(
            "warning",
            page.place(number),
            "what is in brackets is no RFC 3339 time with an offset, as in"
            " [2026-03-20T09:00:00Z], so it is text",
        )
        for number, line in enumerate(page.lines, start=1)
        if (match := _odd_time(line)) and not timed(match[1])[0]
    ]


def has_kind(data: bytes, kinds: Collection[str]) -> bool:
    """Whether the first bytes of a file say that it is a log of one of these kinds."""
    lines = data.decode(errors="replace").replace("\r", "").split("\n")
    return any(f"record_kind: {_json(kind)}" in lines for kind in kinds)


def entry_time(entry: dict[str, Any]) -> tuple[str, str] | None:
    """Return the name of the member that holds the time of an entry, and the time."""
    for name in _TIMES:
        time = entry.get(name)
        if type(time) is str and len(time) <= _TIME_CHARACTERS_MAX and instant_of(time) is not None:
            return name, time
    return None


def timed(text: str, *, name: str = _TIMES[0]) -> tuple[dict[str, Json], str]:
    """Return the time in brackets at the beginning of a text, as a member, and the rest of it.

    name  of the member, where the brackets name none
    """
    match = _time_mark(text)
    if match is None or instant_of(match[2]) is None:
        return {}, text
    return {match[1] or name: match[2]}, text[match.end() :]


# -- writing ---------------------------------------------------------------------------------------


def render_log(record: Envelope) -> str:
    """Return the Markdown text of a record."""
    payload = record["payload"]
    carried = [name for name in CARRIED if name in record]
    front: dict[str, Json] = {name: record[name] for name in (*_ENVELOPE, *carried)}
    bullets: list[str] = []
    if _has_entries(payload):
        more = {name: value for name, value in payload.items() if name != "entries"}
        order = _order(payload["entries"])
        if more:
            front["more"] = more
        if order != sorted(order):
            front["order"] = list(order)
        bullets = ["\n".join(_bullet(payload["entries"][place])) for place in order]
    else:
        front["payload"] = payload
    lines = [_FENCE, _FIRST, *(f"{name}: {_json(value)}" for name, value in front.items()), _FENCE]
    heading = _hidden.sub(_as_reference, record["record_id"].replace("\n", " "))
    return "\n".join([*lines, "", f"# {heading}", "", *bullets, *([""] if bullets else [])])


def _has_entries(payload: dict[str, Any]) -> bool:
    entries = payload.get("entries")
    return type(entries) is list and all(type(entry) is dict for entry in entries)


def _order(entries: list[dict[str, Any]]) -> list[int]:
    """Return the places of the entries, sorted by time."""
    instants: list[int] = []
    for entry in entries:
        known = entry_time(entry)
        instant = None if known is None else instant_of(known[1])
        instants.append(
            instant if instant is not None else instants[-1] if instants else MICROS_MIN
        )
    return sorted(range(len(entries)), key=instants.__getitem__)


def _bullet(entry: dict[str, Any]) -> list[str]:
    rest = dict(entry)
    mark = ""
    known = entry_time(entry)
    if known is not None:
        name, time = known
        mark = f" [{time}]" if name == _TIMES[0] else f" [{name} {time}]"
        del rest[name]
    lines = _text_lines(rest.pop("text")) if type(rest.get("text")) is str else []
    if rest or not lines:
        lines.append("`" + _json(rest).replace("`", "\\u0060") + "`")
    first, *others = lines
    return [
        f"-{mark} {first}" if first else f"-{mark}",
        *(f"  {line}" if line else "" for line in others),
    ]


def _text_lines(text: str) -> list[str]:
    first, *others = _hidden_or_reference.sub(_as_reference, text).split("\n")
    if others and not others[-1]:
        others[-1] = "\\"
        others[:-1] = map(_escaped, others[:-1])
    else:
        others = list(map(_escaped, others))
    return [f"\\{first}" if timed(first)[0] else _escaped(first), *others]


def _escaped(line: str) -> str:
    return f"\\{line}" if line.startswith(("\\", "`{")) else line


def _as_reference(match: re.Match[str]) -> str:
    """Return the numeric reference of a character; a text that looks like one gets an `amp;` more."""
    found = match[0]
    return f"&amp;{found[1:]}" if found[0] == "&" else f"&#{ord(found)};"


def _json(value: Json) -> str:
    # Hidden characters can only stand in strings, where every character has an escape.
    return _hidden.sub(lambda match: f"\\u{ord(match[0]):04x}", canonical(value).decode())


# -- reading ---------------------------------------------------------------------------------------


def parse_log(page: Page) -> Envelope:
    """Return the record of a page; the validator has not checked it yet."""
    front, lines, body = _front_matter(page)
    entries = [_entry(page, number, lines) for number, lines in _bullets(page, body)]
    record: Envelope = {"namespace": NAMESPACE, **{name: front.get(name) for name in _ENVELOPE}}
    record |= {name: front[name] for name in CARRIED if name in front}
    if "payload" in front:
        if entries or "more" in front or "order" in front:
            raise page.fault(
                lines["payload"], "beside `payload` there are no bullets, no `more` and no `order`"
            )
        return {**record, "payload": front["payload"]}
    more = front.get("more", {})
    if type(more) is not dict or "entries" in more:
        raise page.fault(
            lines["more"], "`more` is an object without `entries`, which are the bullets"
        )
    if "order" in front:
        entries = _in_order(page, lines["order"], entries, front["order"])
    return {**record, "payload": {**more, "entries": entries}}


def _front_matter(page: Page) -> tuple[dict[str, Json], dict[str, int], int]:
    """(members, the numbers of their lines, the number of the first line below) of a page."""
    if page.lines[1] != _FIRST:
        raise page.fault(2, f"this is no form that is known; known is {_FIRST}")
    front: dict[str, Json] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(page.lines[2:], start=3):
        if line == _FENCE:
            return front, lines, number + 1
        match = _front_line(line)
        if match is None or match[1] not in _ENVELOPE + _EXTRA:
            raise page.fault(
                number,
                f"front matter has no such line: it has {', '.join(_ENVELOPE + _EXTRA)}, and ends"
                f" with {_FENCE}; what you want to add is a member of metadata",
            )
        if match[1] in front:
            raise page.fault(number, f"{match[1]} is there already")
        front[match[1]] = _member(page, number, match[1], match[2])
        lines[match[1]] = number
    raise page.fault(len(page.lines), f"the front matter never ends; write {_FENCE} below it")


def _member(page: Page, number: int, name: str, text: str) -> Json:
    """Return the value of a member of the front matter."""
    try:
        return _decoded(page, number, text)
    except InvalidInput as error:
        like = {"ttl_seconds": "86400, or null for never", "metadata": '{"tags":["tea"]}, or null'}
        like |= {"provenance": '{"authored_by":"Ada"}', "flags": '{"curated":true}'}
        like |= {"more": '{"title":"A day"}', "payload": '{"text":"tea"}', "order": "[1,0]"}
        example = like.get(name, '"text in quotes"')
        raise page.fault(
            number, f"{name} is JSON, like {example}; {error.details['reason']}"
        ) from None


def _bullets(page: Page, start: int) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, lines without indentation) for each bullet."""
    begun, lines, blanks = 0, list[str](), 0
    for number, line in enumerate(page.lines[start - 1 :], start=start):
        if begun and line.startswith("  "):
            lines += [""] * blanks + [line[2:]]
            blanks = 0
        elif not line.strip():
            blanks += 1
        elif line == "-" or line.startswith("- "):
            if begun:
                yield begun, lines
            begun, lines, blanks = number, [line[2:]], 0
        elif begun or not line.startswith("# "):
            raise page.fault(number, _no_bullet(line))
    if begun:
        yield begun, lines


def _no_bullet(line: str) -> str:
    """Return the advice for a line that belongs to no bullet."""
    text = line.lstrip()
    if line[0] == "\t":
        return "a line that goes on with a bullet is indented by two blanks, not by a tab"
    if _star(text) or text.startswith("-"):
        return "a bullet begins with - and a blank, at the beginning of its line"
    if text.startswith("#"):
        return "a daily log has one heading, above its bullets; make this a bullet, or remove it"
    return "a daily log has bullets; make this one, or indent it by two"


def _entry(page: Page, number: int, lines: list[str]) -> dict[str, Json]:
    entry, first = timed(lines[0])
    lines = [first, *lines[1:]]
    if lines[-1].startswith("`{") and lines[-1].endswith("}`"):
        members = _decoded(page, number, lines.pop()[1:-1])
        assert type(members) is dict
        if not entry.keys().isdisjoint(members) or (lines and "text" in members):
            raise page.fault(number, "a member is in the JSON of this bullet and before it")
        entry.update(members)
    if lines:
        joined = "\n".join(map(_unescaped, lines))
        entry["text"] = _reference.sub(_as_character, joined)
    return entry


def _unescaped(line: str) -> str:
    return line[1:] if line == "\\" or line.startswith(("\\\\", "\\`", "\\[")) else line


def _as_character(match: re.Match[str]) -> str:
    if match[1]:
        return f"&{match[0][len('&amp;') :]}"
    character = chr(int(match[2]))
    return character if _hidden.match(character) else match[0]


def _in_order(
    page: Page, number: int, entries: list[dict[str, Json]], order: Json
) -> list[dict[str, Json]]:
    if type(order) is not list or sorted(order, key=str) != sorted(range(len(entries)), key=str):
        raise page.fault(
            number,
            f"`order` has the place of each bullet from 0 on, and does not fit the {len(entries)}"
            " that are there; delete the line order: and they stand as they are written",
        )
    placed = dict(zip(order, entries, strict=True))
    return [placed[place] for place in range(len(entries))]


def _decoded(page: Page, number: int, text: str) -> Json:
    try:
        return decode(text)
    except InvalidInput as error:
        raise page.fault(number, f"not JSON: {error}") from None
