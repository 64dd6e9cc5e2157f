"""The entry point of the `rote` command, and Ctrl-C before and after a command runs."""

import os
import signal

_INTERRUPTED = 130


def main() -> None:
    """Run the command line.

    The commands are imported here and not above: nothing has begun then that would have to be undone,
    so Ctrl-C ends the process at once. After the command its outcome stands, and Ctrl-C is too late.
    """
    try:
        from rote.cli.app import main as run

        run()
    except KeyboardInterrupt:
        os.write(2, b"error: interrupted\n")
        os._exit(_INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
