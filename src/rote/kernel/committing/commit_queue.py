"""Group commit: while one thread waits for the disk, the others line up and go together next.

    first in line  ->  leads: takes everyone behind it into one transaction, answers them all
    others         ->  sleep until answered, or until they are first in line

A thread that finds nobody in line leads at once, so a single writer pays for no hand-over.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

from rote.engines import OutcomeUnknown
from rote.engines.inside import Inside
from rote.kernel.committing.jobs import Job, fail
from rote.values.limits import GROUP_MAX, WAKE_SECONDS_MAX

# Gives the jobs that have joined since it was last asked.
Take = Callable[[], Sequence[Job]]


class CommitQueue:
    """The jobs of one space that wait to be committed."""

    def __init__(self, lead: Callable[[Take], None]) -> None:
        self._lead = lead
        self._mutex = threading.Lock()
        self._queue: deque[Job] = deque()
        self._leader: Job | None = None
        self._inside = Inside()
        self._taken: list[Job] = []  # whom the leader has taken along, from the head of the line

    def run(self, job: Job) -> None:
        """Returns when the job has an answer."""
        inside = self._inside
        if inside.block is not None:
            inside.refuse()  # nobody would ever answer it
        inside.block = sys._getframe()
        try:
            with self._mutex:
                self._queue.append(job)
                leads = len(self._queue) == 1
                if not leads:
                    job.signal = threading.Lock()
                    job.signal.acquire()
            interruption = None if leads else self._wait(job)
            if job.result is None and job.error is None:
                self._lead_line(job)
        except BaseException:
            # An interruption can come at any point; whoever leaves must not block the line.
            self._leave(job)
            raise
        finally:
            inside.block = None
        if interruption is not None:
            raise interruption

    def _lead_line(self, leader: Job) -> None:
        taken = self._taken = []
        self._leader = leader
        try:
            self._lead(self._take)
        finally:
            if not taken:
                taken.append(leader)  # nothing has happened to the others: the next of them leads
            for job in taken:
                if job.result is None and job.error is None:
                    # Only an interruption leaves someone without a result; then what was decided
                    # for the others stood on commits that did not happen.
                    fail([job for job in taken if job.result is None], OutcomeUnknown())
            self._leader = None
            self._dismiss(taken)

    def _take(self) -> Sequence[Job]:
        taken = self._taken
        if len(self._queue) == len(taken):
            return ()
        with self._mutex:
            more = list(self._queue)[len(taken) : GROUP_MAX]
        taken += more
        return more

    def _dismiss(self, taken: list[Job]) -> None:
        """Wake everyone who was answered, and the next to lead."""
        with self._mutex:
            if len(taken) == 1 and len(self._queue) == 1 and self._queue[0] is taken[0]:
                self._queue.clear()
                if taken[0].signal is None:
                    return
            gone = {id(job) for job in taken}
            self._queue = deque(job for job in self._queue if id(job) not in gone)
            successor = self._queue[0] if self._queue else None
        for job in taken:
            _call(job)
        if successor is not None:
            _call(successor)

    def _leave(self, job: Job) -> None:
        """Take an interrupted job out, and whoever it has answered; the next one leads."""
        with self._mutex:
            if self._leader is job:
                self._leader = None
            answered = [other for other in self._queue if other.answered and other is not job]
        self._dismiss([job, *answered])

    def _wait(self, job: Job) -> BaseException | None:
        """Sleep until answered, or until it is this job's turn to lead.

        An interruption is kept for later: a job that left the line while it is being written would
        not hear what became of it. Looking up now and then makes up for a call that was lost when
        its caller was interrupted.
        """
        assert job.signal is not None
        interruption: BaseException | None = None
        while True:
            try:
                job.signal.acquire(timeout=WAKE_SECONDS_MAX)
            except BaseException as error:
                interruption = error
            if job.answered or self._is_next(job):
                return interruption

    def _is_next(self, job: Job) -> bool:
        with self._mutex:
            return self._leader is None and bool(self._queue) and self._queue[0] is job


def _call(job: Job) -> None:
    """Wake a waiting job: it has an answer, or has to lead."""
    if job.signal is not None:
        try:
            job.signal.release()
        except RuntimeError:
            return  # awake already
