"""The other process of `watch/writer`: python -m bench.watchers PATH SPACE WATCHERS STALLED

Watches until its standard input says something.
"""

import os
import sys
import threading

import rote


def main(path: str, name: str, count: int, stalled: int) -> None:
    begun = threading.Barrier(count + 1)
    space = rote.open(path).space(name)
    for number in range(count):
        is_stalled = number < stalled
        threading.Thread(target=watch, args=(space, begun, is_stalled), daemon=True).start()
    begun.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    os._exit(0)  # in the middle of whatever they do


def watch(space: rote.Space, begun: threading.Barrier, is_stalled: bool) -> None:
    frames = space.watch({"select": {"*": {}}, "max_entities": 100_000})
    next(frames)
    begun.wait()
    if is_stalled:
        threading.Event().wait()
    for _ in frames:
        pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
