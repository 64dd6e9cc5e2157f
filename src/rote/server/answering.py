"""Answers commands for principals. It knows nothing of HTTP: a session's call is answered by it too."""

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any

from rote.access.principals import Principal
from rote.contract import Port, Tell
from rote.contract.commands import GetTimes, GetVersions
from rote.contract.wire import decode_members, struct_of
from rote.errors import InvalidInput, NotFound, RoteError
from rote.opening.sources import SystemClock, SystemIds
from rote.server.admission import Admission, AdmittedPort
from rote.server.messages import Once, Pieces, Seen
from rote.server.metrics import Metrics
from rote.server.openapi import document
from rote.server.rows import Asked, ServerRow
from rote.server.server_space import open_server_space
from rote.server.settings import Settings
from rote.server.table import ROUTES, ROWS, TABLE
from rote.server.watching import Watches
from rote.space import Store
from rote.space.sources import port_of_store
from rote.values.ranges import prefix_end
from rote.values.server_limits import ERASURE_LOOKS_MAX

_NOTHING = Once()


@cache
def _version() -> str:
    """Return the version of Rote; to look it up takes longer than to start most servers."""
    return version("rote")


class Service:
    """The store as principals see it."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.port: Port = port_of_store(store)
        self.home = open_server_space(self.port)
        self.clock = SystemClock()
        self.ids = SystemIds()
        self.admission = Admission(
            self.port, open_creation=settings.open_creation, clock=self.clock
        )
        self.is_stopping = False
        self.is_overloaded: Callable[[], bool] = lambda: False
        self.store_fault: str | None = None  # why the store does not answer
        self._document: bytes | None = None
        limits = settings.limits
        self.metrics = Metrics(
            list(TABLE),
            version=_version(),
            engine="postgres" if store.url.startswith("postgresql:") else "sqlite",
            started=self.clock.now().timestamp(),
        )
        self.watches = Watches(
            self.port,
            watches_max=limits.watches,
            principal_watches_max=limits.principal_watches,
        )

    def answer(
        self,
        principal: Principal,
        space: str,
        name: str,
        arguments: bytes | Mapping[str, Any],
        *,
        seen: Seen,
        once: Once = _NOTHING,
        tell: Tell | None = None,
    ) -> bytes | Pieces:
        """Answer a command by its name; runs on a thread of the pool.

        space      a name or a did; empty for a command to the store
        arguments  one JSON object, as it came or decoded
        seen       takes what is known of the space, also when an error is raised
        """
        asked = self.ask(principal, space, name, arguments, seen=seen, once=once, tell=tell)
        row = TABLE[name]
        for _ in range(ERASURE_LOOKS_MAX):
            erased = seen.erased
            try:
                answer = row.answer(asked)
            finally:
                with suppress(RoteError):  # the answer, or its error, says more
                    self.look(seen)
            if seen.erased == erased or not row.is_read:
                return answer
            # It may hold what was erased meanwhile, and its reader would keep that as newer.
        seen.erased = erased
        return answer

    def ask(
        self,
        principal: Principal,
        space: str,
        name: str,
        arguments: bytes | Mapping[str, Any],
        *,
        seen: Seen,
        once: Once = _NOTHING,
        tell: Tell | None = None,
    ) -> Asked:
        """Let a principal in with a command, and return all that its answer is made of."""
        row = TABLE.get(name)
        if row is None or row.way == "inside":
            raise NotFound(f"there is no command {name!r:.80}")
        members = _members(row, arguments)
        port = self.enter(principal, name, space, seen)
        try:
            made = _arguments(row, members, once)
        except InvalidInput:
            if row.space:
                try:
                    port.check_seen()
                except RoteError:
                    seen.space = seen.version = None  # nothing says that the space is there
                    raise
            raise
        port.name(made)
        return Asked(principal, port, seen.space or "", made, self, seen, tell)

    def unready(self) -> str | None:
        """Return why requests should not come here now; None when they should."""
        if self.is_stopping:
            return "stopping"
        return "overloaded" if self.is_overloaded() else self.store_fault

    def ask_store(self) -> None:
        """Look whether the store answers."""
        try:
            self.port.answer("", GetTimes())
            self.store_fault = None
        except RoteError as error:
            self.store_fault = error.code

    def document(self) -> bytes:
        """Return the document of this server, OpenAPI."""
        if self._document is None:
            limits = self.settings.limits
            self._document = document(ROWS, ROUTES, limits, version=_version())
        return self._document

    def enter(self, principal: Principal, name: str, space: str, seen: Seen) -> AdmittedPort:
        """Let a principal in by the row of a command, before any argument is looked at.

        Return the port to ask; `seen` takes what is known of the space.
        """
        admitted = self.admission.admit(principal, TABLE[name], space)
        if admitted.space:
            seen.space = admitted.space
            seen.version = self.look(seen)
        return admitted.port

    def look(self, seen: Seen) -> int:
        """Return the head of a space; note its newest erasure. Both are what this process has met."""
        if seen.space is None:
            return 0
        versions = self.port.answer(seen.space, GetVersions(may_be_old=True))
        seen.erased = versions.erased
        return versions.version


def _members(row: ServerRow, arguments: bytes | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(arguments, bytes):
        return decode_members(row.arguments, arguments) if arguments else {}
    return dict(arguments)


def _arguments(row: ServerRow, members: dict[str, Any], once: Once) -> Any:
    """Return the arguments of a command, or of a row of the server's own."""
    for name in ("key", "attempt"):
        given = getattr(once, name)
        if given is None or not row.takes(name):
            continue
        if members.setdefault(name, given) != given:
            raise InvalidInput(
                f"{name}: the header and the body name different ones", argument=name
            )
    if row.name == "scan":
        _spread_prefix(members)
    if row.name == "space_create":
        members.setdefault("create", True)
    if row.takes("data") and "data" in members:
        members["data"] = _decoded(members["data"])
    return struct_of(row.arguments, members)


def _spread_prefix(members: dict[str, Any]) -> None:
    """Turn the prefix of a scan, which only servers take, into the range that it stands for."""
    if "prefix" not in members:
        return
    prefix = members.pop("prefix")
    if type(prefix) is not str or "start" in members or "end" in members:
        raise InvalidInput("a prefix is a text, and stands alone for start and end", key="prefix")
    members |= {"start": prefix, "end": prefix_end(prefix)}


def _decoded(text: Any) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except (TypeError, ValueError, Base64Error):
        raise InvalidInput("data: it must be a text in base64", key="data") from None
