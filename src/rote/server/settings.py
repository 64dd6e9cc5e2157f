"""Settings of a server: what `rote serve` is told, checked, and the limits of requests."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from rote.errors import InvalidInput
from rote.values import check_author, check_did
from rote.values.limits import GIB, KIB, MIB

_LIMIT_MAX = 2**53


class Limits(Struct, frozen=True):
    """Bounds of requests. Each has its line in docs and in openapi.json (`x-rote-limits`)."""

    head_bytes: int = 32 * KIB
    headers: int = 100
    uri_bytes: int = 8 * KIB
    head_seconds: float = (
        10  # from the first byte of a connection or request to the end of its head
    )
    idle_seconds: float = 75  # between two requests
    body_seconds: float = 30  # without a byte of the body
    write_seconds: float = 30  # a client takes no byte of an answer
    body_bytes: int = 1 * MIB
    commit_bytes: int = 65 * MIB  # bodies that hold values: commits, merges, copies
    blob_bytes: int = 16 * GIB
    buffered_bytes: int = 512 * MIB  # bodies and answers held in memory, of all requests
    connections: int = 1_000
    queue: int = 256  # requests that wait for a thread
    principal_in_flight: int = 64
    principal_rate: int = 2_000  # requests a second; twice as many at once
    watches: int = 1_000
    principal_watches: int = 100
    failures: int = 100  # failed authentications from one address within 10 s


class Settings(Struct, frozen=True, kw_only=True):
    """All that a server is told."""

    host: str = "127.0.0.1"
    port: int = 7474  # 0: any free one
    auth: tuple[str, ...] = ("token",)  # of token, did; or none
    author: str | None = None  # of commits with the start token
    token_file: Path | None = None
    start_token: bool = True
    operators: tuple[str, ...] = ()  # dids
    open_creation: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    retrieval_root: Path | None = None
    grace_seconds: float = 10
    threads: int = 16
    limits: Limits = Limits()
    access_log: str = "-"


def limits_of(given: Sequence[str]) -> Limits:
    """Return the limits with those that are given as NAME=VALUE."""
    known = {field.name: field.type for field in structs.fields(Limits)}
    made: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        kind = known.get(name)
        if kind is None:
            raise InvalidInput(f"there is no limit {name!r:.80}; there are {', '.join(known)}")
        try:
            made[name] = kind(value)
        except ValueError:
            raise InvalidInput(f"the limit {name} is a number, not {value!r:.80}") from None
        if not 0 < made[name] <= _LIMIT_MAX:
            raise InvalidInput(f"the limit {name} must be above 0")
    return Limits(**made)


def check_settings(settings: Settings) -> None:
    """Check what can be told without a socket or a store; above all that nobody can listen in."""
    ways = settings.auth
    if len(set(ways)) != len(ways) or not (
        ways == ("none",) or (ways and set(ways) <= {"token", "did"})
    ):
        raise InvalidInput("--auth is token, did, token,did or none")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InvalidInput("--tls-cert and --tls-key go together; name both")
    if settings.token_file is not None and not settings.start_token:
        raise InvalidInput(
            "--token-file keeps the start token, and --no-start-token makes none; leave out one"
        )
    for did in settings.operators:
        check_did(did)
    if settings.author is not None:
        check_author(settings.author)
    if not _is_loopback(settings.host):
        if ways == ("none",):
            raise InvalidInput(
                f"--auth none lets everybody in, so it is for loopback, not {settings.host}"
            )
        if settings.tls_cert is None and not settings.behind_proxy:
            raise InvalidInput(
                f"others can listen in on {settings.host}: name --tls-cert and --tls-key, or"
                " --behind-proxy if a proxy does TLS"
            )


def _is_loopback(host: str) -> bool:
    """Whether an address, or every address of a name, is of this machine alone."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ip_address(str(each[4][0]).partition("%")[0]).is_loopback for each in found)
