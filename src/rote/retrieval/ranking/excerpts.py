"""Excerpts: of a long memory the part around the place that matched best."""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

from msgspec import Struct

from rote.errors import InvalidInput
from rote.retrieval.words.analyser import analyse
from rote.values.limits import EXCERPT_ATTEMPTS_MAX, WORDS_REMEMBERED

UTF8_4: Final = "utf8-4"
_TOKEN_BYTES = 4

# Stretches without white space, cut every 32 characters. `\\S` is what `str.isspace` denies.
_find_pieces = re.compile(r"\S{1,32}").finditer
_is_name = re.compile(r"[^\s@]+").fullmatch


class TokenCounter(Protocol):
    """Counts the tokens of a text as a model does."""

    name: str
    version: str

    def count(self, text: str, /) -> int: ...


class Excerpt(Struct, frozen=True):
    text: str
    start: int  # bytes of the memory before it
    tokens: int


class Hit(Struct, frozen=True, gc=False):
    """A piece of a text that has terms of the question."""

    start: int  # in bytes
    end: int
    terms: frozenset[str]


class Pieces(Struct, frozen=True):
    """A text in pieces, in bytes."""

    starts: "array[int]"
    ends: "array[int]"
    hits: list[Hit]


_EMPTY = Excerpt("", 0, 0)


def tokenizer_of(counter: Any) -> str:
    """Return the name of what counts tokens; raise InvalidInput when it cannot."""
    if counter is None:
        return UTF8_4
    name, version = getattr(counter, "name", None), getattr(counter, "version", None)
    is_named = all(type(text) is str and _is_name(text) for text in (name, version))
    if not is_named or not callable(getattr(counter, "count", None)):
        raise InvalidInput(
            "count_tokens must have a name and a version, without @ and white space, and count(text)"
        )
    return f"{name}@{version}"


class Excerpts:
    """Makes the excerpts of one question."""

    def __init__(
        self,
        idf: Mapping[str, int],
        *,
        language: str,
        tokens: int,
        counter: TokenCounter | None = None,
    ) -> None:
        self._idf = idf
        self._language = language
        self._allowed = tokens  # in each excerpt
        self._count = utf8_4 if counter is None else counted_by(counter)

    def of(self, text: str) -> Excerpt:
        size, pieces = _TOKEN_BYTES * self._allowed, None
        stripped = text.strip()
        stripped_start = len(text[: len(text) - len(text.lstrip())].encode())
        stripped_bytes = len(stripped.encode())
        for _ in range(EXCERPT_ATTEMPTS_MAX):
            if stripped_bytes <= size:
                found, start = stripped, stripped_start
            else:
                pieces = pieces or self._pieces(text)
                found, start = self._cut(text, pieces, size)
            if not found:
                break
            tokens = self._count(found)
            if tokens <= self._allowed:
                return Excerpt(found, start, tokens)
            size = min(size - _TOKEN_BYTES, size * self._allowed // tokens)
            size -= size % _TOKEN_BYTES
            if size <= 0:
                break
        return _EMPTY

    def _pieces(self, text: str) -> Pieces:
        pieces = Pieces(array("Q"), array("Q"), [])
        known, end, offset = _pieces_known(self._language), 0, 0
        for match in _find_pieces(text):
            start = offset + len(text[end : match.start()].encode())
            end, offset = match.end(), start + len(match[0].encode())
            pieces.starts.append(start)
            pieces.ends.append(offset)
            if terms := known[match[0]] & self._idf.keys():
                pieces.hits.append(Hit(start, offset, terms))
        return pieces

    def _cut(self, text: str, pieces: Pieces, size: int) -> tuple[str, int]:
        """Return the best stretch of a text of at most so many bytes, and where it starts."""
        start, end = self._best(pieces.hits, size) if pieces.hits else (pieces.starts[0],) * 2
        spare = max(0, size - (end - start))
        first = bisect_left(pieces.starts, start - spare // 2)
        begin = pieces.starts[first]
        after = bisect_right(pieces.ends, begin + size)
        # A first piece that is too long is cut.
        end = pieces.ends[after - 1] if after > first else begin + size
        return text.encode()[begin:end].decode(errors="ignore"), begin

    def _best(self, hits: Sequence[Hit], size: int) -> tuple[int, int]:
        """Return the start of the window that tells most, and the end of its last hit."""
        inside: Counter[str] = Counter()
        worth = next_hit = 0
        best = (-1, 0, 0)
        for index, hit in enumerate(hits):
            while next_hit < len(hits) and hits[next_hit].end <= hit.start + size:
                for term in hits[next_hit].terms:
                    worth += 0 if inside[term] else self._idf[term]
                    inside[term] += 1
                next_hit += 1
            end = hits[next_hit - 1].end if next_hit > index else hit.start
            if worth > best[0]:
                best = (worth, hit.start, end)
            if next_hit == index:
                next_hit += 1  # the piece is longer than the window, and never was inside
                continue
            for term in hit.terms:
                inside[term] -= 1
                worth -= 0 if inside[term] else self._idf[term]
        return best[1], best[2]


class Highlights:
    """Finds the pieces of excerpts that have one of some terms."""

    def __init__(self, terms: frozenset[str], language: str) -> None:
        self._terms = terms
        self._known = _pieces_known(language)

    def of(self, text: str) -> list[list[int]]:
        """Return the start and end, in characters, of each piece of an excerpt that has a term."""
        has_none, known = self._terms.isdisjoint, self._known
        return [list(piece.span()) for piece in _find_pieces(text) if not has_none(known[piece[0]])]


class _KnownPieces(dict[str, frozenset[str]]):
    """Pieces to their terms. Most pieces of a text are in others too, so they are remembered."""

    def __init__(self, language: str) -> None:
        self._language = language

    def __missing__(self, piece: str) -> frozenset[str]:
        if len(self) >= WORDS_REMEMBERED:
            self.clear()
        found = self[piece] = frozenset(analyse(piece, self._language))
        return found


@cache
def _pieces_known(language: str) -> _KnownPieces:
    return _KnownPieces(language)


def utf8_4(text: str) -> int:
    """Return an estimate that is the same on every machine."""
    return -(-len(text.encode()) // _TOKEN_BYTES)


def counted_by(counter: TokenCounter) -> Callable[[str], int]:
    def count(text: str) -> int:
        tokens: Any = counter.count(text)
        if type(tokens) is not int or tokens < 0:
            raise InvalidInput("count_tokens must count with an integer from 0 on")
        return tokens

    return count
