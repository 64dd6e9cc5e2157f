"""The address of a server: what a URL says, and nothing that must not be shown."""

from urllib.parse import urlsplit

from msgspec import Struct

from rote.errors import InvalidInput

_PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """The place of a server."""

    host: str
    port: int
    is_tls: bool
    named: str  # host and port as the URL has them: the header Host

    @property
    def shown(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.named}"


def is_remote(url: object) -> bool:
    """Whether a URL names a server."""
    return isinstance(url, str) and url.partition("://")[0].lower() in _PORTS


def address_of(url: str) -> Address:
    """Return the address in a URL; InvalidInput for more or less than scheme, host and port."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    # The message does not quote the URL, because it may hold a password.
    if not host or "@" in parts.netloc or not parts.netloc.isascii():
        raise InvalidInput(
            "a server is named http://host:port or https://host:port; who asks is said by token= or key="
        )
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InvalidInput(
            "a server is named by its host and port alone; a space is named by store.space(…)"
        )
    return Address(host, port or _PORTS[parts.scheme], parts.scheme == "https", parts.netloc)
