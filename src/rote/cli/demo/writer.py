"""A process that commits without end and says so after each commit, until it is killed.

One line for each acknowledged commit: its version and hash. Run as `python -m` with the store's path.
"""

import os
import sys
from itertools import count

from rote.errors import RoteError
from rote.opening import open as open_store

SPACE = "default"


def write(path: str) -> None:
    with open_store(path, author="writer") as store:
        space = store.space(SPACE)
        for number in count(1):
            commit = space.set(f"urn:entity:step:{number}", {"step": number})
            # Written to the pipe in one piece, so that no line is buffered or cut.
            os.write(sys.stdout.fileno(), f"{commit.version} {commit.hash}\n".encode())


if __name__ == "__main__":
    try:
        write(sys.argv[1])
    except (BrokenPipeError, RoteError):
        pass  # the story has ended: nobody reads the pipe, or the folder is gone
