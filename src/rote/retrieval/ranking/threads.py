"""Threads: memories of one store that belong together, in an order of their own."""

from array import array
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from rote.retrieval.details import Details


class Rows(Protocol):
    """The memories that may be in threads, as columns."""

    details: list[Details | None]
    instants: "array[int]"

    def rows(self) -> Iterable[int]: ...


class Place(Struct, frozen=True, gc=False):
    """The place of a memory in its thread."""

    thread: list[int]  # the rows of the thread, in order
    index: int


# The places of all rows that are in a thread.
Threads = dict[int, Place]


def threads_of(corpus: Rows) -> Threads:
    """Return the threads of a corpus: by turn, then by time (missing first), then as they were read."""
    threads: dict[str, list[int]] = {}
    turns: dict[int, int | float] = {}
    for row in corpus.rows():
        details = corpus.details[row]
        if details is not None and (thread := details.thread) is not None:
            threads.setdefault(thread, []).append(row)
            turns[row] = details.turn
    instants = corpus.instants
    for rows in threads.values():
        rows.sort(key=lambda row: (turns[row], instants[row]))
    return {row: Place(rows, index) for rows in threads.values() for index, row in enumerate(rows)}
