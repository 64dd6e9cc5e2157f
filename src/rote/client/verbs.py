"""Whole verbs that a server answers: of memories, and retrieval."""

from collections.abc import Callable
from typing import Any

import msgspec

from rote.client.blobs import place_of
from rote.client.calls import Request
from rote.client.replies import Reply
from rote.contract import IdSource
from rote.errors import Denied
from rote.values.limits import ATTEMPT_BYTES

# Verbs that write once by their attempt, and those that have none.
_ONCE = frozenset(
    f"memory_{name}" for name in ("put", "put_many", "append", "update", "delete", "touch")
)
_UNREPEATED = frozenset(f"memory_{name}" for name in ("erase", "prune"))


class RemoteVerbs:
    """Implements space.home.Verbs over HTTP."""

    def __init__(
        self, ids: IdSource, *, call: Callable[[str, Request], Reply], read_only: bool
    ) -> None:
        self._ids = ids
        self._call = call
        self._read_only = read_only

    def call(self, space: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        attempt: str | None = None
        is_write = name in _ONCE or name in _UNREPEATED
        if is_write and self._read_only:
            raise Denied("the store was opened read only; open it without read_only to write")
        if name in _ONCE:
            attempt = self._ids.random_bytes(ATTEMPT_BYTES).hex()
            arguments = {**arguments, "attempt": attempt}
        request = Request(
            "POST",
            (place_of(space) if space else "/v1/") + name,
            msgspec.json.encode(arguments),
            {"content-type": "application/json"},
            repeat="refused" if name in _UNREPEATED else "always",
            attempt=attempt,
            is_write=is_write,
            is_long=name == "retrieve",
        )
        return self._call(space, request).members
