"""The analyser `words-1` written word for word from its contract; the real one must equal it.

It shares no code with rote.retrieval, only the tables of the contract.
"""

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import rote.retrieval.words
from rote.testing.naive_porter import naive_stem
from rote.values import decode

_DATA = Path(rote.retrieval.words.__file__).parent / "data"
_STOP = (_DATA / "stop.txt").read_text().split()
_FORMS = dict(line.split() for line in (_DATA / "forms.txt").read_text().splitlines())
_UNICODE: Any = decode((_DATA / "unicode14.json").read_bytes())
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF),
    (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x3134F),
)  # fmt: skip
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def naive_analyse(text: str, language: str = "english") -> list[str]:
    """Return the terms of a text, in order and with repeats."""
    return list(_analysed(text, language))


@lru_cache(1_024)  # tests ask for the same short texts again and again
def _analysed(text: str, language: str) -> tuple[str, ...]:
    folded = _fold(text)
    folded = re.sub(
        r"(?<![0-9])[0-9]{1,3}(,[0-9]{3})+(?![0-9])", lambda run: run[0].replace(",", ""), folded
    )
    terms: list[str] = []
    for run in _runs(folded):
        for part in _parts(run):
            for is_unspaced, group in groupby(part, lambda each: _is_in(each, _UNSPACED)):
                piece = "".join(group)
                if is_unspaced and len(piece) > 1:
                    terms += [piece[start : start + 2] for start in range(len(piece) - 1)]
                elif is_unspaced:
                    terms.append(piece)
                else:
                    terms += _terms(piece[:64], language)
    return tuple(terms)


def naive_memory_terms(memory: dict[str, Any], language: str) -> list[str]:
    """Return the terms of a memory: of its text, of each tag, of its day."""
    texts = [memory["text"], *memory["tags"]]
    if memory["at"] is not None:
        at = memory["at"]
        texts.append(f"{at.day} {_MONTHS[at.month - 1]} {at.year}")
    return [term for text in texts for term in naive_analyse(text, language)]


def _is_in(character: str, ranges: Any) -> bool:
    place = bisect_right(ranges, ord(character), key=lambda each: each[0]) - 1
    return place >= 0 and ord(character) <= ranges[place][1]


def _fold(text: str) -> str:
    text = "".join(" " if _is_in(each, _UNICODE["unassigned"]) else each for each in text)
    text = unicodedata.normalize("NFKD", text)
    text = "".join(each for each in text if not 0x300 <= ord(each) <= 0x36F)
    text = unicodedata.normalize("NFKC", text).casefold()
    return "".join("'" if each in "\u2018\u2019\u02bc" else each for each in text)


def _runs(text: str) -> list[str]:
    runs = [""]
    for place, character in enumerate(text):
        around = text[max(0, place - 1) : place] + text[place + 1 : place + 2]
        if _is_in(character, _UNICODE["word"]) or (
            character == "'"
            and len(around) == 2
            and all(_is_in(each, _UNICODE["word"]) for each in around)
        ):
            runs[-1] += character
        else:
            runs.append("")
    return [run for run in runs if run]


def _parts(run: str) -> list[str]:
    parts = run.split("'")
    if len(parts) > 1 and parts[-1] in ("s", "t", "d", "m", "ll", "re", "ve"):
        if parts[-1] == "t" and len(parts[-2]) > 1 and parts[-2].endswith("n"):
            parts[-2] = parts[-2][:-1]
        parts.pop()
    return parts


def _terms(piece: str, language: str) -> list[str]:
    number = re.fullmatch(r"([0-9]+)(st|nd|rd|th)?", piece)
    if number:
        return [number[1].lstrip("0") or "0"]
    if language == "english" and re.fullmatch(r"[a-z]+", piece):
        return [] if piece in _STOP else [naive_stem(_FORMS.get(piece, piece))]
    return [piece]
