"""Gates: look up the rights of a principal in a space, as they are now.

Rights come from the space's ACL only for dids; an operator and a token bring theirs with them.
"""

import threading
from collections import OrderedDict
from typing import Any

from msgspec import Struct

from rote.access.acl import Acl, acl_in
from rote.access.delegations import Delegation
from rote.access.principals import Principal, Standing, standing_in
from rote.access.refusals import lacks_right, no_such_space, outside_path, unauthenticated
from rote.access.rights import Held, covers
from rote.contract import Caller, Clock, Port, SpaceInfo
from rote.contract.commands import FindSpace, GetSide, PutSide, Read
from rote.contract.table import PathRule, Right
from rote.errors import Corrupt, Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.server.named import Named
from rote.values import micros_of
from rote.values.server_limits import ACLS_KEPT

DELEGATION = "delegation"  # the kind of side rows


class Look(Struct, frozen=True):
    """The rights of a principal in a space at one moment."""

    standing: Standing
    acl: Acl | None  # None when it cannot be read, or was not asked
    version: int | None  # of the ACL that says so; None when it was not asked
    asked: str  # the space, as the principal has named it
    mark: bytes | None = None  # of the store: it holds as long as that is the same; None: no longer

    def held_for(
        self, command: str, needed: Right, rule: PathRule = "free", named: Named | None = None
    ) -> Held:
        """Return the right by which a command may be done; NotFound or Denied without one."""
        standing = self.standing
        if not standing.held:
            raise refused(standing, self.asked)
        enough = [held for held in standing.held if covers(held.right, needed)]
        if not enough:
            raise lacks_right(command, needed)
        for held in enough:
            if held.path is None or rule == "free":
                return held
        for held in enough:
            if rule != "none" and held.path is not None and named is not None and named(held.path):
                return held
        raise outside_path(command, rule)


class Gates:
    """Looks up the rights of principals in spaces, for every command. Any thread may ask."""

    def __init__(self, port: Port, *, open_creation: bool, clock: Clock) -> None:
        self.port = port
        self.open_creation = open_creation
        self._clock = clock
        self._mutex = threading.Lock()
        self._names: dict[str, SpaceInfo] = {}  # spaces by name or did, as they were found
        self._acls: OrderedDict[tuple[str, str], Acl | None] = OrderedDict()  # by space and hash
        # By space, with the mark of the store before it was read: current while that is the same.
        self._current: OrderedDict[str, tuple[bytes, Acl | None, int]] = OrderedDict()
        self._ports: OrderedDict[str | None, Port] = OrderedDict()  # by author
        self._delegations: OrderedDict[tuple[str, str], None] = OrderedDict()  # that are kept

    def find(self, principal: Principal, space: str) -> SpaceInfo:
        """Return a space by name or did; one that is not there is refused like one without a right."""
        known = self._names.get(space)
        if known is not None:
            return known
        try:
            return self._find(space)
        except (InvalidInput, NotFound, Denied) as error:
            raise self.absent(principal, space, error) from None

    def _find(self, space: str) -> SpaceInfo:
        found = self.port.answer("", FindSpace(space))
        if len(self._names) >= ACLS_KEPT:
            self._names.clear()
        self._names[space] = found
        return found

    def is_stale(self, space: str) -> bool:
        """Whether a name does not stand for the space any more that it stood for: that was erased."""
        known = self._names.pop(space, None)
        try:
            return known is not None and self._find(space) != known
        except RoteError:
            return True

    def absent(self, principal: Principal, asked: str, error: RoteError) -> RoteError:
        """Return the error for a space that is not there, or is the library's own.

        An operator is told what the store says, all others what they are told of every space.
        """
        if principal.is_operator:
            return error if isinstance(error, NotFound) else no_such_space(asked)
        return refused(self._standing(principal, "", None), asked)

    def look(self, principal: Principal, space: str, asked: str) -> Look:
        """Return what a principal holds in a space now."""
        if principal.is_operator or principal.bound is not None:
            return Look(self._standing(principal, space, None), None, None, asked)
        # Delegations end while nobody commits.
        mark = self.port.open_store.mark() if principal.chain is None else None
        acl, version = self.acl(space)
        return Look(self._standing(principal, space, acl), acl, version, asked, mark)

    def is_current(self, look: Look) -> bool:
        """Whether another look would be the same."""
        return look.mark is not None and look.mark == self.port.open_store.mark()

    def _standing(self, principal: Principal, space: str, acl: Acl | None) -> Standing:
        # Nothing but a chain of delegations has times.
        now = 0 if principal.chain is None else self.now()
        return standing_in(principal, space, acl, now=now)

    def acl(self, space: str) -> tuple[Acl | None, int]:
        """Return the ACL in force, None when only operators have rights, and its version."""
        mark = self.port.open_store.mark()
        current = self._current.get(space)
        if mark is None:
            return self._acl_now(space)
        if current is None or current[0] != mark:
            current = (mark, *self._acl_now(space))
            _keep(self._mutex, self._current, space, current)
        return current[1:]

    def _acl_now(self, space: str) -> tuple[Acl | None, int]:
        try:
            (state,) = self.port.answer(space, Read((space,)))
        except Corrupt as error:
            raise Unavailable("the ACL of the space cannot be read; run `rote verify`") from error
        key = (space, state.hash or "")
        if state.hash is None or state.erased:
            return acl_in(state), state.version
        with self._mutex:
            if key in self._acls:
                self._acls.move_to_end(key)
                return self._acls[key], state.version
        acl = acl_in(state)
        _keep(self._mutex, self._acls, key, acl)
        return acl, state.version

    def port_of(self, author: str | None) -> Port:
        """Return the store's port, bound to an author."""
        with self._mutex:
            port = self._ports.get(author)
        if port is None:
            port = self.port.for_caller(Caller(author))
            _keep(self._mutex, self._ports, author, port)
        return port

    def keep_delegation(self, space: str, delegation: Delegation) -> None:
        """Keep a delegation beside the log of its space, once."""
        key = (space, delegation.id)
        if key in self._delegations:
            return
        if self.port.answer(space, GetSide(DELEGATION, delegation.id)) is None:
            try:
                self.port.answer(space, PutSide(DELEGATION, delegation.id, delegation.value, 0))
            except Denied as error:
                if "actual_fence" not in error.details:
                    raise
        _keep(self._mutex, self._delegations, key, None)

    def now(self) -> int:
        return micros_of(self._clock.now())


def refused(standing: Standing, asked: str) -> NotFound | Denied:
    """Return the error for a principal that holds nothing in a space, be it there or not."""
    if standing.fault is not None:
        return unauthenticated("proofs", why=standing.fault)
    return no_such_space(asked)


def _keep(mutex: threading.Lock, kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    with mutex:
        kept[key] = value
        if len(kept) > ACLS_KEPT:
            kept.popitem(last=False)
