"""Porter's stemmer rule by rule, as his paper of 1980 prints them; the real one must equal it."""

from collections.abc import Callable

# S1, S2 and the condition on the stem before S1.
_Condition = Callable[[str], bool]
_Rule = tuple[str, str, _Condition]


def naive_stem(word: str) -> str:
    """Return the stem of a word of the letters a to z; words under 3 letters stay."""
    if len(word) < 3:
        return word
    word = _apply(word, _STEP_1A)[0]
    word, suffix = _apply(word, _STEP_1B)
    if suffix in ("ed", "ing"):
        word, again = _apply(word, [("at", "ate", _any), ("bl", "ble", _any), ("iz", "ize", _any)])
        if again is None:
            if _d(word) and word[-1] not in "lsz":
                word = word[:-1]
            elif _m(word) == 1 and _o(word):
                word += "e"
    for step in (_STEP_1C, _STEP_2, _STEP_3, _STEP_4, _STEP_5A):
        word = _apply(word, step)[0]
    return word[:-1] if _m(word) > 1 and _d(word) and word[-1] == "l" else word


def _apply(word: str, rules: list[_Rule]) -> tuple[str, str | None]:
    """Obey the rule with the longest matching S1; return the word, and S1 if the rule was obeyed."""
    matching = [rule for rule in rules if word.endswith(rule[0])]
    if not matching:
        return word, None
    before, after, condition = max(matching, key=lambda rule: len(rule[0]))
    start = word[: len(word) - len(before)]
    return (start + after, before) if condition(start) else (word, None)


def _is_consonant(word: str, place: int) -> bool:
    if word[place] == "y":
        return place == 0 or not _is_consonant(word, place - 1)
    return word[place] not in "aeiou"


def _m(word: str) -> int:
    kinds = [_is_consonant(word, place) for place in range(len(word))]
    return sum(not kinds[place - 1] and kinds[place] for place in range(1, len(word)))


def _v(word: str) -> bool:
    return any(not _is_consonant(word, place) for place in range(len(word)))


def _d(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _o(word: str) -> bool:
    size = len(word)
    return (
        size > 2
        and _is_consonant(word, size - 3)
        and not _is_consonant(word, size - 2)
        and _is_consonant(word, size - 1)
        and word[-1] not in "wxy"
    )


def _any(_: str) -> bool:
    return True


def _m_above(least: int) -> _Condition:
    return lambda word: _m(word) > least


def _rules(pairs: str, condition: _Condition) -> list[_Rule]:
    """Return the rules of a text such as `ational=ate ful=`."""
    return [(before, after, condition) for before, _, after in map(_halves, pairs.split())]


def _halves(pair: str) -> tuple[str, str, str]:
    return pair.partition("=")


_STEP_1A = _rules("sses=ss ies=i ss=ss s=", _any)
_STEP_1B = [*_rules("eed=ee", _m_above(0)), *_rules("ed= ing=", _v)]
_STEP_1C = _rules("y=i", _v)
_STEP_2 = _rules(
    "ational=ate tional=tion enci=ence anci=ance izer=ize abli=able alli=al entli=ent eli=e"
    " ousli=ous ization=ize ation=ate ator=ate alism=al iveness=ive fulness=ful ousness=ous"
    " aliti=al iviti=ive biliti=ble",
    _m_above(0),
)
_STEP_3 = _rules("icate=ic ative= alize=al iciti=ic ical=ic ful= ness=", _m_above(0))
_STEP_4 = [
    *_rules(
        "al= ance= ence= er= ic= able= ible= ant= ement= ment= ent= ou= ism= ate= iti= ous= ive="
        " ize=",
        _m_above(1),
    ),
    *_rules("ion=", lambda word: _m(word) > 1 and word[-1:] in ("s", "t")),
]
_STEP_5A = _rules("e=", lambda word: _m(word) > 1 or (_m(word) == 1 and not _o(word)))
