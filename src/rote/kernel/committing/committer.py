"""Making commits durable: one transaction for all waiting jobs, and an answer for each."""

import sys
from contextlib import suppress

from rote.contract import Commit
from rote.engines import Contended, OutcomeUnknown
from rote.engines.inside import Inside
from rote.engines.rows import HeadRow
from rote.errors import Busy, Conflict, RoteError, Unavailable, invariant
from rote.kernel.committing.commit_queue import CommitQueue, Group
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, fail
from rote.kernel.committing.plans import plan
from rote.kernel.log.nonsense import NONSENSE, is_of_caller, unreadable
from rote.kernel.log.outcomes import settle
from rote.kernel.reading.index_upkeep import follow
from rote.kernel.reading.segments import merge_small
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceWriter
from rote.values.limits import CONTENTION_ATTEMPTS_MAX, OPTIMISTIC_ATTEMPTS_MAX

_EMPTY = HeadRow(0, b"", 0)  # the head of a space without commits


class _Undone(RoteError):
    """Raised inside the kernel to roll a transaction back: a task failed and may have written.

    `_answer_next` catches it; callers never see it.
    """

    def __init__(self) -> None:
        super().__init__("a task failed", code=RoteError.code)


class Committer:
    """Commit jobs to one space."""

    def __init__(self, space: OpenSpace) -> None:
        self._space = space
        wiring = space.wiring
        self._wiring = wiring
        prefixes = [index.prefix for index in wiring.indexes.values()]
        prefixes += [index.prefix for index in wiring.packed.values()]
        self._followed = tuple(dict.fromkeys(prefixes))
        self._packed = wiring.packed
        self._unmerged: set[str] = set()  # packed indexes that have got a segment
        # Whether a plan may be made without the lock. It may then draw a salt for an entity that
        # turns out to have one.
        self._presumes = wiring.presumes and wiring.engine.is_remote
        self.queue = CommitQueue()
        self._inside = Inside()

    def commit(self, job: Job) -> Commit:
        """Make a commit durable."""
        commit = self.run(job)
        assert commit is not None
        return commit

    def run(self, job: Job) -> Commit | None:
        """Make a commit durable; None when its task found nothing to commit."""
        # Before any lock: in a forked process the threads that would release it do not exist.
        self._space.engine.check_usable()
        queue, inside = self.queue, self._inside
        if inside.block is not None:
            inside.refuse()  # a commit inside a commit of this thread would wait for itself
        inside.block = sys._getframe()
        try:
            group = queue.join(job)
            if group is not None:
                try:
                    self._answer_all(group)
                finally:
                    queue.hand_back(group)
        except BaseException:
            queue.leave(job)
            raise
        finally:
            inside.block = None
        if self._unmerged:
            self._merge_segments()
        if job.interruption is not None:
            raise job.interruption
        if job.error is not None:
            raise job.error
        invariant(job.answered, "a commit was never answered")
        return job.result

    def _answer_all(self, group: Group) -> None:
        while True:
            self._answer_next(group)
            if len(group.jobs) == 1:
                return
            # A task is alone in its transaction. The jobs behind it are next.
            group.jobs = [job for job in group.jobs if not job.answered]
            if not group.jobs:
                return

    def _answer_next(self, group: Group) -> None:
        """Answer at least the first job of a group, and those that share its transaction."""
        space = self._space
        for attempt in range(CONTENTION_ATTEMPTS_MAX):
            # The first attempts plan without the lock, the later ones with it, so that no job loses
            # every race. A plan without the lock may be of an old state, and draw salts for
            # entities that others have made.
            optimistic = self._presumes and attempt < OPTIMISTIC_ATTEMPTS_MAX
            presumes = self._presumes and attempt == 0 and space.presumes
            try:
                self._write(group, optimistic, presumes)
                return
            except Contended:
                space.presumes = False
                for job in group.jobs:
                    job.error = None
            except _Undone:
                return
            except RoteError as error:
                # It may have failed before any job was taken. Decisions about single jobs, such as
                # conflicts with others in the queue, are void: nothing was committed.
                group.grow()
                fail(group.jobs, error)
                return
        fail(group.jobs, Busy("others commit to this space all the time; try again"))

    def _write(self, group: Group, optimistic: bool, presumes: bool) -> None:
        """Plan all waiting jobs, write them in one transaction, and answer them when it is durable."""
        space = self._space
        draft: Draft | None = None
        answers: list[tuple[Job, Commit | None]] = []
        is_durable = False
        try:
            try:
                with self._space.engine.writer(space.number, optimistic=optimistic) as rows:
                    writes = SpaceWriter(space, rows)
                    head = writes.sync(may_be_old=optimistic) or _EMPTY
                    draft = Draft(
                        space.did,
                        head.version,
                        head.hash or None,
                        head.at,
                        space,
                        writes,
                        head.version,
                        self._followed,
                        not optimistic,
                        presumes,
                    )
                    self._plan(draft, group, answers)
                    if draft.commits:
                        self._append(draft)
            except OutcomeUnknown as error:
                assert draft is not None
                self._settle(draft, error)
            is_durable = True
            self._answer(draft, answers)
        except RoteError:
            raise
        except BaseException:
            self._space.engine.abandon()
            self._answer_interrupted(draft, group.jobs, answers, is_durable)
            raise

    def _plan(self, draft: Draft, group: Group, answers: list[tuple[Job, Commit | None]]) -> None:
        """Plan the waiting jobs and those that join meanwhile. A task is planned alone."""
        planned, jobs, wiring = 0, group.jobs, self._wiring
        while True:
            group.grow()
            if planned == len(jobs):
                return
            for job in jobs[planned:]:
                planned += 1
                if job.task is not None and draft.commits:
                    return
                try:
                    answers.append((job, plan(draft, job, wiring.now(), wiring)))
                except Contended:
                    raise
                except RoteError as error:
                    job.error = error
                    if isinstance(error, Conflict):
                        # A read saw "never written", and others have written it: stop assuming.
                        draft.space.presumes &= all(
                            read.expected_version for read in error.conflicts
                        )
                    if job.task is not None:
                        raise _Undone() from None
                except (TypeError, KeyError, AttributeError) as error:
                    if is_of_caller(error):
                        raise
                    # Nonsense in the rows, a bug of ours, or a command that nobody checked: it fails
                    # its own job alone.
                    job.error = unreadable(error)
                    if job.task is not None:
                        raise _Undone() from None
                if job.task is not None and draft.commits:
                    return

    def _append(self, draft: Draft) -> None:
        number, rows = draft.space.number, draft.reads.rows
        draft.write(rows, number)
        for blob in draft.blobs.values():
            rows.put_blob(number, blob)
        if draft.voids_indexes:
            return
        if draft.changes or draft.version >= draft.space.covered.due:
            draft.coverage = follow(
                draft.reads, draft.changes, before=draft.base, after=draft.version
            )

    def _answer(self, draft: Draft, answers: list[tuple[Job, Commit | None]]) -> None:
        if draft.commits:
            assert draft.hash is not None
            space = draft.space
            branch = next(iter(draft.branches.values())) if draft.branches else None
            space.committed(
                draft.base,
                draft.version,
                draft.entries,
                hash=draft.hash,
                presumed=draft.presumed,
                branch=branch,
                erased=draft.erased,
                oldest=draft.oldest,
            )
            space.presumes |= draft.found_new
            if draft.presumed:
                for number in draft.proven_ungoverned():
                    space.note_ungoverned(number, draft.version)
            coverage = None if draft.voids_indexes else draft.coverage
            space.followed(draft.base, draft.version, coverage)
            for name, known in draft.coverage.items():
                if known is not None and known.noted == draft.version and name in self._packed:
                    self._unmerged.add(name)
        elif answers:
            # These commits were found in the log; their writer may have died before its sync.
            self._space.engine.harden()
        for job, commit in answers:
            job.result, job.is_unneeded = commit, commit is None

    def _merge_segments(self) -> None:
        """Merge small segments of packed indexes, after the transaction that has added some.

        The commit is durable: nothing that goes wrong here is its outcome. The next one tries again.
        """
        while self._unmerged:
            with suppress(KeyError, RoteError, *NONSENSE):
                merge_small(self._space, self._packed[self._unmerged.pop()])

    def _answer_interrupted(
        self,
        draft: Draft | None,
        jobs: list[Job],
        answers: list[tuple[Job, Commit | None]],
        is_durable: bool,
    ) -> None:
        """Find out whether an interrupted transaction was committed, and answer all jobs by that."""
        refusal = Unavailable(
            "the call that was committing this one was interrupted; nothing was written, try again",
            outcome="not_written",
        )
        try:
            if draft is None or not (is_durable or draft.commits):
                raise refusal
            if not is_durable:
                self._settle(draft, OutcomeUnknown())
            self._answer(draft, answers)
        except RoteError as error:
            fail(jobs, error)
        # Jobs behind a task were not planned, and have no answer yet.
        fail([job for job in jobs if not job.answered], refusal)

    def _settle(self, draft: Draft, error: OutcomeUnknown) -> None:
        settle(
            self._space.engine,
            draft.space.number,
            draft.commits,
            error,
            refusal="the store failed while committing; nothing was written, try again",
        )
