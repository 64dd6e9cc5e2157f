"""The kernel: answers the Port in process, on any engine, by its table of commands.

The table names the handler of each command; a handler takes the open space and the command. A server
uses the columns for rights and ids, the kernel does not. Frozen: the names, which are on the wire.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rote.contract import (
    Caller,
    Clock,
    ContentRule,
    IdSource,
    Index,
    KeyRing,
    Matcher,
    OpenStore,
    PackedIndex,
    Questions,
    SideRule,
    SpaceInfo,
    Task,
    Tell,
    TextRule,
    TokenSource,
    Watching,
)
from rote.contract import commands as c
from rote.contract.table import Row, Table
from rote.engines import Engine
from rote.errors import InvalidInput, Unavailable
from rote.kernel.log.nonsense import NONSENSE, is_of_caller, unreadable
from rote.kernel.state.spaces import Spaces
from rote.kernel.state.wiring import Wiring
from rote.values import check_author

R = TypeVar("R")
_NOBODY = Caller()


def _id(command: Any) -> tuple[str, ...]:
    return (command.id,)


def _ids(command: Any) -> Sequence[str]:
    ids: Sequence[str] = command.ids
    return ids


def _erased(command: Any) -> Sequence[str]:
    """Return the ids that an erasure names; one by a prefix names none."""
    named: Sequence[str] = (command.id,) if command.id is not None else command.ids or ()
    return named


def _written(command: Any) -> Iterator[str]:
    """Yield the ids of operations and reads; the handler refuses operations without one."""
    for part in (*command.operations, *getattr(command, "reads", ())):
        if isinstance(part, dict) and "id" in part:
            yield part["id"]


_READING, _BLOBS = "rote.kernel.reading", "rote.kernel.blobs.blobs"
_COMMITTING, _SIDES = "rote.kernel.committing", "rote.kernel.committing.side_rows"
_KEEPING, _SPACES = "rote.kernel.keeping", "rote.kernel.state.spaces"
_BRANCHES, _COPIES = "rote.kernel.branching.branch_tasks", "rote.kernel.copying.copies"
_FOUNDATIONS = "rote.kernel.copying.foundation_copies"

# fmt: off
TABLE = Table([
    Row(c.GetTimes, "now", f"{_SPACES}:get_times", "authenticated", "free", "always"),
    Row(c.ListSpaces, "spaces", f"{_SPACES}:list_spaces", "authenticated", "free", "always",
        by_caller=True),
    Row(c.FindSpace, "space_create", f"{_SPACES}:find_space", "operator", "none", "always",
        by_caller=True),
    Row(c.EraseSpace, "space_erase", f"{_KEEPING}.space_erasures:erase_space", "operator", "none",
        "never", by_caller=True),
    Row(c.AdoptSpace, "adopt", f"{_SPACES}:adopt_space", "operator", "none", "always"),

    Row(c.Describe, "space", f"{_READING}.history:describe", "read", "free", "always"),
    Row(c.GetHead, "head", f"{_READING}.history:head", "read", "free", "always"),
    Row(c.GetVersions, "versions", f"{_READING}.versions:get_versions", "read", "free", "always"),
    Row(c.GetSnapshot, "snapshot", f"{_READING}.view_heads:snapshot", "read", "free", "always"),
    Row(c.Read, "states", f"{_READING}.entities:read", "read", "ids", "always", "states", _ids),
    Row(c.ReadPage, "read", f"{_READING}.entities:read_page", "read", "ids", "always", None, _ids),
    Row(c.GlanceAt, "glance", f"{_READING}.entities:glance", "read", "ids", "always", None, _id),
    Row(c.Scan, "scan", f"{_READING}.scans:scan", "read", "range", "always"),
    Row(c.Skip, "skip", f"{_READING}.scans:skip", "read", "range", "always", "id"),
    Row(c.GetHistory, "history", f"{_READING}.history:history", "read", "ids", "always", None, _id),
    Row(c.GetLog, "log", f"{_READING}.history:log", "read", "none", "always", "commits"),
    Row(c.Find, "find", f"{_READING}.indexes:find", "read", "none", "always", "hits"),
    Row(c.Postings, "postings", f"{_READING}.packed_indexes:postings", "read", "none", "always",
        "found"),
    Row(c.Query, "query", f"{_READING}.queries:query", "read", "walk", "always"),
    Row(c.Values, "values", f"{_READING}.queries:values", "read", "walk", "always"),
    Row(c.AwaitCommit, "await", "rote.kernel.watching.awaiting:await_commit", "read", "free",
        "always"),
    Row(c.Watch, "watch", "rote.kernel.watching.watches:watch", "read", "walk", "always"),

    Row(c.Rehearse, "rehearse", f"{_COMMITTING}.rehearsals:rehearse", "read", "ids", "always",
        "rehearsals", _written),
    Row(c.Settle, "settle", f"{_COMMITTING}.keys:settle", "read", "free", "always", "commit"),
    Row(c.GetMade, "made", f"{_COMMITTING}.keys:get_made", "read", "ids", "always", "commit", _ids),
    Row(c.MakeCommit, "commit", f"{_COMMITTING}.commits:make_commit", "write", "ids", "key",
        None, _written, by_caller=True),
    Row(c.CreateBranch, "create_branch", f"{_BRANCHES}:create_branch", "write", "none", "key",
        by_caller=True),
    Row(c.DeleteBranch, "delete_branch", f"{_BRANCHES}:delete_branch", "write", "none", "key",
        by_caller=True),
    Row(c.Merge, "merge", "rote.kernel.branching.merges:merge", "write", "none", "key",
        by_caller=True),
    Row(c.ListBranches, "branches", f"{_BRANCHES}:list_branches", "read", "free", "always",
        "branches"),
    Row(c.ListChanges, "changes", "rote.kernel.branching.diffs:list_changes", "read", "none",
        "always"),
    Row(c.Diff, "diff", "rote.kernel.branching.diffs:diff", "read", "none", "always", "changes"),

    Row(c.GetSide, "side", f"{_SIDES}:get_side", "read", "none", "always", "row"),
    Row(c.ListSides, "sides", f"{_SIDES}:list_sides", "read", "none", "always"),
    Row(c.PutSide, "put_side", f"{_SIDES}:put_side", "write", "none", "fence"),
    Row(c.DropSide, "drop_side", f"{_SIDES}:drop_side", "write", "none", "fence"),
    Row(c.DropSides, "drop_sides", f"{_SIDES}:drop_sides", "write", "none", "fence"),

    Row(c.PutPiece, "blob_piece", f"{_BLOBS}:put_piece", "write", "none", "never", "upload"),
    Row(c.DropUpload, "blob_drop", f"{_BLOBS}:drop_upload", "write", "none", "always"),
    Row(c.PutBlob, "blob_put", f"{_BLOBS}:put_blob", "write", "none", "key", "hash",
        by_caller=True),
    Row(c.GetBlobInfo, "blob_info", f"{_BLOBS}:blob_info", "read", "none", "always"),
    Row(c.ReadPiece, "blob_get", f"{_BLOBS}:read_piece", "read", "none", "always"),
    Row(c.ListBlobs, "blob_list", f"{_BLOBS}:list_blobs", "owner", "none", "always", "blobs"),
    Row(c.AdoptBlob, "adopt_blob", f"{_BLOBS}:adopt_blob", "operator", "none", "always",
        "adopted"),

    Row(c.GetVectors, "vectors", f"{_READING}.vectors:get_vectors", "read", "none", "always"),
    Row(c.PutVectors, "put_vectors", f"{_KEEPING}.vectors:put_vectors", "write", "none", "always"),
    Row(c.ListVectorNames, "vector_names", f"{_READING}.vectors:list_names", "owner", "none",
        "always", "names"),
    Row(c.VectorsOut, "vectors_out", f"{_READING}.vectors:vectors_out", "owner", "none", "always"),

    Row(c.Verify, "verify", "rote.kernel.proving.verification:verify", "read", "none", "always"),
    Row(c.MakeCheckpoint, "checkpoint", f"{_KEEPING}.checkpoints:make_checkpoint", "read", "none",
        "always"),
    Row(c.FindWritten, "find_written", f"{_KEEPING}.selections:find_written", "owner", "none",
        "always", "ids"),
    Row(c.Erase, "erase", f"{_KEEPING}.erasures:erase", "owner", "none", "key", None, _erased,
        by_caller=True),
    Row(c.Compact, "compact", f"{_KEEPING}.compactions:compact", "owner", "none", "key",
        by_caller=True),
    Row(c.CollectGarbage, "gc", f"{_KEEPING}.gc:collect", "owner", "none", "always"),
    Row(c.Reindex, "reindex", f"{_READING}.index_upkeep:reindex", "owner", "none", "always"),

    Row(c.CopyOut, "copy_out", f"{_COPIES}:copy_out", "owner", "none", "always"),
    Row(c.CopyIn, "copy_in", f"{_COPIES}:copy_in", "operator", "none", "always"),
    Row(c.FoundationOut, "foundation_out", f"{_FOUNDATIONS}:foundation_out", "owner", "none",
        "always"),
    Row(c.FoundationIn, "foundation_in", f"{_FOUNDATIONS}:foundation_in", "operator", "none",
        "always"),
    Row(c.SidesOut, "sides_out", f"{_COPIES}:sides_out", "owner", "none", "always"),
    Row(c.SidesIn, "sides_in", f"{_COPIES}:sides_in", "operator", "none", "always"),
])
# fmt: on


class Kernel:
    """The implementation of contract.Port in this process."""

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        ids: IdSource,
        tokens: TokenSource,
        keys: KeyRing,
        questions: Questions,
        caller: Caller = _NOBODY,
        seed: bytes | None = None,
        indexes: Sequence[Index | PackedIndex] = (),
        side_rules: Sequence[SideRule] = (),
        matchers: Sequence[Matcher] = (),
        content_rules: Sequence[ContentRule] = (),
        texts: TextRule | None = None,
        presumes: bool = False,
    ) -> None:
        """Wire the parts together.

        questions   asks the questions again that a commit relies on
        seed        of the key of the next space that is made
        side_rules  decide what erasures and compactions do about side rows of the layers above
        matchers    read the conditions by which layers above select entities to erase
        content_rules  decide what entities with a prefix may hold
        texts       finds the texts in values that may have vectors
        presumes    lets the kernel assume that an entity is new when it is not cached, which saves a
                    look. Not where `ids` and `clock` have to be repeatable: after a wrong guess the
                    kernel asks them once more
        """
        wiring = Wiring(
            engine=engine,
            clock=clock,
            ids=ids,
            tokens=tokens,
            keys=keys,
            questions=questions,
            indexes={each.name: each for each in indexes if not isinstance(each, PackedIndex)},
            packed={each.name: each for each in indexes if isinstance(each, PackedIndex)},
            side_rules={rule.kind: rule for rule in side_rules},
            matchers=tuple(matchers),
            content_rules=tuple(content_rules),
            guarded=tuple(rule.prefix for rule in content_rules),
            texts=texts,
            port=lambda: self,
            presumes=presumes,
            open_store=OpenStore(engine.mark),
        )
        self.spaces = Spaces(wiring, seed=seed)
        self._bind(caller)

    def _bind(self, caller: Caller) -> None:
        self._is_library = caller.is_library
        self._opened = self.spaces.reserved if caller.is_library else self.spaces.opened
        self._handlers = _Handlers(caller, are_workers=False)
        self._workers = _Handlers(caller, are_workers=True)

    def for_caller(self, caller: Caller) -> "Kernel":
        if caller.author is not None:
            check_author(caller.author)
        bound = Kernel.__new__(Kernel)
        bound.spaces = self.spaces
        bound._bind(caller)
        return bound

    @property
    def open_store(self) -> OpenStore:
        return self.spaces.wiring.open_store

    def answer(self, space: str, command: c.Command[R]) -> R:
        try:
            answer: R = self._handlers[type(command)](
                self._opened.get(space) or self._open(space, command), command
            )
        except NONSENSE as error:
            if is_of_caller(error):
                raise
            raise unreadable(error) from error
        return answer

    def begin(self, space: str, command: c.Work[R]) -> Task[R]:
        if not isinstance(command, c.Work):
            raise InvalidInput("only work is begun; a command is answered")
        handler, opened = self._workers[type(command)], self._open(space, command)
        return KernelTask(lambda tell: handler(opened, command, tell))

    def watch(self, space: str, command: c.Watch) -> Watching:
        if not isinstance(command, c.Watch):
            raise InvalidInput("only a watch is watched; a command is answered")
        watching: Watching = self.answer(space, command)  # type: ignore[assignment]
        return watching

    def close(self) -> None:
        try:
            self.spaces.wiring.engine.close()
        finally:
            self.open_store.forget(None)

    def _open(self, space: str, command: c.Command[Any]) -> Any:
        if isinstance(command, c.StoreCommand):
            return self.spaces
        if type(space) is not str or not space:
            raise InvalidInput("say which space is asked, by its did")
        return self.spaces.open(space, is_library=self._is_library)

    # -- calls for this machine alone (contract.Local) ---------------------------------------------

    def backup(self, path: Path) -> None:
        """Write everything, as of now, to a new SQLite file."""
        self.spaces.wiring.engine.backup(path)

    def seed(self, space: str) -> bytes:
        """Return the private key of a space; Denied where it is not at hand."""
        return self.spaces.seed(self.spaces.open(space).did)

    def adopt(self, did: str, name: str, seed: bytes) -> SpaceInfo:
        """Find or make the space of a did that another store has made, and keep its private key."""
        return self.spaces.adopt(did, name, seed)


class _Handlers(dict[type[c.Command[Any]], Callable[..., Any]]):
    """Handlers by command, each loaded at its first call and bound to the caller."""

    def __init__(self, caller: Caller, *, are_workers: bool) -> None:
        super().__init__()
        self._caller = caller
        self._are_workers = are_workers

    def __missing__(self, command: type[c.Command[Any]]) -> Callable[..., Any]:
        row = TABLE.row(command)
        if issubclass(command, c.Work) != self._are_workers:
            raise InvalidInput(f"{row.name} is begun, not answered: it takes long")
        handler = row.load()
        self[command] = partial(handler, caller=self._caller) if row.by_caller else handler
        return self[command]


class KernelTask(Task[R]):
    """Work that runs in the thread that asks for its result."""

    def __init__(self, work: Callable[[Tell], R]) -> None:
        self._work: Callable[[Tell], R] | None = work
        self._is_cancelled = False
        self._told_error: Exception | None = None  # raised by the caller's own function

    def result(self, tell: Tell | None = None) -> R:
        def told(what: str, done: int, total: int) -> None:
            if self._is_cancelled:
                raise Unavailable("the work was cancelled; begin it again", code="cancelled")
            try:
                if tell is not None:
                    tell(what, done, total)
            except NONSENSE as error:
                self._told_error = error
                raise

        work, self._work = self._work, None
        if work is None:
            raise InvalidInput("the result of this work was asked for already; begin it again")
        told("beginning", 0, 0) if self._is_cancelled else None
        try:
            return work(told)
        except NONSENSE as error:
            if error is self._told_error:
                raise
            raise unreadable(error) from error

    def cancel(self) -> None:
        self._is_cancelled = True
