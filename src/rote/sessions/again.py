"""Commits that a function makes again, each time the last one was rejected by a Conflict.

    made ──> rejected ──> the view holds what it was rejected at ──> made again ──> …

The functions are the user's, so they run on a thread of their own, and no lock is held meanwhile.
"""

import threading
from collections.abc import Callable

from rote.errors import Conflict, Unavailable, Withdrawn
from rote.sessions.pending import Fate, Maker
from rote.sessions.replica import Replica


class Again:
    """The functions of one session; their thread begins with the first of them."""

    def __init__(self, replica: Replica, *, name: str) -> None:
        self._replica = replica
        self._changed = replica.changed
        self._name = name
        self._thread: threading.Thread | None = None

    def apply(
        self, make: Callable[[Maker, Fate | None], Fate | None], attempts: int
    ) -> Fate | None:
        """Call a function for the first time; return what it has made, None when it wrote nothing."""
        self._replica.check_process()
        self._start()
        for left in reversed(range(attempts)):
            maker = Maker(make, left)
            try:
                return make(maker, None)
            except Conflict:  # with a commit of another thread
                if left == 0:
                    raise
        return None

    def _start(self) -> None:
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._make_again, name=f"rote-session-{self._name}", daemon=True
                )
                self._thread.start()

    def _make_again(self) -> None:
        while (fate := self._next()) is not None:
            error: BaseException | None
            try:
                error = self._make_one(fate)
            except BaseException as failed:  # of the user's function: whoever waits gets it
                error = failed
            self._replica.made_again(fate, error)

    def _next(self) -> Fate | None:
        """Wait for a commit that is to be made again, on a view that holds why; None at the end."""
        replica = self._replica
        with self._changed:
            while replica.state != "ended":
                fate = replica.next_to_make_again()
                if fate is not None:
                    return fate
                self._changed.wait()
            return None

    def _make_one(self, fate: Fate) -> BaseException | None:
        """Make a commit again; return why that cannot be."""
        maker = fate.maker
        while maker is not None and maker.attempts > 0:
            maker.attempts -= 1
            try:
                if maker.make(maker, fate) is None:
                    return Withdrawn("its function has nothing to write any more")
                return None
            except Conflict as error:
                if maker.attempts == 0:
                    return error
            except Unavailable:
                if maker.attempts == 0 or not self._await_line():
                    raise
        return Withdrawn("it was taken back before it was made again")

    def _await_line(self) -> bool:
        """Wait until the line is up: what a function reads may not be held. False when the session ends."""
        replica = self._replica
        with self._changed:
            while replica.state not in ("online", "ended"):
                self._changed.wait()
            return replica.state == "online"
