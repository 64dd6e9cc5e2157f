"""Copying what a compacted space stands on, into a store that has nothing of it yet.

    out    pages: the commits that are left, up to the line's own with all its facts; then the facts
           that are left, each with the value it leaves
    in     one transaction: the space is empty, or it is at the line, and nothing between

What comes is checked as if nobody could be trusted. Much of it no hash can prove any more; the
digest of all of it, which the space's key has signed, does.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import structs

from rote.contract import (
    Commit,
    Fact,
    FoundationCursor,
    FoundationPage,
    Head,
    LeftFact,
    Remains,
    SideRow,
)
from rote.contract.commands import FoundationIn, FoundationOut
from rote.contract.operations import DELETE, PATCH
from rote.contract.page_checks import check_foundation_page
from rote.contract.wire import decode_page
from rote.engines import Abandoning, OutcomeUnknown, Reader
from rote.engines.rows import Batch, BranchRow, CommitRow, EntityRow, FactRow
from rote.errors import Corrupt, InvalidInput, LimitExceeded, NotFound
from rote.kernel.blobs.blob_data import chunks_of, token_of
from rote.kernel.committing.side_rows import sealed_row
from rote.kernel.copying.adoption import OPERATIONS, check_names, key_row, salt_of
from rote.kernel.keeping import checkpoints
from rote.kernel.log.branch_replay import Lineage
from rote.kernel.log.chain import OPERATION_NAMES, commit_hash, fact_hash, fact_hash_of
from rote.kernel.log.commits import commit_of
from rote.kernel.log.erased_facts import check_remains, encode_remains, remains_in
from rote.kernel.log.foundations import (
    Foundation,
    commits_below,
    facts_below,
    foundation_of,
    horizon_record,
    standing,
)
from rote.kernel.log.outcomes import settle
from rote.kernel.log.page_sizes import Pace
from rote.kernel.log.seals import KEY
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import canonical, check_entity_id, decode, format_time, parse_time
from rote.values.canonical import quoted
from rote.values.limits import PAGE_BYTES_MAX, VALUE_BYTES_MAX

_FACT_BYTES = 256  # what a fact takes in a page beside its id and value
_START: FoundationCursor = ("", "", 0)


# -- out -------------------------------------------------------------------------------------------


def foundation_out(space: OpenSpace, command: FoundationOut) -> FoundationPage | None:
    reads, after = space.reader(), command.after or _START
    return reads.steadily(None, lambda _: _page(reads, after))


def _page(reads: SpaceReader, after: FoundationCursor) -> FoundationPage | None:
    foundation = foundation_of(reads.rows, reads.number)
    if foundation is None:
        return None
    commits: list[Commit] = []
    keys: list[SideRow] = []
    facts: list[LeftFact] = []
    remains: list[Remains] = []
    place: FoundationCursor | None = None
    pace = Pace(PAGE_BYTES_MAX)
    for reached, item, size in _items(reads, foundation.before, after):
        if isinstance(item, Commit):
            commits.append(item)
            if any(fact.erased for fact in item.facts):
                remains += _remains_at(reads, item.version)
            if item.key is not None:
                row = reads.rows.side(reads.number, KEY, item.key)
                keys.append(sealed_row(reads.space, row, KEY, item.key))
        else:
            facts.append(item)
        pace.took([size])
        if not pace.wanted:
            place = reached
            break
    return FoundationPage(
        foundation.before, foundation.version, foundation.checkpoint, tuple(commits), tuple(keys),
        tuple(facts), place, tuple(remains),
    )  # fmt: skip


def _items(
    reads: SpaceReader, before: int, after: FoundationCursor
) -> Iterator[tuple[FoundationCursor, Commit | LeftFact, int]]:
    """Everything above a place, with its own place and its size."""
    branch, id, version = after
    if not branch:
        for commit in _commits(reads, before, after=version):
            size = len(commit.meta_data or b"") + _FACT_BYTES
            size += sum(len(fact.data or b"") + len(fact.id) + _FACT_BYTES for fact in commit.facts)
            yield ("", "", commit.version), commit, size
    for row in sorted(reads.space.branches.rows(), key=lambda row: row.name):
        if row.name < branch:
            continue
        above = (id, version) if row.name == branch else None
        for fact in facts_below(reads.rows, reads.number, row.branch, until=before, above=above):
            left = _left(row.name, fact)
            size = len(left.data or b"") + len(fact.id) + _FACT_BYTES
            yield (row.name, fact.id, fact.version), left, size


def _commits(reads: SpaceReader, before: int, *, after: int) -> Iterator[Commit]:
    previous: bytes | None = None
    for row in commits_below(
        reads.rows, reads.number, before=before + 1, after=min(after, before - 2)
    ):
        is_line = row.version == before
        facts = reads.rows.facts(reads.number, after=before - 1, until=before) if is_line else []
        if row.version > after:
            yield commit_of(
                row, facts, previous=previous if is_line else None,
                branch=reads.space.branches.name(row.branch),
            )  # fmt: skip
        previous = row.hash


def _remains_at(reads: SpaceReader, version: int) -> list[Remains]:
    facts = reads.rows.facts(reads.number, after=version - 1, until=version)
    return [remains_in(fact) for fact in facts if fact.salt is None]


def _left(branch: str, fact: FactRow) -> LeftFact:
    erased = fact.salt is None
    data = fact.value if fact.op == PATCH else fact.body
    return LeftFact(
        branch,
        fact.id,
        OPERATION_NAMES[fact.op],
        fact.version,
        fact.index,
        fact.hash.hex(),
        fact.parent.hex(),
        None if fact.salt is None else fact.salt.hex(),
        None if erased else data,
        remains_in(fact) if erased else None,
    )


# -- in --------------------------------------------------------------------------------------------


def foundation_in(space: OpenSpace, command: FoundationIn) -> Head:
    """Write all of it, durably; or raise and write nothing."""
    space.engine.check_usable()
    attempt = space.wiring.tokens.token
    founding: _Founding | None = None
    try:
        with Abandoning(space.engine), space.engine.writer(space.number) as rows:
            writes = SpaceWriter(space, rows)
            if writes.sync() is not None:
                raise InvalidInput(
                    f"{space.name!r} is not empty in the target, and the source was compacted;"
                    " copy to a new store",
                    space=space.did,
                )
            for page in _pages_in(rows, space.number, command.upload):
                if founding is None:
                    founding = _Founding(writes, page, attempt)
                founding.take(page)
            if founding is None:
                raise _refusal("it has no pages")
            founding.finish()
    except OutcomeUnknown as error:
        settle(
            space.engine,
            space.number,
            [] if founding is None else founding.commits[-1:],
            error,
            refusal="the store failed while committing; nothing was written, run the copy again",
        )
    assert founding is not None
    line = founding.commits[-1]
    return Head(line.version, line.hash.hex(), line.at)


def _pages_in(rows: Reader, space: int, upload: str) -> Iterator[FoundationPage]:
    """Yield the pages of an upload, each a line of JSON."""
    rest = b""
    for chunk in chunks_of(rows, space, token_of(upload)):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            try:
                yield decode_page(line)
            except (InvalidInput, LimitExceeded) as error:
                raise _refusal(str(error)) from error
    if rest:
        raise _refusal("its last line is cut off")


class _Founding:
    """What comes, written page by page into one transaction and proven at its end."""

    def __init__(
        self, writes: SpaceWriter, page: FoundationPage, attempt: Callable[[], bytes]
    ) -> None:
        check_foundation_page(page)
        self._space = writes.space
        self._writes = writes
        self._attempt = attempt
        self._foundation = Foundation(page.before, page.version, page.checkpoint, 1)
        self._lineage = Lineage(writes.space.did)
        self._place = _START
        self._last: FactRow | None = None  # of the facts that came
        self._line: dict[str, FactRow] = {}  # what the line's own commit leaves, by id
        self.commits: list[CommitRow] = []  # the last two, the line's own last

    def take(self, page: FoundationPage) -> None:
        check_foundation_page(page)
        if Foundation(page.before, page.version, page.checkpoint, 1) != self._foundation:
            raise InvalidInput("the source was compacted again meanwhile; run the copy again")
        keys = {row.key: row for row in page.keys}
        self._remains = iter(page.remains)
        try:
            for commit in page.commits:
                self._pass(("", "", commit.version))
                self._commit(commit, keys)
            self._facts(page.facts)
        except (InvalidInput, LimitExceeded, NotFound) as error:
            raise _refusal(str(error)) from error

    def _pass(self, place: FoundationCursor) -> None:
        if not self._place < place:
            raise InvalidInput("it is not in order")
        self._place = place

    # -- commits -----------------------------------------------------------------------------------

    def _commit(self, commit: Commit, keys: dict[str, SideRow]) -> None:
        is_line = commit.version == self._foundation.before
        if commit.version > self._foundation.before or (commit.facts and not is_line):
            raise InvalidInput(f"commit {commit.version} is not one that was left")
        happening = check_names(commit)
        changed: list[BranchRow] = []
        if happening is not None or is_line:
            row = self._lineage.follow(
                happening, branch=commit.branch, version=commit.version, facts=len(commit.facts)
            )
            changed = [] if row is None else [row]
        branch = self._lineage.branches.find(commit.branch).branch
        at = parse_time(commit.at)
        if format_time(at) != commit.at or (self.commits and at < self.commits[-1].at):
            raise InvalidInput("the time of a commit is malformed, or before that of another")
        facts = [self._line_fact(commit, fact, branch, index)
                 for index, fact in enumerate(commit.facts)]  # fmt: skip
        event = None if commit.event is None else canonical(commit.event)
        made = CommitRow(
            commit.version, branch, bytes.fromhex(commit.hash), at, commit.author, commit.key,
            commit.meta_data, event, self._attempt(),
        )  # fmt: skip
        if is_line:
            self._check_line(commit, made, facts)
        self.commits = [*self.commits[-1:], made]
        self._line = {fact.id: fact for fact in facts}
        pointers = [
            EntityRow(branch, fact.id, fact.version, fact.index, _is_live(fact))
            for fact in self._line.values()
        ]
        self._writes.rows.append(self._space.number, Batch([made], facts, pointers, changed))
        if commit.key is not None:
            record = key_row(self._space.did, commit, keys.get(commit.key))
            self._writes.rows.put_side(self._space.number, record)

    def _line_fact(self, commit: Commit, fact: Fact, branch: int, index: int) -> FactRow:
        op = OPERATIONS.get(fact.op)
        if op is None or (fact.version, fact.index) != (commit.version, index):
            raise InvalidInput(f"{fact.id} is not of the commit at the line")
        if fact.erased:
            return _erased_row(
                branch, fact, op, next(self._remains), parent=bytes.fromhex(fact.parent)
            )
        if (fact.data is None) != (op == DELETE):
            raise InvalidInput(f"the content of {fact.id} is missing")
        salt, parent = salt_of(fact, None), bytes.fromhex(fact.parent)
        hash = fact_hash(quoted(fact.id), op, salt, fact.data, parent)
        if hash.hex() != fact.hash:
            raise InvalidInput(f"the content of {fact.id} does not match its hash")
        return FactRow(
            branch, fact.version, index, fact.id, op, hash, parent, salt, fact.data, None
        )

    def _check_line(self, commit: Commit, row: CommitRow, facts: list[FactRow]) -> None:
        """Of the commits that came only this one can be recomputed; it names the one before it."""
        last = self.commits[-1] if self.commits else None
        if (0 if last is None else last.version) != commit.version - 1:
            raise InvalidInput("the commit before the line is missing")
        hash = commit_hash(
            space=self._space.did,
            version=commit.version,
            branch=commit.branch,
            previous=None if last is None else last.hash,
            facts=[fact.hash for fact in facts],
            at=commit.at,
            author=commit.author,
            key=commit.key,
            meta=commit.meta_data,
            event=row.event,
        )
        if hash != row.hash:
            raise InvalidInput("the commit at the line does not match its hash")

    # -- facts -------------------------------------------------------------------------------------

    def _facts(self, facts: Iterable[LeftFact]) -> None:
        rows: list[FactRow] = []
        pointers: dict[tuple[int, str], EntityRow] = {}
        results: list[FactRow] = []  # of patches at the line
        for left in facts:
            self._pass((left.branch, left.id, left.version))
            row = self._row(left)
            there = self._line.get(row.id)
            if row.version == self._foundation.before:
                is_erased = row.salt is None
                if there != (row if is_erased else structs.replace(row, value=None)):
                    raise InvalidInput(f"{row.id} is not what the commit at the line left")
                results += [] if is_erased else [row]
                continue
            rows.append(row)
            if there is None or there.branch != row.branch:
                pointers[(row.branch, row.id)] = self._pointer(row, pointers)
            self._last = row
        if rows:
            self._writes.rows.append(self._space.number, Batch([], rows, list(pointers.values())))
        if results:
            self._writes.rows.rewrite_facts(self._space.number, results)

    def _pointer(self, row: FactRow, pointers: dict[tuple[int, str], EntityRow]) -> EntityRow:
        last, earlier = self._last, pointers.get((row.branch, row.id))
        follows = last is not None and (last.branch, last.id) == (row.branch, row.id)
        revived = follows and last is not None and not _is_live(last)
        revived = revived or (earlier is not None and earlier.revived)
        return EntityRow(row.branch, row.id, row.version, row.index, _is_live(row), revived)

    def _row(self, left: LeftFact) -> FactRow:
        """A fact as it is kept here; what can be proven of it by itself is."""
        check_entity_id(left.id)
        branch = self._lineage.branches.find(left.branch).branch
        op, data = OPERATIONS.get(left.op), left.data
        if op is not None and left.remains is not None and data is None:
            parent = bytes.fromhex(left.parent)
            return _erased_row(branch, left, op, left.remains, parent=parent)
        if op is None or (data is None) != (op == DELETE) or left.version > self._foundation.before:
            raise InvalidInput(f"{left.id} is not what a compaction leaves")
        if data is not None and canonical(decode(data, size_bytes_max=VALUE_BYTES_MAX)) != data:
            raise InvalidInput(f"the value of {left.id} is not canonical JSON")
        salt = salt_of(left, None)
        hash, parent = bytes.fromhex(left.hash), bytes.fromhex(left.parent)
        if op != PATCH and fact_hash(quoted(left.id), op, salt, data, parent) != hash:
            raise InvalidInput(f"the content of {left.id} does not match its hash")
        there = self._line.get(left.id) if left.version == self._foundation.before else None
        operations = None if there is None else there.body
        body, value = (operations, data) if op == PATCH else (data, None)
        return FactRow(
            branch, left.version, left.index, left.id, op, hash, parent, salt, body, value
        )

    def finish(self) -> None:
        """All of it is what the space's key has signed, or none of it stays."""
        space, before = self._space, self._foundation.before
        if not self.commits or self.commits[-1].version != before:
            raise _refusal("the commit at the line is missing")
        try:
            left = standing(
                self._writes.rows,
                space.number,
                self._lineage.branches,
                before=before,
                version=self._foundation.version,
            )
            faults = checkpoints.faults_of_horizon(
                self._writes, self._foundation.checkpoint, before=before, state=left.state
            )
        except InvalidInput as error:
            raise _refusal(str(error)) from error
        if faults:
            raise _refusal(faults[0])
        self._writes.rows.put_side(space.number, horizon_record(space.did, self._foundation))


def _is_live(fact: FactRow) -> bool:
    return fact.op != DELETE and fact.salt is not None


def _erased_row(
    branch: int, fact: Fact | LeftFact, op: int, remains: Remains, *, parent: bytes
) -> FactRow:
    """An erased fact as it is kept here. The digest of it all proves what its hash no longer can."""
    check_remains(op, fact.version, remains)
    hash = bytes.fromhex(fact.hash)
    proves = op != PATCH or remains.body is not None
    if proves and fact_hash_of(quoted(fact.id), op, remains.body, parent) != hash:
        raise InvalidInput(f"what remains of {fact.id} does not match its hash")
    kept = encode_remains(remains)
    return FactRow(branch, fact.version, fact.index, fact.id, op, hash, parent, None, None, kept)


def _refusal(reason: str) -> Corrupt:
    return Corrupt(
        f"what the source was compacted to is not what was left: {reason}; nothing of it was"
        " copied, run `rote verify` on the source"
    )
