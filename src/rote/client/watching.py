"""Watches of a store behind a server: the one place that Port.watch of the client goes to."""

from typing import NoReturn

from rote.client.calls import Calls
from rote.contract.commands import Watch
from rote.errors import Unavailable


def begin_watch(calls: Calls, space: str, command: Watch) -> NoReturn:
    """Begin a watch."""
    raise Unavailable(
        "this client cannot watch yet; ask GET /v1/spaces/<space>/watch, which streams the frames"
    )
