"""Stores behind a server: what rote.open does with http:// and https://."""

import os
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rote.errors import InvalidInput, Unavailable

try:
    from rote.client.links import WireLinker
except ModuleNotFoundError as missing:
    raise Unavailable(
        "stores behind a server need what speaks WebSocket: pip install 'rote[remote]'",
        reason=str(missing),
    ) from missing

from rote.access.delegations import parse_delegation
from rote.client.address import address_of
from rote.client.calls import Calls, Repeat, Request
from rote.client.credentials import Credentials, Grants, Token, check_token
from rote.client.pool import Pool
from rote.client.port import NotHere, RemotePort
from rote.kernel.kernel import TABLE
from rote.opening.deferred import DeferredRuns, DeferredSearching, DeferredSessions
from rote.opening.sources import SystemClock, SystemIds, SystemTokens
from rote.runs.leases import check_lease_seconds
from rote.runs.modes import check_modes
from rote.space import Store
from rote.space.arguments import check_path
from rote.space.home import Home
from rote.values import Identity, decode
from rote.values.client_limits import CALL_SECONDS_DEFAULT, CALL_SECONDS_MAX
from rote.values.identity import SEED_BYTES
from rote.values.limits import LEASE_SECONDS_DEFAULT

# What options of rote.open are when nobody gives them.
_LEFT_OUT = {"durability": "fsync", "schema": "rote"}


def open_remote(
    url: str,
    of_server: Mapping[str, Any],
    *,
    token: str | None,
    key: bytes | None,
    proofs: Sequence[Mapping[str, Any]] = (),
    timeout: float = CALL_SECONDS_DEFAULT,
    modes: Iterable[str] | None,
    lease_seconds: float = LEASE_SECONDS_DEFAULT,
    traces: str | os.PathLike[str] | None,
    create: bool,
    read_only: bool,
) -> Store:
    """Return a store behind a server; nothing is asked before the first call.

    of_server  options of rote.open that are the server's to say, and so are refused
    """
    _refuse(of_server)
    address = address_of(url)
    _check_timeout(timeout)
    check_modes(modes)
    check_lease_seconds(lease_seconds)
    ids, tokens = SystemIds(), SystemTokens()
    pool = Pool(
        address,
        now=time.monotonic,
        tls=ssl.create_default_context() if address.is_tls else None,
    )
    credentials = _credentials(pool, token, key, proofs, timeout)
    calls = Calls(pool, credentials=credentials, ids=ids, seconds=timeout, now=time.monotonic)
    port = RemotePort(calls, table=TABLE, ids=ids, now=time.monotonic, read_only=read_only)
    runs = DeferredRuns(
        port,
        ids=ids,
        tokens=tokens,
        modes=modes,
        lease_seconds=lease_seconds,
        folder=None if traces is None else check_path(traces).absolute(),
        read_only=read_only,
    )
    sessions = DeferredSessions(
        lambda: WireLinker(calls),
        clock=SystemClock(),
        server=address.shown,
        principal=None if key is None else Identity.from_seed(key).did,
    )
    return Store(
        port,
        url=address.shown,
        local=NotHere(),
        create=create and not read_only,
        read_only=read_only,
        runs=runs,
        searching=DeferredSearching(),
        home=Home(ids, verbs=port.verbs, sessions=sessions),
    )


def _refuse(of_server: Mapping[str, Any]) -> None:
    for name, value in of_server.items():
        if value is not None and value != _LEFT_OUT.get(name):
            raise InvalidInput(
                f"{name} is said where the server is started; leave it out here", argument=name
            )


def _credentials(
    pool: Pool,
    token: str | None,
    key: bytes | None,
    proofs: Sequence[Mapping[str, Any]],
    timeout: float,
) -> Credentials:
    if token is not None:
        check_token(token)
        if key is not None:
            raise InvalidInput("who calls is said by token= or by key=, not by both")
    if type(proofs) not in (list, tuple):
        raise InvalidInput("proofs are a list of delegations, as rote.delegate returns them")
    if key is None:
        if proofs:
            raise InvalidInput("proofs are for a key; name it by key=")
        return Token(token)
    _check_key(key)
    for proof in proofs:
        parse_delegation(proof)
    ids = SystemIds()
    calls = Calls(pool, credentials=Token(None), ids=ids, seconds=timeout, now=time.monotonic)

    def ask(
        method: str, path: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> dict[str, Any]:
        # A signed request is good for one use, so it is not sent again.
        repeat: Repeat = "always" if method == "GET" else "refused"
        request = Request(method, path, body, headers, repeat=repeat)
        reply = calls.call(request, deadline=deadline)
        members = decode(reply.body)
        if type(members) is not dict:
            raise Unavailable(f"{pool.address.shown} answers, but is no server of Rote")
        return members

    return Grants(
        key, proofs, ask=ask, clock=SystemClock(), ids=ids, now=time.monotonic, seconds=timeout
    )


def _check_key(key: object) -> None:
    if type(key) is not bytes or len(key) != SEED_BYTES:
        raise InvalidInput(
            f"key is {SEED_BYTES} bytes; a file of `rote key new` has them as hexadecimal digits:"
            " bytes.fromhex(text)",
            argument="key",
        )


def _check_timeout(timeout: object) -> None:
    if type(timeout) not in (int, float) or not 0 < timeout <= CALL_SECONDS_MAX:  # type: ignore[operator]
        raise InvalidInput(
            f"timeout is a number of seconds above 0 and up to {CALL_SECONDS_MAX:,}",
            argument="timeout",
        )
