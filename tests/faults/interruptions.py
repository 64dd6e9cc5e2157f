"""Interruptions at a moment that a test chooses, as signals bring them."""

import sys
from types import CodeType, FrameType


def interrupt_before(code: CodeType, error: BaseException, *, skipped: int = 0) -> None:
    """Raise once, before the first line of a function that this thread calls next, or after so many calls.

    That is where CPython notices a signal that came while the function was being called.
    """
    left = skipped

    def trace(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if frame.f_code is code:
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise error

    sys.settrace(trace)
