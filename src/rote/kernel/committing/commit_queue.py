"""Group commit: while one thread waits for the disk, others queue and are committed together next.

    first in the queue  ->  leads: gets the waiting jobs as a group, commits it, hands the answers back
    others              ->  sleep until they are answered, or until they are first in the queue

A thread that finds the queue empty leads at once, so a single writer pays for no hand-over.
"""

import threading
from collections import deque

from rote.engines import OutcomeUnknown
from rote.kernel.committing.jobs import Job, fail
from rote.values.limits import GROUP_MAX, WAKE_SECONDS_MAX


class Group:
    """The jobs from the head of the queue that one thread commits."""

    __slots__ = ("_line", "jobs", "leader", "taken")

    def __init__(self, line: "CommitQueue", leader: Job) -> None:
        self._line = line
        self.leader = leader  # the job of the thread that commits
        self.taken: list[Job] = []  # all of them: they leave the queue together
        self.jobs: list[Job] = []  # those of the next transaction: they have no answer yet

    def grow(self) -> None:
        """Take along the jobs that have joined the queue since the last call."""
        line, taken = self._line, self.taken
        if len(line.waiting) == len(taken):
            return
        with line.mutex:
            more = list(line.waiting)[len(taken) : GROUP_MAX]
        taken += more
        self.jobs += more


class CommitQueue:
    """The jobs of one space that wait to be committed.

    A thread calls `join`. If that returns a group, it commits the group and then calls `hand_back`,
    whatever happened. A thread that an exception throws out also calls `leave`, at the very end: an
    interruption can come at any point, and a job that is gone must not block the queue.
    """

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.waiting: deque[Job] = deque()
        self._leader: Job | None = None

    def join(self, job: Job) -> Group | None:
        """Wait until the job is answered and return None, or return the group to commit."""
        with self.mutex:
            self.waiting.append(job)
            leads = len(self.waiting) == 1
            if not leads:
                job.signal = threading.Lock()
                job.signal.acquire()
        if not leads:
            self._wait(job)
            if job.answered:
                return None
        self._leader = job
        return Group(self, job)

    def hand_back(self, group: Group) -> None:
        """Let the threads of a group go with their answers, and the next thread lead."""
        taken = group.taken
        if not taken:
            taken.append(group.leader)  # the other jobs are untouched: the next of them leads
        for job in taken:
            if not job.answered:
                # Only an interruption leaves a job without an answer. Errors of the others
                # may then rest on commits that did not happen, so they are replaced too.
                fail([job for job in taken if job.result is None], OutcomeUnknown())
        self._leader = None
        self._dismiss(taken)

    def leave(self, job: Job) -> None:
        """Remove an interrupted job and all answered jobs; the next one leads."""
        with self.mutex:
            if self._leader is job:
                self._leader = None
            answered = [other for other in self.waiting if other.answered and other is not job]
        self._dismiss([job, *answered])

    def _dismiss(self, taken: list[Job]) -> None:
        """Remove these jobs from the queue; wake their threads and that of the next leader."""
        with self.mutex:
            if len(taken) == 1 and len(self.waiting) == 1 and self.waiting[0] is taken[0]:
                self.waiting.clear()
                if taken[0].signal is None:
                    return
            gone = {id(job) for job in taken}
            self.waiting = deque(job for job in self.waiting if id(job) not in gone)
            successor = self.waiting[0] if self.waiting else None
        for job in taken:
            _call(job)
        if successor is not None:
            _call(successor)

    def _wait(self, job: Job) -> None:
        """Sleep until the job is answered or has to lead; note an interruption that came meanwhile.

        The interruption is raised later: a job that left the queue while it is being written would
        not learn its outcome. The sleep has a timeout, because a leader that is interrupted may
        fail to wake this thread.
        """
        assert job.signal is not None
        while True:
            try:
                job.signal.acquire(timeout=WAKE_SECONDS_MAX)
            except BaseException as error:
                job.interruption = error
            if job.answered or self._is_next(job):
                return

    def _is_next(self, job: Job) -> bool:
        with self.mutex:
            return self._leader is None and bool(self.waiting) and self.waiting[0] is job


def _call(job: Job) -> None:
    """Wake a waiting job: it has an answer, or has to lead."""
    if job.signal is not None:
        try:
            job.signal.release()
        except RuntimeError:
            return  # awake already
