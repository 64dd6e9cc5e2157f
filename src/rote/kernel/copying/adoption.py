"""Adopting commits that another store has made. The source is not trusted: each commit is checked.

The types have been checked before (contract/page_checks.py). Every hash is recomputed from the bytes
that came, every value goes through the strict decoder, every patch is applied. Rows that no hash
covers (snapshots, pointers, seals) are made here and not copied. Commits are written only after all
checks; copies.py has the transaction around it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rote.contract import Commit, Fact, LeftFact, Remains, SideRow
from rote.contract.operations import DELETE, PATCH, SET
from rote.engines import Reader
from rote.engines.rows import BranchRow, FactRow, Line
from rote.errors import Corrupt, InvalidInput, LimitExceeded, NotFound, Unavailable
from rote.kernel.branching.merges import merge_event
from rote.kernel.committing.documents import patched
from rote.kernel.committing.plans import SALT_BYTES
from rote.kernel.keeping.compactions import follow_compaction
from rote.kernel.keeping.declared_sides import forget_in_sides
from rote.kernel.keeping.erasures import erased_of, forget, note_key, note_of
from rote.kernel.keeping.selections import too_many
from rote.kernel.log.appender import Appender, Step
from rote.kernel.log.branch_replay import Lineage
from rote.kernel.log.chain import OPERATION_NAMES
from rote.kernel.log.commit_graph import CommitGraph, Merge, last_node, merge_bases
from rote.kernel.log.entries import ABSENT, Entry, entry_of
from rote.kernel.log.erased_facts import check_remains, encode_remains
from rote.kernel.log.events import (
    EVENTS,
    BranchCreated,
    BranchMerged,
    EntityErased,
    Happening,
    SpaceCompacted,
    read_event,
)
from rote.kernel.log.page_sizes import Pace, size_of
from rote.kernel.log.seals import KEY
from rote.kernel.state.space_reader import SpaceWriter
from rote.patch import encode_operations, normalize
from rote.values import (
    Json,
    canonical,
    check_author,
    check_branch_name,
    check_entity_id,
    check_key,
    check_reason,
    decode,
    format_time,
    parse_time,
)
from rote.values.canonical import quoted
from rote.values.limits import (
    COMMIT_BYTES_MAX,
    COPY_DOCUMENT_BYTES_MAX,
    DECODED_TIMES,
    DEPTH_MAX,
    ERASE_ENTITIES_MAX,
    OPERATIONS_MAX,
    PAGE_MAX,
    VALUE_BYTES_MAX,
)
from rote.values.names import is_sha256

OPERATIONS = {name: op for op, name in OPERATION_NAMES.items()}
# A value in a patch is inside the list of operations, an operation, and perhaps the list of a splice.
_DEPTH_OF_PATCH_MAX = DEPTH_MAX + 3

_Pair = tuple[Commit, SideRow | None]  # a commit and the row of its key
_Place = tuple[str, str]  # branch, entity


class Adoption:
    """Check commits of the source and add them to the appender of one transaction."""

    def __init__(
        self, writes: SpaceWriter, appender: Appender, attempt: Callable[[], bytes]
    ) -> None:
        self._space = writes.space
        self._reads: Reader = writes.rows
        self._writes = writes  # for the rows that a compaction drops
        self._attempt = attempt
        self._pace = Pace(COPY_DOCUMENT_BYTES_MAX)
        self._entries: dict[_Place, Entry] = {}
        self._lineage = Lineage(writes.space.did, writes.space.branches.rows())
        self._made: set[str] = set()  # names of new branches
        self._passed: dict[tuple[int, str], list[Entry]] = {}  # after each fact, by branch and id
        self._salts: dict[str, bytes] = {}
        self._remains: Mapping[tuple[int, int], Remains] = {}  # of facts, by version and index
        self._erased: tuple[str, ...] = ()  # entities that the last commit erases
        self._written: dict[
            int, list[int]
        ] = {}  # versions of adopted commits with facts, by branch
        self._graph: CommitGraph | None = None
        self.appender = appender
        self.has_shrunk = False  # whether a compaction was adopted and has dropped rows

    def take(self, pairs: Sequence[_Pair], remains: Mapping[tuple[int, int], Remains]) -> None:
        """Add as many of the commits as fit into one transaction, at least one."""
        self._remains = remains
        place = 0
        while place < len(pairs) and not self._erased:
            wanted = self._pace.wanted
            group = _up_to_one_alone(pairs[place : place + max(wanted, 1)])
            if self._must_end_before(group):
                return
            for commit, _ in group:
                with _refusing(commit):
                    self._check_names(commit)
            unknown = self._unknown(group)
            if unknown and not wanted:
                return
            self._look_up(unknown)
            for commit, key in group:
                self._check_key_is_free(commit)
                with _refusing(commit):
                    self._take(commit, key)
            place += len(group)
            if _is(group[0][0], "compact"):
                return  # the next commits have to see only the facts that are left

    def _must_end_before(self, group: Sequence[_Pair]) -> bool:
        """Whether the transaction must end before this group.

        An erasure or a compaction needs the commits before it in the store. So does the first branch
        of all: as long as there is only main, entries that a branch may inherit are not kept.
        """
        first = group[0][0]
        return bool(self.appender.commits) and (
            _is(first, "erase")
            or _is(first, "compact")
            or (self._lineage.branches.is_alone and _is(first, "branch.create"))
        )

    def erase(self, writes: SpaceWriter) -> bool:
        """Erase the entities if the last commit is an erasure.

        Return whether facts lost their content, so that copies of it may be left in the files.
        """
        if not self._erased:
            return False
        ids, version = self._erased, self.appender.version
        forgotten = forget(writes, self._lineage.branches, ids, version=version)
        for pointer in forgotten.pointers:
            self.appender.entities[(pointer.branch, pointer.id)] = pointer
        if forgotten.facts:
            note = note_of(writes, note_key(ids, version), version)
            writes.rows.put_side(writes.number, note)
            erased = erased_of(writes, forgotten, at=self.appender.at)
            forget_in_sides(writes, erased, in_copy=True)
        return forgotten.facts > 0

    @property
    def is_erasing(self) -> bool:
        """Whether the last commit is an erasure."""
        return bool(self._erased)

    # -- what is there already ---------------------------------------------------------------------

    def _unknown(self, pairs: Iterable[_Pair]) -> dict[_Place, str]:
        """Return the entities that were not looked up yet, with the first operation on each."""
        unknown: dict[_Place, str] = {}
        for commit, _ in pairs:
            for fact in commit.facts:
                if (commit.branch, fact.id) not in self._entries:
                    unknown.setdefault((commit.branch, fact.id), fact.op)
        return unknown

    def _look_up(self, unknown: dict[_Place, str]) -> None:
        """Load the newest facts of these entities; the document only where a patch comes first."""
        by_branch: dict[str, list[str]] = {}
        for branch, id in unknown:
            by_branch.setdefault(branch, []).append(id)
            self._entries[(branch, id)] = ABSENT
        sizes = []
        number = self._space.number
        for branch, ids in by_branch.items():
            line = self._lineage.branches.line(branch, self.appender.version)
            if branch in self._made:
                ids = self._inherit(branch, ids, line)
            for start in range(0, len(ids), PAGE_MAX):
                for row in self._reads.newest(number, ids[start : start + PAGE_MAX], line):
                    place = (branch, row.id)
                    exists = row.op != DELETE and row.salt is not None
                    entry = Entry(row.version, row.hash, row.salt, exists)
                    if unknown[place] == OPERATION_NAMES[PATCH]:
                        entry = entry_of(self._reads, number, row, line)
                    self._entries[place] = entry
                    sizes.append(size_of(row) + entry.size_bound * DECODED_TIMES)
        self._pace.took(sizes)
        if not self._lineage.branches.is_alone:
            new = [id for branch, id in unknown if self._entries[(branch, id)].salt is None]
            for start in range(0, len(new), PAGE_MAX):
                found = self._reads.salts(number, new[start : start + PAGE_MAX])
                self._salts = {**found, **self._salts}

    def _inherit(self, branch: str, ids: list[str], line: Line) -> list[str]:
        """Give a branch of this page the entries that it inherits from the page.

        Return the ids of which the page has no fact.
        """
        missing = []
        for id in ids:
            inherited = (
                entry
                for number, cap in line
                for entry in reversed(self._passed.get((number, id), ()))
                if entry.version <= cap
            )
            entry = next(inherited, None)
            if entry is None:
                missing.append(id)
            else:
                self._entries[(branch, id)] = entry
        return missing

    def _check_key_is_free(self, commit: Commit) -> None:
        if commit.key is None:
            return
        taken = self._reads.side(self._space.number, KEY, commit.key)
        if taken is not None or (KEY, commit.key) in self.appender.sides:
            raise _refusal(commit, f"its key {commit.key!r} already stands for another commit")

    # -- one commit --------------------------------------------------------------------------------

    def _check_names(self, commit: Commit) -> None:
        """Check the names of a commit, and that its branch exists, before the store is asked."""
        if not isinstance(check_names(commit), BranchCreated):
            self._lineage.branches.find(commit.branch)

    def _take(self, commit: Commit, key: SideRow | None) -> None:
        at = self._check_links(commit)
        branch = self._record(commit)
        steps = [
            self._step(branch, commit, fact, index, at) for index, fact in enumerate(commit.facts)
        ]
        facts = self.appender.append_facts(branch, commit.version, steps)
        check_facts(facts, commit.facts)
        row = self.appender.append_copy(branch, commit, facts, at=at, attempt=self._attempt())
        if row.hash.hex() != commit.hash:
            raise InvalidInput("its content does not match its hash")
        if facts:
            self._written.setdefault(branch.branch, []).append(commit.version)
        if commit.key is not None:
            self.appender.note_key(commit.key, payload_of(commit, key))

    def _record(self, commit: Commit) -> BranchRow:
        """Apply the event of a commit; return its branch afterwards."""
        happening = None if commit.event is None else read_event(commit.event)
        row = self._lineage.follow(
            happening, branch=commit.branch, version=commit.version, facts=len(commit.facts)
        )
        if row is not None:
            self.appender.branches[row.branch] = row
            if isinstance(happening, BranchCreated):
                self._made.add(row.name)
        branch = self._lineage.branches.find(commit.branch)
        if isinstance(happening, EntityErased):
            self._erased = happening.entities
        if isinstance(happening, BranchMerged):
            self._check_merge(commit, happening, branch.branch)
        if isinstance(happening, SpaceCompacted):
            self.has_shrunk = follow_compaction(self._writes, happening, commit.version)
        return branch

    def _check_merge(self, commit: Commit, merged: BranchMerged, target: int) -> None:
        """Check that a merge names the source's last node and the bases that the log has."""
        branches, space = self._lineage.branches, self._space.number
        version = self.appender.version
        if self._graph is None:
            self._graph = self._writes.graph().copy()
        graph, source = self._graph, branches.number(merged.source)
        theirs = last_node(graph, self, space, branches, (source, version))
        ours = last_node(graph, self, space, branches, (target, version))
        if theirs is None:
            raise InvalidInput("it merges nothing")
        left = [] if ours is None else [ours]
        bases = merge_bases(graph, self, space, branches, left=left, right=[theirs])
        if commit.event != merge_event(branches, merged.source, theirs[1], bases):
            raise InvalidInput("it does not name the state it merges, or not its bases")
        graph.add(target, Merge(commit.version, (source, theirs[1])))

    def last_written(self, space: int, line: Line, /) -> dict[int, int]:
        """Return the last written versions on a line, those of adopted commits included."""
        found = self._reads.last_written(space, line)
        for branch, cap in line:
            versions = self._written.get(branch, [])
            place = bisect_right(versions, cap)
            if place:
                found[branch] = versions[place - 1]
        return found

    def _check_links(self, commit: Commit) -> int:
        """Check that the commit continues the log; return its time."""
        newest = self.appender
        previous = None if newest.hash is None else newest.hash.hex()
        if (commit.version, commit.previous) != (newest.version + 1, previous):
            raise InvalidInput("it does not follow the commit before it")
        at = parse_time(commit.at)
        if format_time(at) != commit.at or at < newest.at:
            raise InvalidInput("its time is malformed, or before that of the commit before it")
        return at

    def _step(self, branch: BranchRow, commit: Commit, fact: Fact, index: int, at: int) -> Step:
        op = OPERATIONS.get(fact.op)
        expected = (commit.version, index, commit.hash)
        if op is None or (fact.version, fact.index, fact.commit) != expected:
            raise InvalidInput(f"fact {index} is not a fact of this commit")
        place = (branch.name, fact.id)
        before = self._entries[place]
        if fact.erased:
            after, kept = emptied(op, fact, self._remains[(fact.version, fact.index)])
        else:
            salt = self._salts[fact.id] = salt_of(fact, before.salt or self._salts.get(fact.id))
            after, kept = _applied(op, fact, before, at)
            after.salt = salt
        self._entries[place] = after
        if not self._lineage.branches.is_alone:
            self._passed.setdefault((branch.branch, fact.id), []).append(after)
        return fact.id, quoted(fact.id), op, fact.data, kept, before, after


def check_facts(rows: Iterable[FactRow], facts: Iterable[Fact | LeftFact]) -> None:
    """Raise InvalidInput unless the appended facts have the parents and hashes of those that came."""
    for row, fact in zip(rows, facts, strict=True):
        if row.parent.hex() != fact.parent:
            raise InvalidInput(f"{fact.id} does not follow the entity's previous fact")
        if row.hash.hex() != fact.hash:
            raise InvalidInput(f"the content of {fact.id} does not match its hash")


def check_names(commit: Commit) -> Happening | None:
    """Check every name of a commit that needs no store; return its event."""
    if commit.event is not None and commit.event.get("type") not in EVENTS:
        raise Unavailable(
            f"commit {commit.version} records an event, which this Rote cannot copy; upgrade Rote",
            version=commit.version,
        )
    check_branch_name(commit.branch)
    happening = None if commit.event is None else read_event(commit.event)
    if happening is None:
        _check_bounds(commit)
    if isinstance(happening, EntityErased):
        if len(happening.entities) > ERASE_ENTITIES_MAX:
            raise too_many(len(happening.entities))
        for id in happening.entities:
            check_entity_id(id)
        check_reason(happening.reason)
    for fact in commit.facts:
        check_entity_id(fact.id)
    if commit.author is not None:
        check_author(commit.author)
    if commit.key is not None:
        check_key(commit.key, reserved_allowed=True)
    if commit.meta_data is not None and canonical(decode(commit.meta_data)) != commit.meta_data:
        raise InvalidInput("its meta is not canonical JSON")
    return happening


def _check_bounds(commit: Commit) -> None:
    """Raise LimitExceeded for a commit that is larger than one that can be written here."""
    if len(commit.facts) > OPERATIONS_MAX:
        raise LimitExceeded("the number of facts", size=len(commit.facts), limit=OPERATIONS_MAX)
    size = len(commit.meta_data or b"")
    size += sum(len(fact.id) + len(fact.data or b"") for fact in commit.facts)
    if size > COMMIT_BYTES_MAX:
        raise LimitExceeded("the commit in bytes", size=size, limit=COMMIT_BYTES_MAX)


def _up_to_one_alone(pairs: Sequence[_Pair]) -> Sequence[_Pair]:
    """Return the commits before the first that makes a branch, erases or compacts.

    When that commit is the first of all, return it alone: it changes what later commits see.
    """
    for place, (commit, _) in enumerate(pairs):
        if any(_is(commit, event) for event in ("branch.create", "erase", "compact")):
            return pairs[: max(place, 1)]
    return pairs


def _is(commit: Commit, event: str) -> bool:
    return commit.event is not None and commit.event.get("type") == event


def salt_of(fact: Fact | LeftFact, known: bytes | None) -> bytes:
    try:
        salt = bytes.fromhex(fact.salt or "")
    except ValueError:
        salt = b""
    if len(salt) != SALT_BYTES or salt != (known or salt):
        raise InvalidInput(f"the salt of {fact.id} is missing, or is not the entity's")
    return salt


def emptied(op: int, fact: Fact | LeftFact, remains: Remains) -> tuple[Entry, bytes | None]:
    """Return the entry after an erased fact, and the encoded remains of the fact."""
    check_remains(op, fact.version, remains)
    if fact.data is not None or fact.salt is not None:
        raise InvalidInput(f"{fact.id} was erased, and has content")
    return Entry(0, None, None, False, erased=True), encode_remains(remains)


def _applied(op: int, fact: Fact, before: Entry, at: int) -> tuple[Entry, bytes | None]:
    """Return the entry after a fact, and the snapshot to store beside it."""
    if op != SET and not before.exists:
        raise InvalidInput(f"there is no {fact.id} that it could {fact.op}")
    if op == DELETE:
        if fact.data is not None:
            raise InvalidInput(f"the delete of {fact.id} has a body")
        return Entry.deleted(), None
    if fact.data is None:
        raise InvalidInput(f"the content of {fact.id} is missing")
    if op == SET:
        if canonical(decode(fact.data, size_bytes_max=VALUE_BYTES_MAX)) != fact.data:
            raise InvalidInput(f"the value of {fact.id} is not canonical JSON")
        return Entry.holding(fact.data), None
    operations = decode(fact.data, size_bytes_max=VALUE_BYTES_MAX, depth_max=_DEPTH_OF_PATCH_MAX)
    if encode_operations(normalize(operations)) != fact.data:
        raise InvalidInput(f"the patch of {fact.id} is not in its normal form")
    change = patched(before, fact.data, (), at)
    return change.entry, change.snapshot


def payload_of(commit: Commit, row: SideRow | None) -> str | None:
    """Return the payload that the commit's key stands for. No hash covers it, so only its form is checked."""
    body = None if row is None else row.body
    members = body if type(body) is dict and len(body) == 2 else {}
    version, payload = members.get("version"), members.get("payload")
    if (
        row is None
        or (row.kind, row.key, row.fence) != (KEY, commit.key, 1)
        or type(version) is not int
        or version != commit.version
        or not _can_be_payload(commit, payload)
    ):
        raise InvalidInput(f"the row of its key {commit.key!r} does not lead to it")
    return payload if type(payload) is str else None


def _can_be_payload(commit: Commit, payload: Json) -> bool:
    """Whether a value can be the payload of a commit's key.

    It is a digest, or None after an erasure of what it was made of. The facts of a commit may have
    been compacted away; then None is allowed, because nobody can tell.
    """
    if payload is None:
        is_erased = any(fact.erased for fact in commit.facts)
        return is_erased or not commit.facts or _is(commit, "merge")
    return type(payload) is str and is_sha256(payload) is not None


@contextmanager
def _refusing(commit: Commit) -> Iterator[None]:
    """Raise Corrupt about the commit for any check that fails inside."""
    try:
        yield
    except (InvalidInput, LimitExceeded, NotFound) as error:
        raise _refusal(commit, str(error)) from error


def _refusal(commit: Commit, reason: str) -> Corrupt:
    return Corrupt(
        f"commit {commit.version} of the source is not what was written: {reason};"
        " nothing of it was copied, run `rote verify` on the source",
        version=commit.version,
    )
