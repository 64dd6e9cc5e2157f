"""The passes of verify. Each reads pages, recomputes, and notes what differs."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec import structs

from rote.contract import UNDECIDED, Fault, Index, Progress
from rote.engines import Reader
from rote.engines.rows import (
    DELETE,
    PATCH,
    SET,
    BranchRow,
    CommitRow,
    DerivedRow,
    EntityRow,
    FactRow,
    Line,
    Place,
    SideRecord,
)
from rote.errors import RoteError
from rote.kernel import checkpoints
from rote.kernel.cache import SpaceCache
from rote.kernel.chain import OPERATION_NAMES, commit_hash, empty_hash, fact_hash, quoted
from rote.kernel.entry import Entry, apply_stored, entry_of
from rote.kernel.erased_inspection import UNEXPLAINED, fault_of_erased, left_over
from rote.kernel.events import erased_by, erasures, read_event
from rote.kernel.indexes import expected_rows
from rote.kernel.lineage import Lineage
from rote.kernel.lines import Branches
from rote.kernel.pace import next_page, size_of
from rote.kernel.seals import KEY, branch_seal, side_record, space_seal
from rote.values import canonical, decode_canonical, format_time
from rote.values.limits import (
    CONTENTION_ATTEMPTS_MAX,
    FAULTS_MAX,
    MIB,
    VERIFY_PAGE_ROWS,
)


class Inspection:
    """What is being inspected, and what was found so far."""

    def __init__(
        self,
        cache: SpaceCache,
        version: int,
        progress: Progress | None,
        *,
        blob_bytes: int = 0,
    ) -> None:
        self.cache = cache
        self.space = cache.number
        self.version = version
        self.branches = Branches([])
        self.lineage = Lineage(cache.did)
        self.faults: list[Fault] = []
        self.commits = 0
        self.facts = 0
        self.erased = 0  # of the facts
        self.oldest = 0  # where the log begins, when what was below is compacted
        self.previous: CommitRow | None = None  # the commit below it
        self.gone = 0  # commits that were compacted away
        self._progress = progress
        self.raised: Exception | None = None  # by who is told of the progress
        self._blob_bytes = 0  # that were read, of so many
        self._blob_bytes_all = blob_bytes

    def fault(
        self, kind: str, message: str, *, version: int | None = None, id: str | None = None
    ) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(kind, version, id, message))

    def advance(self, blob_bytes: int = 0) -> None:
        """Tell how far it is: commits, and mebibytes of blobs."""
        self._blob_bytes += blob_bytes
        if self._progress is not None:
            total = self.version + self._blob_bytes_all // MIB
            done = self.gone + self.commits + self._blob_bytes // MIB
            try:
                self._progress(min(done, total), total)
            except Exception as error:
                self.raised = error
                raise


# -- pass 1: the log -------------------------------------------------------------------------------


def inspect_log(inspection: Inspection, reads: Reader) -> None:
    previous = inspection.previous
    page_commits = 1
    while True:
        after = 0 if previous is None else previous.version
        rows = [
            row
            for row in reads.commits(inspection.space, after=after, limit=page_commits)
            if row.version <= inspection.version
        ]
        if not rows:
            break
        facts = reads.facts(inspection.space, after=after, until=rows[-1].version)
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
    if found != reads.counts(inspection.space, until=inspection.version):
        inspection.fault("log", "there are facts that belong to no commit")
    strays = reads.strays(inspection.space)
    if strays:
        inspection.fault("log", f"{strays} rows lie outside the log")


class _Page:
    """The facts of some commits, and for each the one before it on its line."""

    def __init__(
        self, inspection: Inspection, reads: Reader, facts: list[FactRow], after: int
    ) -> None:
        self.reads = reads
        self.space = inspection.space
        self.branches = inspection.branches
        self.oldest = inspection.oldest
        self.by_version: dict[int, list[FactRow]] = {}
        self._passed: dict[tuple[int, str], list[FactRow]] = {}
        self._last: dict[tuple[int, str], int] = {}
        for fact in facts:
            self.by_version.setdefault(fact.version, []).append(fact)
            self._last[(fact.version, fact.id)] = fact.index
        self._below = self._load_below(facts, after)

    def _load_below(self, facts: list[FactRow], after: int) -> dict[tuple[int, str], FactRow]:
        """The newest facts below the page, by branch and id."""
        wanted: dict[int, dict[str, None]] = {}
        for fact in facts:
            if self.branches.knows(fact.branch):
                wanted.setdefault(fact.branch, {})[fact.id] = None
        return {
            (branch, row.id): row
            for branch, ids in wanted.items()
            for row in self.reads.newest(self.space, list(ids), self._line(branch, after))
        }

    def _line(self, branch: int, version: int) -> Line:
        return self.branches.line(self.branches.name(branch), version)

    def before(self, fact: FactRow) -> FactRow | None:
        """The fact before this one on its line; facts are asked for in log order."""
        for branch, cap in self._line(fact.branch, fact.version):
            for other in reversed(self._passed.get((branch, fact.id), ())):
                if other.version <= cap:
                    return other
        return self._below.get((fact.branch, fact.id))

    def passed(self, fact: FactRow) -> None:
        self._passed.setdefault((fact.branch, fact.id), []).append(fact)

    def again(self, fact: FactRow) -> FactRow:
        """The fact as it is by now; it may have been erased since the page was read."""
        own, after = ((fact.branch, fact.version),), fact.version - 1
        before = (fact.version, fact.index + 1)
        rows = self.reads.history(self.space, fact.id, own, before=before, after=after, limit=1)
        return rows[0] if rows and rows[0].index == fact.index else fact

    def is_last(self, fact: FactRow) -> bool:
        """Whether its commit leaves the entity as it does."""
        return self._last[(fact.version, fact.id)] == fact.index

    def entry(self, fact: FactRow) -> Entry:
        return entry_of(self.reads, self.space, fact, self._line(fact.branch, fact.version))


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
            space=inspection.cache.did,
            version=row.version,
            branch=inspection.branches.name(row.branch),
            previous=None if previous is None else previous.hash,
            facts=[fact.hash for fact in facts],
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
    id = erased_by(row)
    if id is None:
        return
    left = left_over(page.reads, page.space, page.branches, id, until=row.version)
    if left is not None:
        inspection.fault(
            "fact", f"version {row.version} erased it, and it has content", version=left.version,
            id=id,
        )  # fmt: skip


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
    """Kinds and words."""
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
        # What the first ones at the line follow is gone, and what is left says nothing about them;
        # their hashes still cover what it was.
        before = None
    elif fact.parent != (empty_hash(quoted_id) if before is None else before.hash):
        yield "fact", "it does not follow the entity's previous fact"
    if fact.salt is None:
        message = fault_of_erased(page.reads, page.space, fact)
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
    # At the line the digest of what was left covers the last ones.
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
        side = reads.side(inspection.space, KEY, row.key)
        if side is None or _version_in(side) != row.version:
            inspection.fault(
                "key", "it does not lead to its commit", version=row.version, id=row.key
            )


def _version_in(row: SideRecord) -> int:
    """The commit that a key row leads to; 0 when it does not say."""
    body = decode_canonical(row.body)
    version = body.get("version") if type(body) is dict else None
    return version if type(version) is int else 0


def inspect_pointed(inspection: Inspection, reads: Reader, facts: list[FactRow]) -> None:
    """Every fact's entity has a pointer on that branch, and what came after a delete moved it."""
    newest: dict[int, dict[str, int]] = {}
    for fact in facts:
        newest.setdefault(fact.branch, {})[fact.id] = fact.version
    for branch, ids in newest.items():
        pointed = {row.id: row for row in reads.pointers(inspection.space, branch, list(ids))}
        for id, version in ids.items():
            pointer = pointed.get(id)
            if pointer is None or (not pointer.live and pointer.version < version):
                inspection.fault("head", "no pointer leads to it", version=version, id=id)


# -- pass 2: the pointers --------------------------------------------------------------------------


def inspect_entities(inspection: Inspection, reads: Reader) -> None:
    after: tuple[int, str] | None = None
    page_rows = 1
    while True:
        rows = reads.entity_rows(inspection.space, after=after, limit=page_rows)
        by_branch: dict[int, list[str]] = {}
        for row in rows:
            by_branch.setdefault(row.branch, []).append(row.id)
        newest = {
            (branch, fact.id): fact
            for branch, ids in by_branch.items()
            for fact in reads.newest(
                inspection.space, list(dict.fromkeys(ids)), ((branch, inspection.version),)
            )
        }
        written = [row for row in rows if row.version <= inspection.version]  # not since it began
        for row in _leading_nowhere(inspection, reads, written, newest):
            if not _leads_by_now(inspection, reads, row):
                inspection.fault(
                    "head", "it leads to no fact of the entity", version=row.version, id=row.id
                )
        if len(rows) < page_rows:
            return
        after = (rows[-1].branch, rows[-1].id)
        page_rows = next_page(page_rows, sum(size_of(fact) for fact in newest.values()))


def _leading_nowhere(
    inspection: Inspection,
    reads: Reader,
    pointers: Iterable[EntityRow],
    newest: Mapping[tuple[int, str], FactRow],
) -> list[EntityRow]:
    """Those that do not tell rightly if an entity exists, or lead neither to its newest fact nor,
    while it lives, to an earlier one, which a compaction may have taken away."""
    wrong: list[EntityRow] = []
    earlier: dict[Place, EntityRow] = {}
    for row in pointers:
        fact = newest.get((row.branch, row.id))
        if fact is None or row.live != (fact.op != DELETE and fact.salt is not None):
            wrong.append(row)
        elif (row.version, row.index) == (fact.version, fact.index):
            continue
        elif not row.live or (row.version, row.index) > (fact.version, fact.index):
            wrong.append(row)
        elif row.version >= inspection.oldest:
            earlier[(row.id, row.version, row.index, row.branch)] = row
        elif row.version < 1:
            wrong.append(row)
    found = reads.operations_at(inspection.space, list(earlier))
    return wrong + [row for place, row in earlier.items() if found.get(place, DELETE) == DELETE]


def _leads_by_now(inspection: Inspection, reads: Reader, row: EntityRow) -> bool:
    """Looked at again: an erasure changes both, perhaps after one of them was read."""
    own = ((row.branch, inspection.version),)
    pointers = reads.pointers(inspection.space, row.branch, [row.id])
    facts = reads.newest(inspection.space, [row.id], own)
    newest = {(row.branch, fact.id): fact for fact in facts}
    return len(pointers) == len(facts) == 1 and (
        pointers[0].version > inspection.version
        or not _leading_nowhere(inspection, reads, pointers, newest)
    )


# -- pass 3: beside the log ------------------------------------------------------------------------


def inspect_beside(inspection: Inspection, reads: Reader) -> None:
    cache = inspection.cache
    if cache.seal != space_seal(cache.did, cache.name):
        inspection.fault("space", "its name or did was changed", id=cache.name)
    if "main" not in inspection.branches:
        inspection.fault("branch", "main is missing")
    for branch in inspection.branches.rows():
        if branch.seal != branch_seal(cache.did, branch):
            inspection.fault("branch", "it was changed", id=branch.name)
    _inspect_branches(inspection, reads)
    after = ("", "")
    while True:
        rows = reads.sides(inspection.space, None, after=after, limit=VERIFY_PAGE_ROWS)
        for row in rows:
            _inspect_side(inspection, reads, row)
        if len(rows) < VERIFY_PAGE_ROWS:
            return
        after = (rows[-1].kind, rows[-1].key)


def _inspect_branches(inspection: Inspection, reads: Reader) -> None:
    """Every branch is what the commits have made of it, no more and no less."""
    expected = {
        _branch_as_of(row, inspection.version) for row in inspection.lineage.branches.rows()
    }
    found = set()
    for row in inspection.branches.rows():
        for version in (row.created_version, row.deleted_version or 0):
            if version > inspection.version and not _is_recorded(inspection, reads, row, version):
                inspection.fault("branch", "no commit has made or deleted it", id=row.name)
        if row.created_version <= inspection.version:
            found.add(_branch_as_of(row, inspection.version))
    for row in sorted(expected ^ found, key=lambda row: row.name):
        inspection.fault("branch", "it is not what the commits say", id=row.name)


def _branch_as_of(row: BranchRow, version: int) -> BranchRow:
    is_deleted = row.deleted_version is not None and row.deleted_version <= version
    return structs.replace(
        row, deleted_version=row.deleted_version if is_deleted else None, seal=b""
    )


def _is_recorded(inspection: Inspection, reads: Reader, row: BranchRow, version: int) -> bool:
    """Whether a commit made since this inspection began accounts for it."""
    rows = reads.events(inspection.space, after=version - 1, limit=1)
    return [(commit.version, commit.branch) for commit in rows] == [(version, row.branch)]


def _inspect_side(inspection: Inspection, reads: Reader, row: SideRecord) -> None:
    if row != side_record(inspection.cache.did, row.kind, row.key, row.fence, row.body):
        inspection.fault(row.kind, "the side row was changed", id=row.key)
        return
    if row.kind == KEY:
        version = _version_in(row)
        commits = reads.commits(inspection.space, after=version - 1, limit=1)
        if not commits or (commits[0].version, commits[0].key) != (version, row.key):
            inspection.fault("key", "its commit is not there", version=version, id=row.key)
    elif row.kind == checkpoints.SIDE:
        checkpoint = checkpoints.check_shape(decode_canonical(row.body))
        inspection.faults += [
            fault
            for fault in checkpoints.faults_against(
                inspection.cache, reads, checkpoint, oldest=inspection.oldest
            )
            if fault.kind != UNDECIDED
        ]


# -- the indexes -----------------------------------------------------------------------------------


def inspect_indexes(inspection: Inspection, reads: Reader, index: Index) -> None:
    """Once, and again when something was erased meanwhile: facts and rows are read in turn."""
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        head = reads.head(inspection.space)
        version = 0 if head is None else head.version
        faults = list(islice(_found_in_index(inspection, reads, index, version), FAULTS_MAX))
        if not faults or not any(erasures(reads, inspection.space, after=version)):
            break
    for message, id in faults:
        inspection.fault("index", f"{index.name} {message}", id=id)


def _found_in_index(
    inspection: Inspection, reads: Reader, index: Index, version: int
) -> Iterator[tuple[str, str | None]]:
    """Compare each entity's rows with those its facts call for; words and ids."""
    indexed = reads.indexed(inspection.space, index.name)
    if indexed > version:
        head = reads.head(inspection.space)
        if indexed > (0 if head is None else head.version):
            yield "claims to be ahead of the log", None
    if reads.derived_strays(inspection.space, index.name):
        yield "has rows from beyond what it covers", None
    seen = 0
    after: tuple[int, str] | None = None
    while True:
        pointers = reads.entity_rows(inspection.space, after=after, limit=VERIFY_PAGE_ROWS)
        for pointer in pointers:
            if not pointer.id.startswith(index.prefix):
                continue
            line = ((pointer.branch, indexed),)
            expected = _expected(inspection, reads, index, pointer.id, line)
            actual = [
                _as_of(row, indexed)
                for row in reads.derived_of(inspection.space, index.name, pointer.id)
                if row.branch == pointer.branch and row.start <= indexed
            ]
            seen += len(actual)
            if sorted(actual, key=lambda row: (row.term, row.start)) != expected:
                yield "does not match it", pointer.id
        if len(pointers) < VERIFY_PAGE_ROWS:
            break
        after = (pointers[-1].branch, pointers[-1].id)
    if seen != reads.derived_count(inspection.space, index.name, until=indexed):
        yield "lists entities that do not exist", None


def _as_of(row: DerivedRow, version: int) -> DerivedRow:
    """The row as it was at a version: what ended it later had not happened."""
    is_open = row.until is None or row.until > version
    return structs.replace(row, until=None) if is_open else row


def _expected(
    inspection: Inspection, reads: Reader, index: Index, id: str, line: Line
) -> list[DerivedRow]:
    """What the facts on one branch, up to a version, call for."""
    facts: dict[int, FactRow] = {}
    before: tuple[int, int] | None = None
    while True:
        rows = reads.history(
            inspection.space, id, line, before=before, after=0, limit=VERIFY_PAGE_ROWS
        )
        for row in rows:
            facts.setdefault(row.version, row)
        if len(rows) < VERIFY_PAGE_ROWS:
            break
        before = (rows[-1].version, rows[-1].index)
    branch = line[0][0]
    name = inspection.branches.name(branch)
    states = []
    for version in sorted(facts):
        through_forks = inspection.branches.line(name, version)
        states.append((version, entry_of(reads, inspection.space, facts[version], through_forks)))
    return expected_rows(index, id, branch, states)
