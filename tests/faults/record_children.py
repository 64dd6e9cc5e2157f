"""The processes of the record tests: `python -m tests.faults.record_children <what> …`."""

import sys

from rote import Memory
from tests.faults.children import NAME, open_store, say, wait_for_the_others

KEY = ("daily_log", "log", "2026-01-01")
TOUCHED = ("ops", "counter", "1")


def append(place: str, writer: str, times: str) -> None:
    """Append to one record, and print the number of entries then and whether it was created."""
    memory = Memory(open_store(place).space(NAME))
    wait_for_the_others()
    for number in range(int(times)):
        written = memory.append(*KEY, {"writer": writer, "number": number})
        say(written["entries"], written["created"])


def put_and_touch(place: str, writer: str, times: str) -> None:
    """Put one record and touch another, each time; print whether it was created, and the count."""
    memory = Memory(open_store(place).space(NAME))
    wait_for_the_others()
    for number in range(int(times)):
        written = memory.put(*KEY, {"writer": writer, "number": number})
        touched = memory.touch(*TOUCHED)
        say(touched["access_count"], written["created"])


if __name__ == "__main__":
    {"append": append, "put_and_touch": put_and_touch}[sys.argv[1]](*sys.argv[2:])
