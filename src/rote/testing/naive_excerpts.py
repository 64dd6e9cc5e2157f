"""Excerpts, and a package as text, word for word from their contract (ranking.md)."""

import math
from collections.abc import Callable, Mapping
from typing import Any


def naive_excerpt(
    text: str,
    allowed: int,
    idf: Mapping[str, int],
    analyse: Callable[[str], list[str]],
    count_tokens: Any = None,
) -> tuple[str, int, int]:
    """Return the excerpt of a text, where it starts in bytes, and its tokens."""
    size = 4 * allowed
    for _ in range(17):
        excerpt, start = _window(text, size, idf, analyse)
        tokens = _tokens(excerpt, count_tokens)
        if tokens <= allowed:
            return (excerpt, start, tokens) if excerpt else ("", 0, 0)
        size = min(size - 4, size * allowed // tokens) // 4 * 4
        if size <= 0:
            break
    return "", 0, 0


def naive_highlights(
    excerpt: str, terms: set[str], analyse: Callable[[str], list[str]]
) -> list[list[int]]:
    """Return the pieces of an excerpt that have terms: their start and end in characters."""
    pieces = [
        (_cut(excerpt, 0, begin), _cut(excerpt, begin, end)) for begin, end in _pieces(excerpt)
    ]
    return [
        [len(before), len(before + piece)] for before, piece in pieces if terms & {*analyse(piece)}
    ]


def _tokens(excerpt: str, count_tokens: Any) -> int:
    if count_tokens is None:
        return math.ceil(len(excerpt.encode()) / 4)
    tokens: int = count_tokens.count(excerpt)
    return tokens


def _window(
    text: str, size: int, idf: Mapping[str, int], analyse: Callable[[str], list[str]]
) -> tuple[str, int]:
    stripped = text.strip()
    if len(stripped.encode()) <= size:
        before = text[: len(text) - len(text.lstrip())]
        return stripped, len(before.encode())
    pieces = _pieces(text)
    found = [
        (*piece, {term for term in analyse(_cut(text, *piece)) if term in idf}) for piece in pieces
    ]
    starts = [
        (first, _worth(found, first, first + size, idf)) for first, _, terms in found if terms
    ]
    start = max(starts, key=lambda each: each[1])[0] if starts else pieces[0][0]
    inside = [
        last for first, last, terms in found if terms and start <= first and last <= start + size
    ]
    spare = max(0, size - (max(inside, default=start) - start))
    begin = next(first for first, _ in pieces if first >= start - spare // 2)
    ends = [last for first, last in pieces if first >= begin and last <= begin + size]
    if ends:
        return _cut(text, begin, max(ends)), begin
    first_piece = next(piece for piece in pieces if piece[0] == begin)
    return text.encode()[begin : min(first_piece[1], begin + size)].decode(errors="ignore"), begin


def _pieces(text: str) -> list[tuple[int, int]]:
    """Return the stretches between white space, cut every 32 code points: offsets in bytes."""
    pieces, stretch, offset = [], 0, 0
    start = None
    for character in text:
        if start is not None and (character.isspace() or stretch == 32):
            pieces.append((start, offset))
            start = None
        if start is None and not character.isspace():
            start, stretch = offset, 0
        stretch += 1
        offset += len(character.encode())
    if start is not None:
        pieces.append((start, offset))
    return pieces


def _worth(found: Any, begin: int, end: int, idf: Mapping[str, int]) -> int:
    inside = [terms for first, last, terms in found if begin <= first and last <= end]
    return sum(idf[term] for term in set().union(*inside))


def _cut(text: str, begin: int, end: int) -> str:
    return text.encode()[begin:end].decode()


def naive_package_text(package: dict[str, Any], style: str = "tags", order: str = "rank") -> str:
    """Return the excerpts of a package as a text for a prompt."""
    items = [each for each in package["selection"]["selected"] if each["excerpt"]]
    if order == "time":
        # Normal times sort as texts do once a fraction is always there.
        items.sort(key=lambda each: (each.get("ts_utc") or "").replace("Z", "").ljust(26, "."))
    return "".join(_item(each, style) for each in items)


def _item(each: dict[str, Any], style: str) -> str:
    at = each.get("ts_utc")
    if style == "plain":
        time = "" if at is None else f"({at[:10]}) "
        return f"- {time}{' '.join(each['excerpt'].split())}\n"
    time = "" if at is None else f' at="{_escaped(at)}"'
    return f'<memory id="{_escaped(each["memory_id"])}"{time}>\n{_escaped(each["excerpt"])}\n</memory>\n'


def _escaped(text: str) -> str:
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(character, f"&{name};")
    return text
