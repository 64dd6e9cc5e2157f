"""Hosts and origins: which names a server answers to, and which pages of a browser may ask it.

A page of another site that makes its name lead here sends that name as Host, and its own as Origin.
"""

from collections.abc import Iterable
from ipaddress import ip_address

from rote.errors import Denied, InvalidInput
from rote.server.messages import Head, Headers
from rote.server.settings import Settings

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_PORTS = {"http": 80, "https": 443}
_MAX_AGE_SECONDS = b"600"
# What a page may send besides what every page may, and may read of an answer.
_SENT = (
    b"authorization, content-type, content-digest, if-match, if-none-match, idempotency-key,"
    b" last-event-id, range, rote-attempt, rote-audience, rote-labels, rote-proofs, signature,"
    b" signature-input, x-request-id"
)
_SHOWN = b"content-range, etag, retry-after, rote-entity-version, rote-erased, rote-request, rote-version"


class Origins:
    """Checks the headers Host and Origin of a server at one address."""

    def __init__(self, settings: Settings, *, host: str, port: int, scheme: str) -> None:
        own = {shown_host(host), shown_host(settings.host)}
        if is_loopback(host) or is_wildcard(host):
            own |= set(_LOOPBACK_NAMES)
        hosts = {f"{name}:{port}" for name in own}
        if port == _PORTS[scheme]:
            hosts |= own
        self._hosts = frozenset(name.lower().encode() for name in hosts)
        self._allowed_hosts = frozenset(name.lower().encode() for name in settings.allow_hosts)
        self._allowed_origins = frozenset(
            origin.lower().encode() for origin in settings.allow_origins if origin != "null"
        )

    def check(self, head: Head) -> Headers:
        """Check who is asked and by which page; return the headers that let the page read the answer.

        InvalidInput with the code `host`, or Denied with the code `origin`.
        """
        host = (head.one(b"host") or b"").lower()
        if not (
            host in self._hosts or host in self._allowed_hosts or _name(host) in self._allowed_hosts
        ):
            raise InvalidInput(
                "this server does not go by that name; ask it by the address that it prints, or start"
                " it with --allow-host NAME",
                code="host",
            )
        origin = (head.one(b"origin") or b"").lower()
        if not origin or origin in (b"http://" + host, b"https://" + host):
            return ()
        if origin not in self._allowed_origins:
            raise Denied(
                "pages of that origin may not ask this server; --allow-origin ORIGIN lets them",
                code="origin",
            )
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _SHOWN),
            (b"vary", b"origin"),
        )


def preflight(methods: Iterable[str]) -> Headers:
    """Return the headers that let an allowed page send a request with these methods."""
    return (
        (b"access-control-allow-methods", ", ".join(methods).encode()),
        (b"access-control-allow-headers", _SENT),
        (b"access-control-max-age", _MAX_AGE_SECONDS),
    )


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_wildcard(address: str) -> bool:
    """Whether an address stands for all of a machine, loopback among them."""
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return False


def shown_host(host: str) -> str:
    """Return a host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _name(host: bytes) -> bytes:
    """Return the name in a Host header, without its port."""
    name, _, port = host.rpartition(b":")
    return name if name and port.isdigit() else host
