"""Pass 1 of verify: every commit and fact hash, link, time, snapshot and key row."""

from collections.abc import Iterable, Iterator

from rote.contract.operations import DELETE, PATCH, SET
from rote.engines import Reader
from rote.engines.rows import CommitRow, FactRow, Line, SideRecord
from rote.errors import RoteError
from rote.kernel.log.chain import OPERATION_NAMES, commit_hash, empty_hash, fact_hash
from rote.kernel.log.entries import Entry, apply_stored, entry_of
from rote.kernel.log.events import erased_by, read_event
from rote.kernel.log.page_sizes import next_page, size_of
from rote.kernel.log.seals import KEY
from rote.kernel.proving.erased_fact_checks import UNEXPLAINED, fault_of_erased, left_over
from rote.kernel.proving.inspection import Inspection
from rote.values import canonical, decode_canonical, format_time
from rote.values.canonical import quoted


def inspect_log(inspection: Inspection, reads: Reader) -> None:
    previous = inspection.previous
    page_commits = 1
    while True:
        after = 0 if previous is None else previous.version
        rows = [
            row
            for row in reads.commits(inspection.number, after=after, limit=page_commits)
            if row.version <= inspection.version
        ]
        if not rows:
            break
        facts = reads.facts(inspection.number, after=after, until=rows[-1].version)
        page = _Page(inspection, reads, facts, after)
        for row in rows:
            _inspect_commit(inspection, page, row, previous)
            previous = row
        inspection.commits += len(rows)
        inspection.facts += len(facts)
        inspect_keys(inspection, reads, rows)
        inspect_pointed(inspection, reads, facts)
        inspection.advance()
        page_commits = next_page(page_commits, sum(size_of(fact) for fact in facts))
    found = (inspection.commits, inspection.facts)
    if found != reads.counts(inspection.number, until=inspection.version):
        inspection.fault("log", "there are facts that belong to no commit")
    strays = reads.strays(inspection.number)
    if strays:
        inspection.fault("log", f"{strays} rows lie outside the log")


class _Page:
    """The facts of some commits, and for each the fact before it on its line."""

    def __init__(
        self, inspection: Inspection, reads: Reader, facts: list[FactRow], after: int
    ) -> None:
        self.reads = reads
        self.number = inspection.number
        self.branches = inspection.branches
        self.oldest = inspection.oldest
        self.erasers = inspection.erasers
        self.by_version: dict[int, list[FactRow]] = {}
        self._passed: dict[tuple[int, str], list[FactRow]] = {}
        self._last: dict[tuple[int, str], int] = {}
        for fact in facts:
            self.by_version.setdefault(fact.version, []).append(fact)
            self._last[(fact.version, fact.id)] = fact.index
        self._below = self._load_below(facts, after)

    def _load_below(self, facts: list[FactRow], after: int) -> dict[tuple[int, str], FactRow]:
        """Return the newest facts below the page, by branch and id."""
        wanted: dict[int, dict[str, None]] = {}
        for fact in facts:
            if self.branches.knows(fact.branch):
                wanted.setdefault(fact.branch, {})[fact.id] = None
        return {
            (branch, row.id): row
            for branch, ids in wanted.items()
            for row in self.reads.newest(self.number, list(ids), self._line(branch, after))
        }

    def _line(self, branch: int, version: int) -> Line:
        return self.branches.line(self.branches.name(branch), version)

    def before(self, fact: FactRow) -> FactRow | None:
        """Return the fact before this one on its line; facts are asked for in log order."""
        for branch, cap in self._line(fact.branch, fact.version):
            for other in reversed(self._passed.get((branch, fact.id), ())):
                if other.version <= cap:
                    return other
        return self._below.get((fact.branch, fact.id))

    def passed(self, fact: FactRow) -> None:
        self._passed.setdefault((fact.branch, fact.id), []).append(fact)

    def again(self, fact: FactRow) -> FactRow:
        """Read the fact again; it may have been erased since the page was read."""
        own, after = ((fact.branch, fact.version),), fact.version - 1
        before = (fact.version, fact.index + 1)
        rows = self.reads.history(self.number, fact.id, own, before=before, after=after, limit=1)
        return rows[0] if rows and rows[0].index == fact.index else fact

    def is_last(self, fact: FactRow) -> bool:
        """Whether it is the last fact of its entity in its commit."""
        return self._last[(fact.version, fact.id)] == fact.index

    def entry(self, fact: FactRow) -> Entry:
        return entry_of(self.reads, self.number, fact, self._line(fact.branch, fact.version))


def _inspect_commit(
    inspection: Inspection, page: _Page, row: CommitRow, previous: CommitRow | None
) -> None:
    version = row.version
    facts = page.by_version.get(version, [])
    if version != (1 if previous is None else previous.version + 1):
        inspection.fault("commit", "commits before it are missing", version=version)
    if not inspection.branches.knows(row.branch):
        inspection.fault("commit", "it is on a branch that does not exist", version=version)
        return
    if [fact.index for fact in facts] != list(range(len(facts))):
        inspection.fault("commit", "its facts are not in order", version=version)
    if previous is not None and row.at < previous.at:
        inspection.fault("commit", "it is older than the one before it", version=version)
    for fact in facts:
        _inspect_fact(inspection, page, fact)
        page.passed(fact)
    _inspect_erasure(inspection, page, row)
    if _commit_hash(inspection, row, facts, previous) != row.hash:
        inspection.fault("commit", "its content does not match its hash", version=version)
    try:
        inspection.lineage.follow(
            None if row.event is None else read_event(decode_canonical(row.event)),
            branch=inspection.branches.name(row.branch),
            version=version,
            facts=len(facts),
        )
    except RoteError as error:
        inspection.fault("commit", str(error), version=version)


def _commit_hash(
    inspection: Inspection, row: CommitRow, facts: list[FactRow], previous: CommitRow | None
) -> bytes | None:
    try:
        return commit_hash(
            space=inspection.space.did,
            version=row.version,
            branch=inspection.branches.name(row.branch),
            previous=None if previous is None else previous.hash,
            facts=facts,
            at=format_time(row.at),
            author=row.author,
            key=row.key,
            meta=row.meta,
            event=row.event,
        )
    except RoteError:
        # A time out of range cannot be written down, so it cannot have been hashed.
        return None


def _inspect_erasure(inspection: Inspection, page: _Page, row: CommitRow) -> None:
    for id in erased_by(row):
        left = left_over(page.reads, page.number, page.branches, id, until=row.version)
        if left is not None:
            message = f"version {row.version} erased it, and it has content"
            inspection.fault("fact", message, version=left.version, id=id)


def _inspect_fact(inspection: Inspection, page: _Page, fact: FactRow) -> None:
    faults = _faults_of(page, fact)
    if faults and fact.salt is not None:
        fact = page.again(fact)
        if fact.salt is None:
            faults = _faults_of(page, fact)
    for kind, message in faults:
        inspection.fault(kind, message, version=fact.version, id=fact.id)
    inspection.erased += fact.salt is None


def _faults_of(page: _Page, fact: FactRow) -> list[tuple[str, str]]:
    """Return (kind, message) for each fault."""
    try:
        return list(_found_in(page, fact))
    except RoteError as error:
        return [("fact", str(error))]


def _found_in(page: _Page, fact: FactRow) -> Iterator[tuple[str, str]]:
    before = page.before(fact)
    quoted_id = quoted(fact.id)
    if fact.op not in OPERATION_NAMES:
        yield "fact", "it is no known operation"
        return
    if fact.version == page.oldest and (before is None or before.version < fact.version):
        # The fact before it may have been dropped below the horizon, so its parent cannot be
        # compared. Its hash still covers the parent.
        before = None
    elif fact.parent != (empty_hash(quoted_id) if before is None else before.hash):
        yield "fact", "it does not follow the entity's previous fact"
    if fact.salt is None:
        message = fault_of_erased(page.reads, page.number, fact, page.erasers)
        if message is not None:
            yield "fact", message
        return
    if (fact.body is None) != (fact.op == DELETE):
        yield "fact", UNEXPLAINED
        return
    is_after_erasure = before is not None and before.salt is None
    if is_after_erasure and fact.op != SET:
        yield "fact", "it changes what was erased before it"
    if before is not None and before.salt not in (fact.salt, None):
        yield "fact", "its salt is not the entity's"
    if fact_hash(quoted_id, fact.op, fact.salt, fact.body, fact.parent) != fact.hash:
        yield "fact", "its content does not match its hash"
    # At the horizon the signed digest covers the value of an entity's last patch.
    is_covered = fact.version == page.oldest and fact.op == PATCH and page.is_last(fact)
    if fact.value is not None and not is_covered and fact.value != _replayed(page, fact, before):
        yield "snapshot", "it is not what replaying gives"


def _replayed(page: _Page, fact: FactRow, before: FactRow | None) -> bytes | None:
    if fact.op != PATCH or before is None:
        return None
    entry = page.entry(before)
    return canonical(apply_stored(entry.canonical_value(), [fact])) if entry.exists else None


def inspect_keys(inspection: Inspection, reads: Reader, rows: Iterable[CommitRow]) -> None:
    for row in rows:
        if row.key is None:
            continue
        side = reads.side(inspection.number, KEY, row.key)
        if side is None or version_of_key(side) != row.version:
            inspection.fault(
                "key", "it does not lead to its commit", version=row.version, id=row.key
            )


def version_of_key(row: SideRecord) -> int:
    """Return the version of the commit that a key row leads to; 0 when the row has none."""
    body = decode_canonical(row.body)
    version = body.get("version") if type(body) is dict else None
    return version if type(version) is int else 0


def inspect_pointed(inspection: Inspection, reads: Reader, facts: list[FactRow]) -> None:
    """Report entities without a pointer on the branch, or with a tombstone older than their last fact."""
    newest: dict[int, dict[str, int]] = {}
    for fact in facts:
        newest.setdefault(fact.branch, {})[fact.id] = fact.version
    for branch, ids in newest.items():
        pointed = {row.id: row for row in reads.pointers(inspection.number, branch, list(ids))}
        for id, version in ids.items():
            pointer = pointed.get(id)
            if pointer is None or (not pointer.live and pointer.version < version):
                inspection.fault("head", "no pointer leads to it", version=version, id=id)
