"""Canonical JSON text with line breaks and indents, for people to read."""

import re
from collections.abc import Iterator
from itertools import chain, pairwise

# Canonical text, token by token: strings, punctuation, everything else. The last string may be cut.
_tokens = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^"{}\[\],:]+').finditer
_INDENT = "  "


def indent(text: str) -> Iterator[str]:
    """Yield the tokens of canonical text, or of its beginning, with white space as pieces of its own.

    A key is a string before the piece `: `.
    """
    depth = 0
    tokens = (match[0] for match in _tokens(text))
    for token, following in pairwise(chain(tokens, [""])):
        yield ": " if token == ":" else token
        if token in ("{", "["):
            depth += 1
            if following not in ("}", "]"):
                yield "\n" + _INDENT * depth
        elif token == ",":
            yield "\n" + _INDENT * depth
        if following in ("}", "]"):
            depth -= 1
            if token not in ("{", "["):
                yield "\n" + _INDENT * depth
