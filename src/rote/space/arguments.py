"""Checks of arguments that Store, Space and others use themselves, before the port sees them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rote.errors import InvalidInput
from rote.values.names import check_text


def check_limit(limit: int | None) -> int | None:
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidInput("limit must be an integer from 0 on, or None for all")
    return limit


def check_list(items: object, what: str) -> None:
    """Raise InvalidInput unless it is a list or a tuple.

    A text is a sequence too, an iterator can be read only once, and a set has no order.
    """
    if not isinstance(items, list | tuple):
        raise InvalidInput(f"{what} are given as a list")


def erased_by_call(ids: Any) -> dict[str, Any]:
    """Return the member of an erase command that says what a call of erase names."""
    if isinstance(ids, list | tuple):
        return {"ids": tuple(ids)}
    if isinstance(ids, Mapping):
        if ids.keys() not in ({"prefix"}, {"prefix", "where"}):
            raise InvalidInput('an erasure by prefix is {"prefix": text}', argument="ids")
        return dict(ids)
    return {"id": ids}


def check_progress(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise InvalidInput("progress is a function that is told how far it is")


def check_flags(**flags: object) -> None:
    """Raise InvalidInput unless each flag is a bool: the text "false" would count as true."""
    for name, flag in flags.items():
        if type(flag) is not bool:
            raise InvalidInput(f"{name} is True or False")


def check_path(path: object) -> Path:
    """Return the path if the system can take it; raise InvalidInput otherwise."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput("a path is text or a Path")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInput("a path is text, not empty and without NUL")
    check_text(text, "a path")
    if "://" in text:
        raise InvalidInput("a path is wanted here, not a URL")
    return Path(text)


def check_timeout(timeout: object) -> None:
    # `not timeout >= 0` instead of `timeout < 0`, to refuse NaN too.
    if timeout is not None and not (
        isinstance(timeout, int | float) and type(timeout) is not bool and timeout >= 0
    ):
        raise InvalidInput("timeout: it is a number of seconds from 0 on", key="timeout")
