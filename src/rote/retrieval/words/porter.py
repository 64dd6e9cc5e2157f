"""The stem of an English word, by the paper: M. F. Porter, An algorithm for suffix stripping, 1980.

Frozen: without the changes that later programs of its author have. Only words under three letters
are left as they are.
"""

_LETTERS_MIN = 3
# Vowels are v, other letters c; y depends on the letter before it.
_SHAPES = str.maketrans("abcdefghijklmnopqrstuvwxyz", "vcccvcccvcccccvcccccvcccyc")

# A step tries the longest suffix first, and no other one when its condition does not hold.
_Rules = tuple[tuple[str, str], ...]
_STEP_2: _Rules = (
    ("ational", "ate"), ("ization", "ize"), ("iveness", "ive"), ("fulness", "ful"),
    ("ousness", "ous"), ("tional", "tion"), ("biliti", "ble"), ("entli", "ent"), ("ousli", "ous"),
    ("ation", "ate"), ("alism", "al"), ("aliti", "al"), ("iviti", "ive"), ("enci", "ence"),
    ("anci", "ance"), ("izer", "ize"), ("abli", "able"), ("alli", "al"), ("ator", "ate"),
    ("eli", "e"),
)  # fmt: skip
_STEP_3: _Rules = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ness", ""),
    ("ful", ""),
)  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti",
    "ous", "ive", "ize", "al", "er", "ic", "ou",
)  # fmt: skip


def stem(word: str) -> str:
    """Return the stem of a word of the letters a to z."""
    if len(word) < _LETTERS_MIN:
        return word
    word = _past(_plural(word))
    if word[-1] == "y" and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(_replaced(word, _STEP_2), _STEP_3)
    return _without_e(_shortened(word))


def _shape(word: str) -> str:
    """Return v for each vowel and c for each consonant."""
    shape = word.translate(_SHAPES)
    if "y" in shape:
        letters = list(shape)
        for place, letter in enumerate(letters):
            if letter == "y":
                letters[place] = "v" if place and letters[place - 1] == "c" else "c"
        shape = "".join(letters)
    return shape


def _measure(word: str) -> int:
    """Return m of [C](VC)^m[V]."""
    return _shape(word).count("vc")


def _ends_double(word: str) -> bool:
    """*d of the paper."""
    return word[-1:] == word[-2:-1] and _shape(word)[-1:] == "c"


def _ends_cvc(word: str) -> bool:
    """*o of the paper."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _plural(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] != "s" else word


def _past(word: str) -> str:
    """Step 1b."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            start = word.removesuffix(suffix)
            return _mended(start) if "v" in _shape(start) else word
    return word


def _mended(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word) and word[-1] not in "lsz":
        return word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_cvc(word) else word


def _replaced(word: str, rules: _Rules) -> str:
    """Steps 2 and 3."""
    for suffix, other in rules:
        if word.endswith(suffix):
            start = word.removesuffix(suffix)
            return start + other if _measure(start) else word
    return word


def _shortened(word: str) -> str:
    """Step 4."""
    for suffix in _STEP_4:
        if word.endswith(suffix):
            start = word.removesuffix(suffix)
            if suffix == "ion" and start[-1:] not in ("s", "t"):
                return word
            return start if _measure(start) > 1 else word
    return word


def _without_e(word: str) -> str:
    """Step 5."""
    if word[-1] == "e":
        start = word[:-1]
        measure = _measure(start)
        if measure > 1 or (measure == 1 and not _ends_cvc(start)):
            word = start
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
