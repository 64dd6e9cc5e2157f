"""Waiting for a commit, whoever makes it."""

from rote.contract.commands import AwaitCommit
from rote.errors import InvalidInput
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.watching.wakeups import Wakeups
from rote.values.limits import AWAIT_SECONDS_MAX


def await_commit(space: OpenSpace, command: AwaitCommit) -> int:
    """Return the newest version as soon as it is above `after`, or when the time is over."""
    after, seconds = command.after, command.seconds
    if type(after) is not int or after < 0:
        raise InvalidInput("after: it is a version")
    if type(seconds) not in (int, float) or not 0 <= seconds <= AWAIT_SECONDS_MAX:
        raise InvalidInput(f"seconds: it is a number from 0 to {AWAIT_SECONDS_MAX}")

    def look() -> int:
        head = space.reader().sync()
        return 0 if head is None else head.version

    # What other waiters have seen may be older than `after`.
    newest = look()
    if newest <= after:
        newest = space.part(Wakeups).wait(after, seconds, look)
    return newest
