"""Normal forms of texts and tags, and the terms of a query. Frozen: hashes depend on them."""

from collections.abc import Iterable

from rote.values.limits import TAG_LISTS_REMEMBERED

# Nearly every text holds a term of one character.
_TERM_CHARACTERS_MIN = 2


def normal_text(text: str) -> str:
    """Return the text in lower case, with single blanks between words and none around."""
    return " ".join(text.split()).lower()


class NormalTags(dict[tuple[str, ...] | None, tuple[str, ...]]):
    """Normal forms of tags: lower case, each once, sorted. Kept, because records share their tags."""

    def __missing__(self, tags: tuple[str, ...] | None) -> tuple[str, ...]:
        if len(self) >= TAG_LISTS_REMEMBERED:
            self.clear()
        found = self[tags] = tuple(sorted({tag.lower() for tag in tags or ()}))
        return found


def terms_of(query: str) -> tuple[str, ...]:
    """Return the terms of a query, in the order in which they first appear."""
    words = normal_text(query).split()
    return tuple(dict.fromkeys(word for word in words if len(word) >= _TERM_CHARACTERS_MIN))


def normal_terms(terms: Iterable[str]) -> tuple[str, ...]:
    """Return the normal form of given terms, also of short ones, because somebody chose them."""
    normal = (normal_text(term) for term in terms)
    return tuple(dict.fromkeys(term for term in normal if term))
