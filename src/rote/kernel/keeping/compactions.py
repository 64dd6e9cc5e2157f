"""Compacting: one commit drops history below a version, except the facts that are still needed.

That version is the horizon. The steps, all in one transaction:

    1  snapshots   each fact that is kept up to the horizon gets the whole value after it, because
                   the facts to replay it from will be gone
    2  drops       the other facts below the horizon, and commits that have neither a key nor an event
    3  digest      of all that is left up to the horizon; signed, it proves what the dropped hashes did
    4  indexes     are dropped, and built again from what is left when they are asked

Afterwards vectors of texts that no state has any more are dropped, and the files get smaller.

Each step walks all facts up to the horizon in the order of entities and holds one page of them.
log/foundations.py says which facts are kept, and why they suffice. Frozen: the event and the
checkpoint, docs/formats/chain.md and checkpoint.md.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

from msgspec import Struct, structs

from rote.contract import Caller, Compaction, Tell
from rote.contract.commands import Compact
from rote.contract.operations import PATCH
from rote.engines import Abandoning, Contended, Reader, Writer
from rote.engines.rows import MAIN, FactPlace, FactRow, HeadRow, Line
from rote.errors import Corrupt, InvalidInput, Unavailable, VersionNotFound
from rote.kernel.committing.commits import commit_task
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, Prepared
from rote.kernel.keeping import checkpoints
from rote.kernel.keeping.declared_sides import refuse_below_pins
from rote.kernel.keeping.erasures import ROOM, note_of
from rote.kernel.keeping.vectors import sweep_vectors
from rote.kernel.log.entries import entry_of
from rote.kernel.log.events import SpaceCompacted, compactions_above
from rote.kernel.log.foundations import (
    HORIZON,
    Foundation,
    commits_below,
    facts_at,
    foundation_of,
    horizon_record,
    judged,
    lines_to_keep,
    standing,
)
from rote.kernel.log.page_sizes import next_page, size_of
from rote.kernel.log.seals import COMPACTION
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import Identity, Json, canonical, digest
from rote.values.limits import PAGE_MAX


class Aim(Struct, frozen=True):
    """The wanted horizon of a compaction: a version, or a number of commits to keep."""

    before: int | None
    keep: int | None

    def call(self) -> dict[str, Json]:
        """Return the members of the call that its key stands for."""
        return {"keep": self.keep} if self.before is None else {"before": self.before}

    def horizon(
        self, reads: Reader, space: int, earlier: Foundation | None, *, newest: int
    ) -> int | None:
        """Return the version of the horizon; None when there is nothing below it."""
        oldest = 1 if earlier is None else earlier.before
        before = self.before or _horizon_keeping(
            reads, space, self.keep or 1, oldest=oldest, newest=newest
        )
        if before == oldest and (self.before is None or newest):
            return None
        if before > newest:
            raise VersionNotFound(before, newest=newest)
        if before < oldest:
            raise InvalidInput(
                f"the space was compacted before version {oldest} already;"
                f" name a version from {oldest} to {newest}",
                before=before,
                oldest=oldest,
            )
        return before


def aim_of(before: int | None, keep: int | None) -> Aim:
    if (before is None) == (keep is None):
        raise InvalidInput("compact takes `before` or `keep`: one of them, and not both")
    for name, number in (("before", before), ("keep", keep)):
        if number is not None and (type(number) is not int or number < 1):
            raise InvalidInput(f"`{name}` of a compaction is an integer from 1 on")
    return Aim(before, keep)


def _horizon_keeping(reads: Reader, space: int, keep: int, *, oldest: int, newest: int) -> int:
    """Return the highest version from which on `keep` commits are no compactions.

    Return `oldest` when there are fewer.
    """
    compactions = [row.version for row in compactions_above(reads, space, after=oldest - 1)]
    last = newest
    for version in reversed(compactions):
        if keep <= last - version:
            break
        keep -= last - version
        last = version - 1
    return max(last - keep + 1, oldest)


class Compacting(Struct):
    """Drop history below a horizon, and sign what is left."""

    aim: Aim
    identity: Identity
    now: int
    shared_now: int  # by the clock that leases go by
    tell: Tell
    facts: int = 0  # that were dropped
    commits: int = 0  # that were dropped
    earlier: Foundation | None = None  # that the space stands on, when there was nothing to do
    before: int = 0  # the horizon

    def prepare(self, draft: Draft, job: Job) -> Prepared | None:
        if not draft.locked:
            raise Contended()
        space, writes = draft.space, draft.reads
        earlier = foundation_of(writes.rows, writes.number)
        before = self.aim.horizon(writes.rows, writes.number, earlier, newest=draft.version)
        if before is None:
            self.earlier = earlier
            return None
        self.before = before
        refuse_below_pins(writes, before=self.before, now=self.shared_now)
        version = draft.version + 1
        shrunk = shrink(writes, before=self.before, version=version, tell=self.tell)
        self.facts, self.commits = shrunk.facts, shrunk.commits
        checkpoint = checkpoints.sign(
            space.did,
            self.identity,
            _horizon_head(writes, self.before),
            now=max(self.now, draft.at),
            state=shrunk.state,
            prior=None if earlier is None else digest(earlier.checkpoint),
        )
        fence = 1 if earlier is None else earlier.fence + 1
        foundation = Foundation(self.before, version, checkpoint, fence)
        draft.sides[(COMPACTION, HORIZON)] = horizon_record(space.did, foundation)
        event = {"type": "compact", "before": self.before, "checkpoint": checkpoint}
        return Prepared(space.branches.row(MAIN), canonical(event), oldest=self.before)


def compact(space: OpenSpace, command: Compact, tell: Tell, caller: Caller) -> Compaction:
    """Compact a space, and make its files smaller; in a dry run only count what would be dropped."""
    aim, wiring = aim_of(command.before, command.keep), space.wiring
    if command.dry_run:
        return foresee(space.reader(), aim, tell)
    signer = checkpoints.signer(space, wiring.keys)
    task = Compacting(aim, signer, wiring.now(), wiring.shared_now(), _told_here(tell))
    call: dict[str, Json] = {"name": "compact", **aim.call()}
    made = commit_task(space, task, "main", command, call=call, caller=caller)
    if made is None:
        return _nothing(task.earlier)
    is_shrunk = give_room_back(space)
    assert made.event is not None
    checkpoint, before = made.event["checkpoint"], made.event["before"]
    return Compaction(made, checkpoint, task.facts, task.commits, before, is_shrunk)


def _told_here(tell: Tell) -> Tell:
    """Return a Tell that is silent on other threads: one of them may lead the queue of commits, and
    must not call, nor fail by, what another thread brought."""
    here = threading.get_ident()

    def told(what: str, done: int, total: int) -> None:
        if threading.get_ident() == here:
            tell(what, done, total)

    return told


def foresee(reads: SpaceReader, aim: Aim, tell: Tell) -> Compaction:
    """Return the outcome that a compaction would have; nothing is written."""
    return reads.steadily(None, lambda newest: _foreseen(reads, aim, tell, newest=newest))


def _foreseen(reads: SpaceReader, aim: Aim, tell: Tell, *, newest: int) -> Compaction:
    space = reads.number
    earlier = foundation_of(reads.rows, reads.number)
    before = aim.horizon(reads.rows, space, earlier, newest=newest)
    if before is None:
        return _nothing(earlier)
    lines = lines_to_keep(reads.graph(), reads.rows, space, reads.space.branches, before=before)
    _, total = reads.rows.counts(space, until=before - 1)
    verdicts = _verdicts(reads.rows, space, lines, "keeping", before=before, total=total, tell=tell)
    facts = sum(not stays for _, stays in verdicts)
    commits = sum(
        row.key is None and row.event is None
        for row in commits_below(reads.rows, reads.number, before=before - 1)
    )
    checkpoint = None if earlier is None else earlier.checkpoint
    return Compaction(None, checkpoint, facts, commits, before)


def _nothing(foundation: Foundation | None) -> Compaction:
    if foundation is None:
        return Compaction(None, None, 0, 0, 1)
    return Compaction(None, foundation.checkpoint, 0, 0, foundation.before)


def give_room_back(space: OpenSpace) -> bool:
    """Drop vectors of texts that are gone, and make the files smaller; return whether that was possible.

    When others use the files, or own them, a note is written, and gc does it later.
    """
    with suppress(Unavailable):  # someone reads, or there is too little room to write files anew
        sweep_vectors(space)
        if space.engine.scrub().is_whole:
            return True
    with suppress(Unavailable):
        _note_room(space)
    return False


def _note_room(space: OpenSpace) -> None:
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        rows.put_side(space.number, note_of(SpaceWriter(space, rows), ROOM, space.known))


def follow_compaction(writes: SpaceWriter, compacted: SpaceCompacted, version: int) -> bool:
    """Do in a copy what the compact commit at `version` did in the source; return whether it shrank.

    Raise InvalidInput when what is left is not what the source has signed.
    """
    earlier = foundation_of(writes.rows, writes.number)
    foundation = Foundation(
        compacted.before,
        version,
        compacted.checkpoint,
        1 if earlier is None else earlier.fence + 1,
    )
    if not 1 <= compacted.before < version:
        raise InvalidInput("it compacts what is not there yet")
    if earlier is not None and compacted.before <= earlier.before:
        # The copy began with a foundation of the source. This commit made it, or came before it.
        if compacted.before == earlier.before and foundation.body() != earlier.body():
            raise InvalidInput("it is not the compaction that this copy stands on")
        return False
    shrunk = shrink(
        writes,
        before=compacted.before,
        version=version,
        tell=lambda phase, done, total: None,
    )
    faults = checkpoints.faults_of_horizon(
        writes, compacted.checkpoint, before=compacted.before, state=shrunk.state
    )
    prior = None if earlier is None else digest(earlier.checkpoint)
    if compacted.checkpoint["prior"] != prior:
        faults.append("it does not name the compaction before it")
    if faults:
        raise InvalidInput(faults[0])
    writes.rows.put_side(writes.number, horizon_record(writes.space.did, foundation))
    return True


# -- the work --------------------------------------------------------------------------------------


class Shrunk(Struct, frozen=True):
    state: str  # the digest of what is left up to the horizon
    facts: int  # that were dropped
    commits: int  # that were dropped


def shrink(writes: SpaceWriter, *, before: int, version: int, tell: Tell) -> Shrunk:
    """Keep up to the horizon only what is needed from there on.

    `before` is the horizon, `version` that of the compact commit.
    """
    rows, space = writes.rows, writes.number
    lines = lines_to_keep(writes.graph(), rows, space, writes.space.branches, before=before)
    commits, total = rows.counts(space, until=before - 1)
    verdicts = partial(_verdicts, rows, space, lines, before=before, total=total, tell=tell)
    _snapshot(writes, (place for place, stays in verdicts("keeping") if stays), before)
    _snapshot_horizon(writes, before)
    facts = _drop(rows, space, (place for place, stays in verdicts("dropping") if not stays))
    rows.drop_commits(space, before=before - 1)
    for index in rows.indexes(space):
        rows.drop_derived(space, index)
    left = standing(rows, space, writes.space.branches, before=before, version=version)
    return Shrunk(left.state, facts, commits - left.commits)


def _verdicts(
    reads: Reader,
    space: int,
    lines: list[Line],
    phase: str,
    *,
    before: int,
    total: int,
    tell: Tell,
) -> Iterator[tuple[FactPlace, bool]]:
    """Yield every place below the horizon and whether its fact is kept; report progress."""
    for number, verdict in enumerate(judged(reads, space, lines, before=before), start=1):
        if number % PAGE_MAX == 0:
            tell(phase, number, total)
        yield verdict
    tell(phase, total, total)


def _snapshot(writes: SpaceWriter, places: Iterator[FactPlace], before: int) -> None:
    """Replace the operations of each patch at these places by the value after it."""
    page: list[FactRow] = []
    wanted = 1
    for fact in facts_at(writes.rows, writes.number, places, until=before - 1):
        if fact.op != PATCH or fact.salt is None or fact.body is None:
            continue
        page.append(structs.replace(fact, body=None, value=_value_of(writes, fact)))
        if len(page) >= wanted:
            writes.rows.rewrite_facts(writes.number, page)
            wanted = next_page(wanted, sum(size_of(row) for row in page))
            page = []
    if page:
        writes.rows.rewrite_facts(writes.number, page)


def _snapshot_horizon(writes: SpaceWriter, before: int) -> None:
    """Give the last patch of each entity in the commit at the horizon its value, and no other patch."""
    facts = writes.rows.facts(writes.number, after=before - 1, until=before)
    last = {fact.id: fact.index for fact in facts}
    for fact in facts:
        if fact.op == PATCH and fact.salt is not None:
            is_last = last[fact.id] == fact.index
            value = _value_of(writes, fact) if is_last else None
            if value != fact.value:
                writes.rows.rewrite_facts(writes.number, [structs.replace(fact, value=value)])


def _value_of(reads: SpaceReader, fact: FactRow) -> bytes:
    line = reads.space.branches.line_of(fact.branch, fact.version)
    return entry_of(reads.rows, reads.number, fact, line).canonical_value()


def _drop(writes: Writer, space: int, places: Iterator[FactPlace]) -> int:
    dropped = 0
    while page := list(islice(places, PAGE_MAX)):
        writes.drop_facts(space, page)
        dropped += len(page)
    return dropped


def _horizon_head(reads: SpaceReader, before: int) -> HeadRow:
    rows = reads.rows.commits(reads.number, after=before - 1, limit=1)
    if not rows or rows[0].version != before:
        raise Corrupt(f"commit {before} is missing; run `rote verify`")
    return HeadRow(before, rows[0].hash, rows[0].at)
