"""Interruptions at a moment of a test's choice, as signals bring them."""

import sys
from types import CodeType, FrameType


def interrupt_before(code: CodeType, error: BaseException) -> None:
    """Raise, once, before the first line of a function that this thread calls next: where CPython
    notices a signal that came while the function was being called."""

    def trace(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is code:
            sys.settrace(None)
            raise error

    sys.settrace(trace)
