"""Texts that a did has signed to show itself: requests, and openings of sessions."""

from msgspec import Struct

from rote.access.refusals import unauthenticated
from rote.values import verify_signature
from rote.values.server_limits import SIGNED_AHEAD_SECONDS, SIGNED_SECONDS_MAX


class Signed(Struct, frozen=True, kw_only=True):
    """A text of the right form, with its signature. Nothing of it was compared with anything yet."""

    did: str
    audience: str
    created: int  # seconds since the epoch
    expires: int
    signed: bytes
    signature: bytes

    def check(self, *, now: int, audience: str) -> None:
        """Check times, audience and signature; `now` is in seconds, with any fraction cut off."""
        if self.expires - self.created > SIGNED_SECONDS_MAX:
            raise unauthenticated("too_long")
        if self.created > now + SIGNED_AHEAD_SECONDS:
            raise unauthenticated("not_yet")
        if now >= self.expires:
            raise unauthenticated("expired")
        if self.audience != audience:
            raise unauthenticated("wrong_audience")
        if not verify_signature(self.did, self.signed, self.signature):
            raise unauthenticated("signature")
