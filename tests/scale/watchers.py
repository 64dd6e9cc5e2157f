"""Many watchers in one process: `python -m tests.scale.watchers <path> <count> <stalled>`.

Some stall after their first frame. When all others have seen the end, the stalled ones go on. Then
the process prints the memory taken since all had begun, and the number of frames that each stalled
watcher needed to reach the end.
"""

import resource
import sys
import threading

from rote.opening import open as open_store
from rote.space import Space
from rote.values.limits import KIB

SPACE, END = "notes", "urn:end"


class Watching(threading.Thread):
    def __init__(self, space: Space, begun: threading.Barrier, goes_on: threading.Event) -> None:
        super().__init__()
        self._space = space
        self._begun = begun
        self._goes_on = goes_on
        self.frames = 0  # after the first

    def run(self) -> None:
        watch = self._space.watch({"select": {"*": {}}})
        next(watch)
        self._begun.wait()
        self._goes_on.wait()
        for frame in watch:
            self.frames += 1
            if any(upsert["id"] == END for upsert in frame["upserts"]):
                return


def memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def main(path: str, count: int, stalled: int) -> None:
    begun, now, later = threading.Barrier(count + 1), threading.Event(), threading.Event()
    now.set()
    with open_store(path, create=False) as store:
        space = store.space(SPACE)
        slow = [Watching(space, begun, later) for _ in range(stalled)]
        others = [Watching(space, begun, now) for _ in range(count - stalled)]
        for thread in (*slow, *others):
            thread.start()
        begun.wait()
        before = memory_bytes()
        say("ready")
        for thread in others:
            thread.join()
        later.set()
        for thread in slow:
            thread.join()
        say(memory_bytes() - before, *(thread.frames for thread in slow))


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
