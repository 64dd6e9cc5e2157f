"""Making, deleting and listing branches. Frozen: the events, docs/formats/chain.md."""

from msgspec import Struct

from rote.contract import Branch, Caller, Commit
from rote.contract.commands import CreateBranch, DeleteBranch, ListBranches
from rote.engines.rows import MAIN
from rote.errors import Compacted, InvalidInput, VersionNotFound
from rote.kernel.committing.commits import commit_task
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, Prepared
from rote.kernel.log.branch_rows import created_row, deleted_row
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import Json, canonical, check_branch_name


class Creation(Struct, frozen=True):
    """Make a branch."""

    request: CreateBranch

    def prepare(self, draft: Draft, job: Job) -> Prepared:
        request, branches = self.request, draft.space.branches
        if request.name in branches:
            raise InvalidInput(
                f"there is, or was, a branch {request.name!r}; names are not used again, take"
                " another one",
                branch=request.name,
            )
        parent = branches.find(request.parent)
        fork_version = draft.version if request.fork_version is None else request.fork_version
        if fork_version > draft.version:
            raise VersionNotFound(fork_version, newest=draft.version)
        if 0 < fork_version < draft.space.oldest:
            raise Compacted(fork_version, oldest=draft.space.oldest)
        row = created_row(
            draft.space.did,
            branches,
            request.name,
            parent=parent,
            fork_version=fork_version,
            version=draft.version + 1,
        )
        event = {
            "type": "branch.create",
            "name": row.name,
            "parent": parent.name,
            "fork_version": fork_version,
        }
        return Prepared(row, canonical(event), row)


class Deletion(Struct, frozen=True):
    """Delete a branch: it can still be read, and no longer written."""

    name: str

    def prepare(self, draft: Draft, job: Job) -> Prepared:
        row = draft.space.branches.find(self.name)
        if row.branch == MAIN:
            raise InvalidInput("main cannot be deleted", branch=self.name)
        if row.deleted_version is not None:
            raise InvalidInput(f"the branch {self.name!r} was deleted already", branch=self.name)
        gone = deleted_row(draft.space.did, row, draft.version + 1)
        return Prepared(gone, canonical({"type": "branch.delete", "name": self.name}), gone)


def create_branch(space: OpenSpace, command: CreateBranch, caller: Caller) -> Commit:
    check_branch_name(command.name)
    check_branch_name(command.parent)
    version = command.fork_version
    if version is not None and (type(version) is not int or version < 0):
        raise InvalidInput("a branch is made at a version, an integer from 0 on")
    call: dict[str, Json] = {
        "name": "create_branch",
        "branch": command.name,
        "parent": command.parent,
        "fork_version": version,
    }
    task = Creation(command)
    made = commit_task(space, task, command.name, command, call=call, caller=caller)
    assert made is not None
    return made


def delete_branch(space: OpenSpace, command: DeleteBranch, caller: Caller) -> Commit:
    name = command.name
    check_branch_name(name)
    call: dict[str, Json] = {"name": "delete_branch", "branch": name}
    made = commit_task(space, Deletion(name), name, command, call=call, caller=caller)
    assert made is not None
    return made


def list_branches(space: OpenSpace, command: ListBranches) -> tuple[Branch, ...]:
    """Return the branches as of a version, oldest first."""
    reads = space.reader()
    return reads.steadily(command.version, lambda at: _branches_at(reads, at))


def _branches_at(reads: SpaceReader, at: int) -> tuple[Branch, ...]:
    graph = reads.graph()
    rows = [row for row in reads.space.branches.rows() if row.created_version <= at]
    written = reads.rows.last_written(reads.number, tuple([(row.branch, at) for row in rows]))
    found = []
    for row in sorted(rows, key=lambda row: row.branch):
        deleted = 0 < (row.deleted_version or 0) <= at
        head_version = max(written.get(row.branch, 0), graph.last_event(row.branch, at))
        parent = None if row.parent is None else reads.space.branches.name(row.parent)
        found.append(
            Branch(row.name, parent, row.fork_version, row.created_version, head_version, deleted)
        )
    return tuple(found)
