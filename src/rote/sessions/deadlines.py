"""Deadlines: until when a call waits."""

import time
from threading import TIMEOUT_MAX


def deadline_of(timeout: float | None) -> float | None:
    """Return the time of `time.monotonic` at which a wait is over; None when it has no end.

    timeout  seconds; None, or more than the system can count: for ever
    """
    return None if timeout is None or timeout > TIMEOUT_MAX else time.monotonic() + timeout
