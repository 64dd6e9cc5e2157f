"""Links: how the client of a session talks to the desk that decides its commits.

    linker.connect(opening) ──> link ── send(request) ──────> answered once each, in any order but that
                                     <── receive() ──────────  verdicts come in local order, and each
                                                               before the first step that shows it

A link in the process and one over `/v1/sync` do the same (testing.link_suite). A link mends nothing:
when it ends, the session above decides whether to connect again.
"""

from typing import Literal, Protocol

from msgspec import Struct

from rote.contract import sync as wire
from rote.contract.verdicts import Verdict
from rote.errors import RoteError, Unavailable

LinkRequest = wire.Transact | wire.Abandon | wire.Ack | wire.WatchRequest | wire.CloseSession

# What to do after a link has ended: connect again at once, or later with growing pauses; connect once
# more with a new grant, and then stop; or stop.
Then = Literal["back", "later", "auth", "stop"]


class Decided(Struct, frozen=True):
    """The answer to Transact or Abandon: the verdict on its local."""

    id: int
    verdict: Verdict


class Done(Struct, frozen=True):
    """The answer to any other request."""

    id: int
    version: int | None = (
        None  # to watch requests: what the other watches had to say up to it was sent
    )


class Refused(Struct, frozen=True):
    """The answer to a request that changed nothing. A commit was not decided: send it again."""

    id: int
    error: RoteError


# A step comes whole: `more` is False, and positions are those in all its states. Revoked and Closing
# announce the end.
Message = Decided | Done | Refused | wire.Sync | wire.Revoked | wire.Closing


class Link(Protocol):
    """A session on its way to its desk. Any thread may send and close, one receives."""

    @property
    def opened(self) -> wire.Opened:
        """The answer to the opening; its verdicts come before all others."""
        ...

    def send(self, request: LinkRequest) -> int:
        """Send a request and return its id, which its answer has, too. It never waits for the answer.

        Busy when LINK_COMMITS_MAX commits or LINK_REQUESTS_MAX other requests are unanswered: receive
        first. InvalidInput for what cannot be sent. Unavailable when the link has ended.
        """
        ...

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message; None when none came within `timeout` seconds.

        At most SYNC_WINDOW steps come before one of them is acknowledged by Ack.to. Unavailable when the
        link has ended; details.then is what to do, see `Then`.
        """
        ...

    def close(self) -> None:
        """End the link, and the wait of its receiver. The session stays; nothing else is decided here."""
        ...


class Linker(Protocol):
    """Makes links to the sessions of a store. Any thread may ask."""

    def connect(self, opening: wire.OpenSession) -> Link:
        """Open a session, or go on with one; `auth` is added here, where it is needed.

        Raise what the desk says: SessionRevoked, SessionExpired, Diverged, Denied, NotFound, InvalidInput
        and LimitExceeded are final, Unavailable is not.
        """
        ...


def ended(then: Then, message: str) -> Unavailable:
    """Return the error of a link that has ended."""
    return Unavailable(message, then=then)
