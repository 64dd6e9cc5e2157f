"""How texts are compared: normal form and the terms of a query. Frozen: hashes depend on it."""

from collections.abc import Iterable

# A term of one character is in nearly every text.
_TERM_CHARACTERS_MIN = 2


def normal_text(text: str) -> str:
    """Lower case, with single blanks between words and none around."""
    # Most texts have nothing but single blanks between words already: then there is nothing to
    # split. Printable ASCII holds no white space but the blank.
    if text.isascii() and text.isprintable() and "  " not in text and text == text.strip():
        return text.lower()
    return " ".join(text.split()).lower()


def terms_of(query: str) -> tuple[str, ...]:
    """The terms of a query, in the order in which they first appear."""
    words = normal_text(query).split()
    return tuple(dict.fromkeys(word for word in words if len(word) >= _TERM_CHARACTERS_MIN))


def normal_terms(terms: Iterable[str]) -> tuple[str, ...]:
    """Terms that were given: no length rule, because somebody chose them."""
    normal = (normal_text(term) for term in terms)
    return tuple(dict.fromkeys(term for term in normal if term))
