"""Group commit: while one thread waits for the disk, others queue and are committed together next.

    first in the queue  ->  leads: commits all waiting jobs in one transaction and answers them
    others              ->  sleep until they are answered, or until they are first in the queue

A thread that finds the queue empty leads at once, so a single writer pays for no hand-over.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

from rote.engines import OutcomeUnknown
from rote.engines.inside import Inside
from rote.kernel.committing.jobs import Job, fail
from rote.values.limits import GROUP_MAX, WAKE_SECONDS_MAX

# Returns the jobs that have joined the queue since the last call.
Take = Callable[[], Sequence[Job]]


class CommitQueue:
    """The jobs of one space that wait to be committed."""

    def __init__(self, lead: Callable[[Take], None]) -> None:
        self._lead = lead
        self._mutex = threading.Lock()
        self._queue: deque[Job] = deque()
        self._leader: Job | None = None
        self._inside = Inside()
        self._taken: list[Job] = []  # the jobs that the leader commits, from the head of the queue

    def run(self, job: Job) -> None:
        """Commit the job, or wait until another thread has; return when it has an answer."""
        inside = self._inside
        if inside.block is not None:
            inside.refuse()  # a commit inside a commit of this thread would wait for itself
        inside.block = sys._getframe()
        try:
            with self._mutex:
                self._queue.append(job)
                leads = len(self._queue) == 1
                if not leads:
                    job.signal = threading.Lock()
                    job.signal.acquire()
            interruption = None if leads else self._wait(job)
            if leads or not job.answered:
                self._lead_queue(job)
        except BaseException:
            # An interruption can come at any point; a job that leaves must not block the queue.
            self._leave(job)
            raise
        finally:
            inside.block = None
        if interruption is not None:
            raise interruption

    def _lead_queue(self, leader: Job) -> None:
        taken = self._taken = []
        self._leader = leader
        try:
            self._lead(self._take)
        finally:
            if not taken:
                taken.append(leader)  # the other jobs are untouched: the next of them leads
            for job in taken:
                if not job.answered:
                    # Only an interruption leaves a job without an answer. Errors of the others
                    # may then rest on commits that did not happen, so they are replaced too.
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
        """Remove these jobs from the queue; wake their threads and that of the next leader."""
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
        """Remove an interrupted job and all answered jobs; the next one leads."""
        with self._mutex:
            if self._leader is job:
                self._leader = None
            answered = [other for other in self._queue if other.answered and other is not job]
        self._dismiss([job, *answered])

    def _wait(self, job: Job) -> BaseException | None:
        """Sleep until the job is answered or has to lead; return an interruption that came meanwhile.

        The caller raises the interruption later: a job that left the queue while it is being written
        would not learn its outcome. The sleep has a timeout, because a leader that is interrupted may
        fail to wake this thread.
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
