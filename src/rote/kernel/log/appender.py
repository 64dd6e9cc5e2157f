"""The one way to append to the log: hash facts and commits, make their rows, move pointers.

committing   draws the salts                                 ┐
adoption     compares each hash with the one that came       ├─►  Appender  ─►  one transaction
founding     has facts without the history below them        ┘

The hashes are frozen, see chain.py.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from rote.contract import Commit
from rote.engines import Writer
from rote.engines.rows import (
    Batch,
    BranchRow,
    CommitRow,
    EntityRow,
    FactRow,
    SideRecord,
)
from rote.kernel.log.chain import commit_hash, empty_hash, fact_hash_of, salted_digest
from rote.kernel.log.entries import Entry
from rote.kernel.log.erased_facts import digest_in
from rote.kernel.log.key_rows import made_record
from rote.kernel.log.seals import KEY
from rote.values import canonical

# One fact to append: the entity's id, the id as JSON, the operation, its body, the value to store
# beside it (a snapshot, or the remains of an erased fact), the entry before and the entry after. The
# entry after has a salt, which is None for an erased fact, and no version yet. It has a hash only
# when that cannot be computed any more. A plain tuple, because one is made for every operation.
Step = tuple[str, str, int, bytes | None, bytes | None, Entry, Entry]


class _Pending(Struct, kw_only=True):
    """Rows that wait to be written. A class of its own, so that its fields are keyword only and a
    draft can be made by position, which is faster."""

    commits: list[CommitRow] = field(default_factory=list)
    facts: list[FactRow] = field(default_factory=list)
    entries: dict[tuple[int, str], Entry] = field(default_factory=dict)  # after the facts
    entities: dict[tuple[int, str], EntityRow] = field(default_factory=dict)  # pointers that move
    branches: dict[int, BranchRow] = field(default_factory=dict)  # new and changed ones
    sides: dict[tuple[str, str], SideRecord | None] = field(default_factory=dict)  # None: dropped


class Appender(_Pending):
    """All that one transaction is about to append to one space."""

    did: str  # of the space
    version: int  # of the newest commit, appended ones included
    hash: bytes | None
    at: int  # of the newest commit

    def append_facts(
        self, branch: BranchRow, version: int, steps: Iterable[Step], first: int = 0
    ) -> list[FactRow]:
        """Hash the steps into facts of the commit at `version`, the first at index `first`."""
        number, fork_version = branch.branch, branch.fork_version
        entries, pointers = self.entries, self.entities
        facts: list[FactRow] = []
        for index, (id, quoted_id, op, body, value, before, after) in enumerate(steps, first):
            salt, hash = after.salt, after.hash
            parent = before.hash or empty_hash(quoted_id)
            if hash is None:
                digest = digest_in(value) if salt is None else salted_digest(salt, body)
                after.hash = hash = fact_hash_of(quoted_id, op, digest, parent)
            after.version, after.index = version, index
            facts.append(FactRow(number, version, index, id, op, hash, parent, salt, body, value))
            key = (number, id)
            live, was_live = after.exists, before.exists
            # A pointer stays where it is while the entity lives on: so its page is not written.
            if not (live and was_live and before.version > fork_version):
                revived = before.version > 0 and not was_live
                if key in pointers:
                    revived = revived or pointers[key].revived
                pointers[key] = EntityRow(number, id, version, index, live, revived)
            entries[key] = after
        self.facts += facts
        return facts

    def append_commit(
        self,
        branch: BranchRow,
        version: int,
        facts: Sequence[FactRow],
        *,
        at: int,
        shown_at: str,
        author: str | None,
        key: str | None,
        meta: bytes | None,
        event: bytes | None,
        attempt: bytes,
        hash: bytes | None = None,
    ) -> CommitRow:
        """Chain a commit of these facts to the newest.

        `hash` is given only when the facts of the commit are gone and it cannot be computed.
        """
        if hash is None:
            hash = commit_hash(
                space=self.did,
                version=version,
                branch=branch.name,
                previous=self.hash,
                facts=facts,
                at=shown_at,
                author=author,
                key=key,
                meta=meta,
                event=event,
            )
        row = CommitRow(version, branch.branch, hash, at, author, key, meta, event, attempt)
        self.version, self.hash, self.at = version, hash, at
        self.commits.append(row)
        return row

    def append_copy(
        self,
        branch: BranchRow,
        commit: Commit,
        facts: Sequence[FactRow],
        *,
        at: int,
        attempt: bytes,
        hash: bytes | None = None,
    ) -> CommitRow:
        """Chain a commit that another store has made; `hash` as in append_commit."""
        return self.append_commit(
            branch,
            commit.version,
            facts,
            at=at,
            shown_at=commit.at,
            author=commit.author,
            key=commit.key,
            meta=commit.meta_data,
            event=None if commit.event is None else canonical(commit.event),
            attempt=attempt,
            hash=hash,
        )

    def note_key(self, key: str, payload: str | None, *, kind: str = KEY) -> None:
        """Note that the newest commit was made for this key or attempt, and the digest of its payload."""
        self.sides[(kind, key)] = made_record(self.did, kind, key, self.version, payload)

    def write(self, rows: Writer, space: int) -> None:
        """Write all rows to the engine."""
        entities, branches = list(self.entities.values()), list(self.branches.values())
        rows.append(space, Batch(self.commits, self.facts, entities, branches))
        for (kind, key), row in self.sides.items():
            if row is None:
                rows.drop_side(space, kind, key)
            else:
                rows.put_side(space, row)
