"""Settings of a server: what `rote serve` is told, checked, and the limits of requests."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from rote.errors import InvalidInput
from rote.values.limits import GIB, KIB, MIB


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


def limits_of(given: Mapping[str, str]) -> Limits:
    """Return the limits with those that are given by name."""
    known = {field.name: field.type for field in structs.fields(Limits)}
    made: dict[str, int | float] = {}
    for name, text in given.items():
        kind = known.get(name)
        if kind is None:
            raise InvalidInput(f"there is no limit {name!r}; there are {', '.join(known)}")
        try:
            made[name] = kind(text)
        except ValueError:
            raise InvalidInput(f"the limit {name} is a number, not {text!r:.80}") from None
        if not 0 < made[name] < 2**53:
            raise InvalidInput(f"the limit {name} must be above 0")
    return Limits(**made)
