"""A commit whose caller looks once more, while nobody else can write, whether all still holds."""

from msgspec import Struct

from rote.contract import Holds
from rote.engines import Contended
from rote.errors import Conflict
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, Prepared
from rote.kernel.committing.read_checks import find_conflicts, find_erased
from rote.kernel.log.branches import writable


class Assuring(Struct):
    """Asks under the lock. The newest version is in the store then: it is alone in its draft."""

    holds: Holds

    def prepare(self, draft: Draft, job: Job) -> Prepared:
        if not draft.locked:
            raise Contended()
        branch = writable(draft.space.branches, job.branch)
        ids = [read.id for read in job.reads if read.id is not None and read.branch == job.branch]
        current = draft.look_up(job.branch, list(dict.fromkeys(ids)))
        conflicts = find_conflicts(draft, job.reads, branch=job.branch, current=current)
        conflicts += find_erased(draft, job)
        conflicts += tuple(self.holds(draft.version))
        if conflicts:
            raise Conflict(conflicts)
        return Prepared(branch)
