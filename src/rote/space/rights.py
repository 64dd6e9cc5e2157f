"""The calls of a space about who may do what there: its ACL, which is an entity like any other."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from rote.access import acl as acls
from rote.access.delegations import parse_delegation, second_text
from rote.contract import Commit, Head, Port, State, View
from rote.contract.commands import GetTimes, MakeCommit, Read
from rote.errors import InvalidInput
from rote.space.driving import retry
from rote.values import Json
from rote.values.limits import CONTENTION_ATTEMPTS_MAX
from rote.values.names import is_sha256
from rote.values.times import MICROS_MAX

_MAIN = "main"


class Rights:
    """The part of a Space that says who may do what through a server."""

    _port: Port
    _did: str
    _view: View
    _pinned: Head | None
    _turns: "threading.RLock"

    def acl(self) -> dict[str, Any] | None:
        """Return who may do what through a server; None when that was never said."""
        acl: dict[str, Any] | None = self._acl_state(self._view.version).value
        return acl

    def grant(self, did: str, right: str) -> Commit:
        """Give a did, or `*` for any, the right "read", "write" or "owner"."""
        return self._change_acl(lambda acl: acls.granted(acl, did, right))

    def withdraw(self, did: str) -> Commit:
        """Take the right of a did, or of `*`, away; what it has lent goes with it."""
        return self._change_acl(lambda acl: acls.withdrawn(acl, did))

    def rotate(self, old: str, new: str) -> Commit:
        """Give the right of a did to another one, which takes its place."""
        return self._change_acl(lambda acl: acls.rotated(acl, old, new))

    def revoke(self, delegation: Mapping[str, Json] | str) -> Commit:
        """Make a delegation void, given whole or by its id, and every chain that it is in.

        Given by its id alone it stays in the ACL for good, because nobody knows when it ends.
        """
        id, expires = self._revocation(delegation)
        now = self._port.answer("", GetTimes(shared=False)).now
        return self._change_acl(lambda acl: acls.revoked(acl, id, expires, now=now))

    def _revocation(self, delegation: Mapping[str, Json] | str) -> tuple[str, str]:
        if type(delegation) is str:
            if not is_sha256(delegation):
                raise InvalidInput("the id of a delegation is 64 hexadecimal digits")
            return delegation, second_text(MICROS_MAX)
        found = parse_delegation(delegation)
        if found.space != self._did:
            raise InvalidInput("this delegation is for another space; revoke it there")
        return found.id, second_text(found.expires)

    def _change_acl(self, change: Callable[[acls.Acl], acls.Acl]) -> Commit:
        self._check_writable("grant(), withdraw(), rotate() or revoke")

        def change_once() -> Commit:
            state = self._acl_state(None)
            acl = acls.acl_in(state)
            if acl is None:
                raise InvalidInput(
                    "the ACL was deleted, erased or is malformed, so that only operators have rights;"
                    f" set the entity {self._did} to a whole one first"
                )
            changed = change(acl)
            acls.check_usable(changed)
            operation = {"op": "set", "id": self._did, "value": changed.to_dict()}
            read = {"id": self._did, "version": state.version, "branch": _MAIN}
            return self._port.answer(self._did, MakeCommit([operation], _MAIN, [read]))

        return retry(change_once, attempts=CONTENTION_ATTEMPTS_MAX, turns=self._turns)

    def _acl_state(self, version: int | None) -> State:
        (state,) = self._port.answer(self._did, Read((self._did,), View(_MAIN, version)))
        return state

    def _check_writable(self, call: str) -> None:
        if self._pinned is not None:
            raise InvalidInput(
                f"this view is pinned at version {self._pinned.version} and read-only;"
                f" call {call}() on the space it came from"
            )
