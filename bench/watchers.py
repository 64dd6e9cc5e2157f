"""The other process of `watch/writer`: python -m bench.watchers PATH SPACE WATCHERS STALLED PARTS

Each watcher watches one of the parts of the notes, or all notes when there is one part, until
something arrives on the standard input.
"""

import os
import sys
import threading

import rote


def main(path: str, name: str, count: int, stalled: int, parts: int) -> None:
    begun = threading.Barrier(count + 1)
    space = rote.open(path).space(name)
    for number in range(count):
        prefix = "urn:note:*" if parts == 1 else f"urn:note:{number % parts:07d}*"
        is_stalled = number < stalled
        threading.Thread(target=watch, args=(space, prefix, begun, is_stalled), daemon=True).start()
    begun.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    os._exit(0)  # watchers may be in the middle of a frame


def watch(space: rote.Space, prefix: str, begun: threading.Barrier, is_stalled: bool) -> None:
    frames = space.watch({"select": {prefix: {}}, "max_entities": 100_000})
    next(frames)
    begun.wait()
    if is_stalled:
        threading.Event().wait()
    for _ in frames:
        pass


if __name__ == "__main__":
    place, space_name, *numbers = sys.argv[1:]
    main(place, space_name, *map(int, numbers))
