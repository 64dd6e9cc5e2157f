"""Who asks: the principal of a request, by its Authorization or its signature."""

from hmac import compare_digest

from rote.access.principals import Principal
from rote.errors import Denied
from rote.server.messages import Head
from rote.server.settings import Settings


class Authentication:
    """Finds the principal of a request. Its calls run on the pool."""

    def __init__(self, settings: Settings, *, start_token: str | None) -> None:
        self._start_token = None if start_token is None else start_token.encode()
        self._operator = Principal("operator", settings.author, is_operator=True)
        self._is_open = settings.auth == ("none",)

    def principal(self, head: Head) -> Principal:
        """Return who asks; Denied with the code `unauthenticated` when that is not shown."""
        if self._is_open:
            return self._operator
        given = head.all(b"authorization")
        if not given:
            raise _unauthenticated("missing")
        token = given[0].removeprefix(b"Bearer ")
        if self._start_token is None or not compare_digest(token, self._start_token):
            raise _unauthenticated("token")
        return self._operator

    def check_body(self, head: Head, digest: bytes) -> None:
        """Check the body of a signed request by its SHA-256, and note that its nonce was used."""


def _unauthenticated(reason: str) -> Denied:
    return Denied("show who you are: send a token", code="unauthenticated", reason=reason)
