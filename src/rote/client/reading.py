"""Reads of entities by id: in pages of one state, without sending again what the client has.

Answers of a server of Rote are decoded by their types. A value stays bytes until somebody gets it, so
that what is kept is never shared.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from rote.client.kept import Kept
from rote.client.replies import Reply
from rote.contract import State, View
from rote.contract.commands import Read, ReadPage
from rote.contract.wire import encode_command
from rote.errors import Unavailable
from rote.values import decode_canonical
from rote.values.client_limits import HELD_VALUE_BYTES_MIN
from rote.values.limits import PAGE_MAX

_NOTHING = Raw(b"null")


class _Sent(Struct):
    """A state as it comes: its value is a slice of the answer."""

    id: str
    version: int
    hash: str | None
    value: Raw = _NOTHING
    exists: bool = False
    erased: bool = False
    unchanged: bool = False


class _Page(Struct):
    """A page of states as it comes."""

    version: int
    states: list[_Sent]
    next: int | None


class _Held(Struct, frozen=True):
    """A state that is kept."""

    version: int
    hash: str | None
    value: bytes
    exists: bool
    erased: bool


_decode_page = msgspec.json.Decoder(_Page).decode
_encode = msgspec.json.encode
Ask = Callable[[str, bytes], Reply]  # asks `read` of a space


class Reading:
    """Answers Read of one store."""

    def __init__(self, kept: Kept, *, ask: Ask) -> None:
        self._kept = kept
        self._ask = ask

    def read(self, space: str, command: Read) -> tuple[State, ...]:
        ids, view = command.ids, command.view
        if type(ids) not in (list, tuple) or not all(map(_is_text, ids)):
            # The server refuses it, by the checks of the kernel; what JSON cannot carry is refused here.
            self._ask(space, encode_command(ReadPage(ids, view)).head)
            raise Unavailable("the server has answered what it should have refused")
        pinned = view.version is not None
        found = self._kept_states(space, ids, view) if pinned and ids else None
        if found is not None:
            return found
        states: list[State] = []
        while True:
            page = self._page(space, ids[len(states) : len(states) + PAGE_MAX], view)
            states += page[0]
            if len(states) == len(ids):
                return tuple(states)
            view = View(view.branch, page[1])

    def _kept_states(self, space: str, ids: Sequence[str], view: View) -> tuple[State, ...] | None:
        """Return the states of a pinned view, if all of them are kept."""
        states: list[State] = []
        for id in ids:
            held = self._kept.get(space, (space, view.branch, view.version, id))
            if held is None:
                return None
            states.append(_state(id, held))
        return tuple(states)

    def _page(self, space: str, ids: Sequence[str], view: View) -> tuple[list[State], int]:
        """Return the states of the first of some ids, and the version that they are of."""
        places = [(space, view.branch, view.version, id) for id in ids]
        held: list[_Held | None] = (
            [self._kept.get(space, place) for place in places]
            if view.version is None
            else [None] * len(ids)
        )
        asked: dict[str, Any] = {"ids": ids, "branch": view.branch, "version": view.version}
        if any(held):
            asked["known"] = [each and each.hash for each in held]
        reply = self._ask(space, _body(asked))
        try:
            page = _decode_page(reply.body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Unavailable(f"the server's answer is not a page of states: {error}") from None
        named = [sent.id for sent in page.states]
        if named != list(ids[: len(named)]) or (ids and not named):
            raise Unavailable("the server's answer has other states than those that were asked for")
        erased = reply.number(b"rote-erased")
        states: list[State] = []
        for sent, place, known in zip(page.states, places, held, strict=False):
            if sent.unchanged:
                if known is None or known.hash != sent.hash:
                    raise Unavailable("the server's answer leaves out a value that is not here")
                states.append(_state(sent.id, known))
                continue
            value = bytes(sent.value)
            found = _Held(sent.version, sent.hash, value, sent.exists, sent.erased)
            states.append(_state(sent.id, found))
            is_worth = view.version is not None or len(value) >= HELD_VALUE_BYTES_MIN
            if is_worth and erased is not None:
                self._kept.keep(space, place, found, len(value), erased=erased)
        return states, page.version


def _body(asked: dict[str, Any]) -> bytes:
    try:
        return _encode(asked)
    except (TypeError, UnicodeEncodeError, ValueError):
        # Refused by the checks of the kernel, with their words.
        return encode_command(ReadPage(asked["ids"], View(asked["branch"], asked["version"]))).head


def _is_text(id: object) -> bool:
    return type(id) is str


def _state(id: str, held: _Held) -> State:
    value = decode_canonical(held.value) if held.exists else None
    return State(id, value, held.exists, held.version, held.hash, held.erased)
