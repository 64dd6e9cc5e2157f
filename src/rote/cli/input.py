"""JSON from the user: an argument, a file or the standard input, through the strict decoder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rote.cli.output import compact
from rote.errors import InvalidInput, InvalidValue
from rote.values import Json, decode
from rote.values.limits import COMMIT_BYTES_MAX

_TEXT_CHARACTERS_SHOWN = 40
# Characters that a JSON text starts with, unless it is a bare word.
_JSON_STARTS = tuple('{["-0123456789 \t\r\n')


def decode_argument(argument: str) -> Json:
    """The value of JSON text, of the file in `@file`, or of the standard input for `-`."""
    if argument == "-":
        return decode_stdin()
    if argument.startswith("@"):
        return decode_file(Path(argument[1:]))
    try:
        return decode(argument)
    except InvalidValue as error:
        raise _with_advice(error, argument) from None


def decode_object(argument: str, *, member: str = "text", or_null: bool = False) -> Any:
    """Return the object of an argument; the error for anything else shows how to write an object."""
    try:
        value = decode_argument(argument)
    except InvalidInput:
        if argument.startswith((*_JSON_STARTS, "@")):
            raise
        raise InvalidInput(f"that is not JSON; {_object_advice(member, argument)}") from None
    if type(value) is dict or (or_null and value is None):
        return value
    word = value if type(value) is str else "like this"
    raise InvalidInput(f"that is not an object; {_object_advice(member, word)}")


def decode_operations(argument: str) -> list[Any]:
    """Return the patch operations of an argument."""
    operations = decode_argument(argument)
    if not isinstance(operations, list):
        raise InvalidInput("a patch is a list of operations: put [ ] around it")
    return operations


def decode_file(path: Path) -> Json:
    with path.open("rb") as file:
        return _decode_stream(file, str(path))


def decode_stdin() -> Json:
    return _decode_stream(_stdin(), "standard input")


def can_ask() -> bool:
    """Whether standard input is a terminal, so that a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def _stdin() -> BinaryIO:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed; pipe something into it, or name a file")
    return sys.stdin.buffer


@contextmanager
def opened_file(argument: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """The file, or the standard input for `-`; and its size where it is known."""
    if argument == "-":
        yield _stdin(), None
        return
    path = Path(argument)
    with path.open("rb") as stream:
        yield stream, path.stat().st_size


def _decode_stream(stream: BinaryIO, name: str) -> Json:
    # One byte more than is allowed, so that the decoder refuses a text that is too long.
    data = stream.read(COMMIT_BYTES_MAX + 1)
    try:
        return decode(data)
    except InvalidValue as error:
        raise InvalidInput(f"{name}: {error}", **error.details) from None


def _with_advice(error: InvalidValue, argument: str) -> InvalidInput:
    """Return the error with advice on how to write what was probably meant."""
    if argument[:1] not in _JSON_STARTS:
        words = (
            f"that is not JSON; for text, use both kinds of quotes: '{compact(_shown(argument))}'"
        )
    elif argument[0] in "{[" and '"' not in argument:
        words = f'{error}; if the shell took the quotes, write it like \'{{"name":"Ada"}}\''
    else:
        return error
    return InvalidInput(words, **error.details)


def _object_advice(member: str, word: str) -> str:
    return f"give a JSON object: '{compact({member: _shown(word)})}'"


def _shown(text: str) -> str:
    """Return a text that fits between shell quotes; an example for one that is long or would not."""
    short = len(text) <= _TEXT_CHARACTERS_SHOWN and text.isprintable() and "'" not in text
    return text if short else "like this"
