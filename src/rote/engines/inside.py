"""Detection of a call from inside another call of the same thread, such as by a signal handler."""

import sys
import threading
from types import FrameType

from rote.errors import Busy


class Inside(threading.local):
    """Marks the frame in which a thread does work that must not begin again before it has ended.

    The thread's stack tells whether it is still inside that frame. A thread that an exception threw
    out, at any point, is not inside any more.
    """

    block: FrameType | None = None

    def refuse(self) -> None:
        """Raise Busy when this thread is inside."""
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
