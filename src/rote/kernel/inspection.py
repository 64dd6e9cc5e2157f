"""The passes of verify. Each reads pages, recomputes, and notes what differs."""

from collections.abc import Iterable

from msgspec import structs

from rote.contract import Fault, Index, Progress
from rote.engines import Reader
from rote.engines.rows import (
    DELETE,
    PATCH,
    BranchRow,
    CommitRow,
    DerivedRow,
    FactRow,
    Line,
    SideRecord,
)
from rote.errors import RoteError
from rote.kernel import checkpoints
from rote.kernel.cache import SpaceCache
from rote.kernel.chain import OPERATION_NAMES, commit_hash, empty_hash, fact_hash, quoted
from rote.kernel.entry import Entry, apply_stored, entry_of
from rote.kernel.events import read_event
from rote.kernel.history import size_of
from rote.kernel.indexes import expected_rows
from rote.kernel.lineage import Lineage
from rote.kernel.lines import Branches
from rote.kernel.seals import KEY, branch_seal, side_record, space_seal
from rote.values import canonical, decode_canonical, format_time
from rote.values.limits import FAULTS_MAX, MIB, VERIFY_PAGE_BYTES, VERIFY_PAGE_ROWS


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
        self._progress = progress
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
            self._progress(min(self.commits + self._blob_bytes // MIB, total), total)


# -- pass 1: the log -------------------------------------------------------------------------------


def inspect_log(inspection: Inspection, reads: Reader) -> None:
    inspection.branches = Branches(reads.branches(inspection.space))
    previous: CommitRow | None = None
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
        _inspect_keys(inspection, reads, rows)
        _inspect_pointed(inspection, reads, facts)
        inspection.advance()
        page_commits = _next_page(page_commits, facts)
    found = (inspection.commits, inspection.facts)
    if found != reads.counts(inspection.space, until=inspection.version):
        inspection.fault("log", "there are facts that belong to no commit")
    strays = reads.strays(inspection.space)
    if strays:
        inspection.fault("log", f"{strays} rows lie outside the log")


def _next_page(rows: int, facts: Iterable[FactRow]) -> int:
    """Pages grow while facts are small, so that memory stays bounded whatever is stored."""
    if sum(size_of(fact) for fact in facts) > VERIFY_PAGE_BYTES:
        return max(rows // 4, 1)
    return min(rows * 2, VERIFY_PAGE_ROWS)


class _Page:
    """The facts of some commits, and for each the one before it on its line."""

    def __init__(
        self, inspection: Inspection, reads: Reader, facts: list[FactRow], after: int
    ) -> None:
        self.reads = reads
        self.space = inspection.space
        self.branches = inspection.branches
        self.by_version: dict[int, list[FactRow]] = {}
        self._passed: dict[tuple[int, str], list[FactRow]] = {}
        for fact in facts:
            self.by_version.setdefault(fact.version, []).append(fact)
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
        try:
            _inspect_fact(inspection, page, fact)
        except RoteError as error:
            inspection.fault("fact", str(error), version=version, id=fact.id)
        page.passed(fact)
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


def _inspect_fact(inspection: Inspection, page: _Page, fact: FactRow) -> None:
    def fault(kind: str, message: str) -> None:
        inspection.fault(kind, message, version=fact.version, id=fact.id)

    before = page.before(fact)
    quoted_id = quoted(fact.id)
    if fact.op not in OPERATION_NAMES:
        return fault("fact", "it is no known operation")
    if fact.parent != (empty_hash(quoted_id) if before is None else before.hash):
        fault("fact", "it does not follow the entity's previous fact")
    if fact.salt is None or (fact.body is None) != (fact.op == DELETE):
        return fault("fact", "its content is missing, and no erasure explains it")
    if before is not None and before.salt != fact.salt:
        fault("fact", "its salt is not the entity's")
    hash = fact_hash(quoted_id, fact.op, fact.salt, fact.body, fact.parent)
    if hash != fact.hash:
        fault("fact", "its content does not match its hash")
    _inspect_snapshot(inspection, page, fact, before)


def _inspect_snapshot(
    inspection: Inspection, page: _Page, fact: FactRow, before: FactRow | None
) -> None:
    if fact.value is None:
        return
    if fact.op != PATCH or before is None:
        expected = None
    else:
        expected = canonical(apply_stored(page.entry(before).canonical_value(), [fact]))
    if fact.value != expected:
        inspection.fault(
            "snapshot", "it is not what replaying gives", version=fact.version, id=fact.id
        )


def _inspect_keys(inspection: Inspection, reads: Reader, rows: Iterable[CommitRow]) -> None:
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


def _inspect_pointed(inspection: Inspection, reads: Reader, facts: list[FactRow]) -> None:
    """Every fact's entity has a pointer on that branch, at this fact or a later one."""
    newest: dict[int, dict[str, int]] = {}
    for fact in facts:
        newest.setdefault(fact.branch, {})[fact.id] = fact.version
    for branch, ids in newest.items():
        pointed = {row.id: row for row in reads.pointers(inspection.space, branch, list(ids))}
        for id, version in ids.items():
            if id not in pointed or pointed[id].version < version:
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
        for row in rows:
            if row.version > inspection.version:
                continue  # written since this inspection began
            fact = newest.get((row.branch, row.id))
            expected = None if fact is None else (fact.version, fact.index, fact.op != DELETE)
            if expected != (row.version, row.index, row.live):
                inspection.fault(
                    "head", "it is not the entity's newest fact", version=row.version, id=row.id
                )
        if len(rows) < page_rows:
            return
        after = (rows[-1].branch, rows[-1].id)
        page_rows = _next_page(page_rows, newest.values())


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
        inspection.faults += checkpoints.faults_against(inspection.cache, reads, checkpoint)


# -- the indexes -----------------------------------------------------------------------------------


def inspect_indexes(inspection: Inspection, reads: Reader, index: Index) -> None:
    """Compare each entity's rows with those its facts call for."""
    indexed = reads.indexed(inspection.space, index.name)
    head = reads.head(inspection.space)
    if indexed > (0 if head is None else head.version):
        inspection.fault("index", f"{index.name} claims to be ahead of the log")
    if reads.derived_strays(inspection.space, index.name):
        inspection.fault("index", f"{index.name} has rows from beyond what it covers")
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
                inspection.fault("index", f"{index.name} does not match it", id=pointer.id)
        if len(pointers) < VERIFY_PAGE_ROWS:
            break
        after = (pointers[-1].branch, pointers[-1].id)
    if seen != reads.derived_count(inspection.space, index.name, until=indexed):
        inspection.fault("index", f"{index.name} lists entities that do not exist")


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
