"""Group commit: while one thread waits for the disk, the others line up and go together next.

    first in line  ->  leads: takes everyone behind it into one transaction, answers them all
    others         ->  sleep until answered, or until they are first in line

A thread that finds nobody in line leads at once, so a single writer pays for no hand-over.
"""

import threading
from collections import deque
from collections.abc import Callable

from rote.errors import Unavailable
from rote.kernel.job import Job, fail
from rote.values.limits import GROUP_MAX

# Gives the jobs that have joined since it was last asked.
Take = Callable[[], list[Job]]


class Group:
    """The line of one space."""

    def __init__(self, lead: Callable[[Take], None]) -> None:
        self._lead = lead
        self._mutex = threading.Lock()
        self._line: deque[Job] = deque()

    def run(self, job: Job) -> None:
        """Returns when the job has an answer."""
        with self._mutex:
            self._line.append(job)
            leads = len(self._line) == 1
            if not leads:
                job.signal = threading.Lock()
                job.signal.acquire()
        interruption = None if leads else _wait(job)
        if not job.answered:
            self._lead_line()
        if interruption is not None:
            raise interruption

    def _lead_line(self) -> None:
        taken: list[Job] = []
        try:
            self._lead(lambda: self._take(taken))
        finally:
            if not taken:
                self._take(taken)
            # Only an interruption leaves someone without a result; then what was decided for the
            # others stood on commits that did not happen.
            if not all(job.answered for job in taken):
                interrupted = Unavailable("the writing thread was interrupted; try again")
                fail([job for job in taken if job.result is None], interrupted)
            self._dismiss(taken)

    def _take(self, taken: list[Job]) -> list[Job]:
        if len(self._line) == len(taken):
            return []
        with self._mutex:
            more = list(self._line)[len(taken) : GROUP_MAX]
        taken.extend(more)
        return more

    def _dismiss(self, taken: list[Job]) -> None:
        """Wake everyone who was answered, and the next to lead."""
        with self._mutex:
            for _ in taken:
                self._line.popleft()
            successor = self._line[0] if self._line else None
        for job in taken[1:]:
            assert job.signal is not None
            job.signal.release()
        if successor is not None and successor.signal is not None:
            successor.signal.release()


def _wait(job: Job) -> BaseException | None:
    """Sleep until woken. An interruption is kept for later: a job that left the line would block
    everyone behind it."""
    assert job.signal is not None
    interruption: BaseException | None = None
    while True:
        try:
            job.signal.acquire()
            return interruption
        except BaseException as error:
            interruption = error
