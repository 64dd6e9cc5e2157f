"""The entry point of the `rote` command, and Ctrl-C before and after a command runs."""

import os
import signal
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run the command line.

    The commands are imported here and not above: nothing has begun then that would have to be undone,
    so Ctrl-C ends the process at once. Afterwards the outcome stands, and Ctrl-C comes too late.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        _run()  # interrupts are ignored, as in the background of a shell
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        _run()
    except KeyboardInterrupt:
        _leave()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run() -> None:
    from rote.cli.app import main as run

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(_INTERRUPTED)
