"""What the processes of the record tests do: `python -m tests.faults.record_children append …`."""

import sys

from rote import Memory
from tests.faults.children import NAME, open_store, say, wait_for_the_others

KEY = ("daily_log", "log", "2026-01-01")


def append(place: str, writer: str, times: str) -> None:
    """Append to one record, and say what came of it: how many there were then, and created."""
    memory = Memory(open_store(place).space(NAME))
    wait_for_the_others()
    for number in range(int(times)):
        written = memory.append(*KEY, {"writer": writer, "number": number})
        say(written["entries"], written["created"])


if __name__ == "__main__":
    {append.__name__: append}[sys.argv[1]](*sys.argv[2:])
