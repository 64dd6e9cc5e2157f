"""JSON pointers (RFC 6901): text into tokens and back.

A token stays text: only the container at its place shows whether it is a key or an index.
"""

import re
from collections.abc import Sequence

from rote.errors import InvalidInput
from rote.values import Json

_bad_escape = re.compile(r"~(?![01])").search
_index = re.compile(r"0|[1-9][0-9]*", re.ASCII).fullmatch
# No list has more elements than canonical bytes, so an index with more digits is past every end.
_INDEX_CHARACTERS_MAX = 12


def parse_pointer(text: str) -> tuple[str, ...]:
    """Return the tokens of a pointer; `""` is the whole document and has none."""
    if type(text) is not str:
        raise InvalidInput(f"a JSON pointer must be str, not {type(text).__qualname__}")
    if not text:
        return ()
    if text[0] != "/":
        raise InvalidInput(f"the JSON pointer {text!r:.120} must be empty or start with '/'")
    if "~" not in text:
        return tuple(text[1:].split("/"))
    if _bad_escape(text):
        raise InvalidInput(f"the JSON pointer {text!r:.120} may use '~' only as '~0' and '~1'")
    # RFC 6901 section 4: ~1 first, so that ~01 becomes ~1 and not /.
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/"))


def format_pointer(tokens: Sequence[str | int]) -> str:
    """Return the pointer of tokens; integers are indexes."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def find(value: Json, tokens: Sequence[str], absent: Json = None) -> Json:
    """Return the value at a pointer, or `absent` when there is none."""
    for token in tokens:
        kind = type(value)
        if kind is dict and token in value:
            value = value[token]
        elif kind is list or kind is tuple:
            index = parse_index(token)
            if index is None or index >= len(value):
                return absent
            value = value[index]
        else:
            return absent
    return value


def parse_index(token: str) -> int | None:
    """Return the array index that a token names, None when it names none.

    RFC 6901 allows no leading zeros.
    """
    if len(token) > _INDEX_CHARACTERS_MAX or not _index(token):
        return None
    return int(token)
