"""Calls from inside a call of the same thread: by a signal handler, or by what the call calls."""

import sys
import threading
from types import FrameType

from rote.errors import Busy


class Inside(threading.local):
    """Where a thread is at work that must not be begun again before it has ended.

    Whether it still is there, its stack says: a thread that was thrown out, wherever that happened,
    is not inside any more.
    """

    block: FrameType | None = None

    def refuse(self) -> None:
        """Busy when this thread is inside."""
        if self.block is not None and self.is_inside():
            raise Busy("called from inside a commit of the same thread; call it afterwards")

    def is_inside(self) -> bool:
        block = self.block
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame is block:
                return True
            frame = frame.f_back
        return False
