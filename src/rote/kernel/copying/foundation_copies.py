"""Copying the foundation of a compacted space into a store where the space is empty.

    out    pages: first the commits that are left, up to the one at the horizon, which has its facts;
           then the facts that are left, each with the value after it
    in     one transaction, which leads from the empty space to the commit at the horizon

The source is not trusted. The hashes of most facts and commits cannot be recomputed any more, so the
digest of the whole foundation, which the space's key has signed, proves them together.
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
from rote.engines.rows import BranchRow, CommitRow, FactRow
from rote.errors import Corrupt, InvalidInput, LimitExceeded, NotFound
from rote.kernel.blobs.blob_data import chunks_of, token_of
from rote.kernel.committing.side_rows import sealed_row
from rote.kernel.copying.adoption import (
    OPERATIONS,
    check_facts,
    check_names,
    emptied,
    payload_of,
    salt_of,
)
from rote.kernel.keeping import checkpoints
from rote.kernel.log.appender import Appender, Step
from rote.kernel.log.branch_replay import Lineage
from rote.kernel.log.chain import OPERATION_NAMES
from rote.kernel.log.commits import commit_of
from rote.kernel.log.entries import ABSENT, Entry
from rote.kernel.log.erased_facts import remains_in
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
from rote.values.limits import MESSAGE_BYTES_MAX, PAGE_BYTES_MAX, VALUE_BYTES_MAX

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
        foundation.before,
        foundation.version,
        foundation.checkpoint,
        tuple(commits),
        tuple(keys),
        tuple(facts),
        place,
        tuple(remains),
    )


def _items(
    reads: SpaceReader, before: int, after: FoundationCursor
) -> Iterator[tuple[FoundationCursor, Commit | LeftFact, int]]:
    """Yield (place, item, size) of every commit and fact above a place."""
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
        is_horizon = row.version == before
        facts = reads.rows.facts(reads.number, after=before - 1, until=before) if is_horizon else []
        if row.version > after:
            known = previous if is_horizon else None
            branch = reads.space.branches.name(row.branch)
            yield commit_of(row, facts, previous=known, branch=branch)
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
    """Write the whole foundation durably; or raise and write nothing."""
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
            [] if founding is None or founding.newest is None else [founding.newest],
            error,
            refusal="the store failed while committing; nothing was written, run the copy again",
        )
    assert founding is not None and founding.newest is not None
    horizon = founding.newest
    return Head(horizon.version, horizon.hash.hex(), horizon.at)


def _pages_in(rows: Reader, space: int, upload: str) -> Iterator[FoundationPage]:
    """Yield the pages of an upload, which holds the JSON of one page per line of text."""
    parts: list[bytes] = []  # of a line that has not ended
    size = 0
    for chunk in chunks_of(rows, space, token_of(upload)):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield _page_in(b"".join([*parts, line]))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MESSAGE_BYTES_MAX:
            raise _refusal("a line of it is longer than a page can be")
    if size:
        raise _refusal("its last line is cut off")


def _page_in(line: bytes) -> FoundationPage:
    try:
        return decode_page(line)
    except (InvalidInput, LimitExceeded) as error:
        raise _refusal(str(error)) from error


class _Founding:
    """Write a foundation page by page into one transaction, and prove it at its end."""

    def __init__(
        self, writes: SpaceWriter, page: FoundationPage, attempt: Callable[[], bytes]
    ) -> None:
        check_foundation_page(page)
        self._space = writes.space
        self._writes = writes
        self._attempt = attempt
        self._foundation = Foundation(page.before, page.version, page.checkpoint, 1)
        self._lineage = Lineage(writes.space.did)
        self._appender = Appender(writes.space.did, 0, None, 0)
        self._place = _START
        self._last = ((0, ""), ABSENT)  # branch and id of the last fact, the entity after it
        self._horizon: dict[str, FactRow] = {}  # the last facts of the commit at the horizon, by id
        self.newest: CommitRow | None = None  # at the end: the commit at the horizon

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
            self._flush()
            self._facts(page.facts)
        except (InvalidInput, LimitExceeded, NotFound) as error:
            raise _refusal(str(error)) from error

    def _pass(self, place: FoundationCursor) -> None:
        if not self._place < place:
            raise InvalidInput("it is not in order")
        self._place = place

    def _flush(self) -> None:
        """Write the rows so far, and go on with an empty appender."""
        appender = self._appender
        if appender.commits or appender.facts:
            appender.write(self._writes.rows, self._space.number)
        self._appender = Appender(appender.did, appender.version, appender.hash, appender.at)

    # -- commits -----------------------------------------------------------------------------------

    def _commit(self, commit: Commit, keys: dict[str, SideRow]) -> None:
        is_horizon = commit.version == self._foundation.before
        if commit.version > self._foundation.before or (commit.facts and not is_horizon):
            raise InvalidInput(f"commit {commit.version} is not one that was left")
        appender, branch, at = self._appender, self._record(commit), parse_time(commit.at)
        if format_time(at) != commit.at or at < appender.at:
            raise InvalidInput("the time of a commit is malformed, or before that of another")
        if is_horizon and appender.version != commit.version - 1:
            raise InvalidInput("the commit before the line is missing")
        steps = [self._horizon_step(commit, fact, index) for index, fact in enumerate(commit.facts)]
        facts = appender.append_facts(branch, commit.version, steps)
        check_facts(facts, commit.facts)
        # Only the hash of the commit at the horizon can be recomputed. The hashes of the others
        # cover facts that are gone, so they are stored as they came.
        hash = bytes.fromhex(commit.hash)
        given = None if is_horizon else hash
        self.newest = appender.append_copy(
            branch, commit, facts, at=at, attempt=self._attempt(), hash=given
        )
        if self.newest.hash != hash:
            raise InvalidInput("the commit at the line does not match its hash")
        self._horizon = {fact.id: fact for fact in facts}
        if commit.key is not None:
            appender.note_key(commit.key, payload_of(commit, keys.get(commit.key)))

    def _record(self, commit: Commit) -> BranchRow:
        """Apply the event of a commit; return its branch afterwards."""
        happening = check_names(commit)
        if happening is not None or commit.version == self._foundation.before:
            row = self._lineage.follow(
                happening, branch=commit.branch, version=commit.version, facts=len(commit.facts)
            )
            if row is not None:
                self._appender.branches[row.branch] = row
        return self._lineage.branches.find(commit.branch)

    def _horizon_step(self, commit: Commit, fact: Fact, index: int) -> Step:
        if (fact.version, fact.index) != (commit.version, index):
            raise InvalidInput(f"{fact.id} is not of the commit at the line")
        return _step(fact, next(self._remains) if fact.erased else None)

    # -- facts -------------------------------------------------------------------------------------

    def _facts(self, facts: Iterable[LeftFact]) -> None:
        results: list[FactRow] = []  # facts of the commit at the horizon, with their results
        for left in facts:
            self._pass((left.branch, left.id, left.version))
            check_entity_id(left.id)
            step = _step(left, left.remains)
            _check_value(left)
            if left.version == self._foundation.before:
                results.append(self._result(left))
            else:
                self._fact(left, step)
        self._flush()
        if results:
            self._writes.rows.rewrite_facts(self._space.number, results)

    def _result(self, left: LeftFact) -> FactRow:
        """Return the fact of the commit at the horizon; a patch gets the value after it."""
        fact = self._horizon.get(left.id)
        if fact is not None and fact.op == PATCH and fact.salt is not None:
            fact = structs.replace(fact, value=left.data)
        if fact is None or _left(self._lineage.branches.name(fact.branch), fact) != left:
            raise InvalidInput(f"{left.id} is not what the commit at the line left")
        return fact

    def _fact(self, left: LeftFact, step: Step) -> None:
        """Append a fact below the horizon, and check its hash if that can be recomputed."""
        branch = self._lineage.branches.find(left.branch)
        id, quoted_id, op, body, value, before, after = step
        place = (branch.branch, id)
        if op == PATCH and (left.remains is None or left.remains.body is None):
            # Its operations are gone, so its hash is stored as it came; the signed digest proves it.
            after.hash = bytes.fromhex(left.hash)
            body, value = None, value or body
        if self._last[0] == place:
            before.version, before.exists = self._last[1].version, self._last[1].exists
        self._last = (place, after)
        step = (id, quoted_id, op, body, value, before, after)
        facts = self._appender.append_facts(branch, left.version, [step], left.index)
        check_facts(facts, [left])
        newest = self._horizon.get(id)
        if newest is not None and newest.branch == branch.branch:
            # The commit at the horizon wrote the entity again, and its pointer leads there.
            self._appender.entities.pop(place, None)

    def finish(self) -> None:
        """Raise Corrupt unless the whole foundation is what the space's key has signed; note the horizon."""
        space, before = self._space, self._foundation.before
        if self.newest is None or self.newest.version != before:
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


def _step(fact: Fact | LeftFact, remains: Remains | None) -> Step:
    """Return the step of a fact as it came; of the entity before it only the hash is known."""
    op = OPERATIONS.get(fact.op)
    if op is None or (remains is None and (fact.data is None) != (op == DELETE)):
        raise InvalidInput(f"{fact.id} is not what a compaction leaves")
    before = Entry(0, bytes.fromhex(fact.parent), None, False)
    if remains is None:
        after, kept = Entry(0, None, salt_of(fact, None), op != DELETE), None
    else:
        after, kept = emptied(op, fact, remains)
    return fact.id, quoted(fact.id), op, fact.data, kept, before, after


def _check_value(left: LeftFact) -> None:
    data = left.data
    if data is not None and canonical(decode(data, size_bytes_max=VALUE_BYTES_MAX)) != data:
        raise InvalidInput(f"the value of {left.id} is not canonical JSON")


def _refusal(reason: str) -> Corrupt:
    return Corrupt(
        f"what the source was compacted to is not what was left: {reason}; nothing of it was"
        " copied, run `rote verify` on the source"
    )
