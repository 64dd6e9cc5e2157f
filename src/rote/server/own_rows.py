"""The server's own commands: memories, retrieval, runs, the ACL, and what only routes ask for."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from rote.contract import Commit, Port
from rote.contract.commands import Read
from rote.contract.table import PathRule, Right
from rote.contract.wire import encode_value
from rote.server.ledgers import (
    ReceiptAdded,
    RunCommitted,
    RunPage,
    RunsAsked,
    commit_run,
    list_runs,
    put_receipt,
)
from rote.server.memories import (
    VERBS,
    AttemptPort,
    MemoryCall,
    call_verb,
    ids_of,
    is_repeatable,
    range_of,
)
from rote.server.messages import Seen
from rote.server.retrievals import RetrieveAsked, examine_for
from rote.server.rows import Asked, Bound, ServerRow, note_commit, note_head
from rote.server.visits import held
from rote.space import Space
from rote.space.receipts import add_receipt


class Nothing(Struct, frozen=True):
    """No arguments."""


def memory_row(name: str) -> ServerRow:
    """Return the row of a verb of memories."""
    verb = VERBS[name]

    def answer(asked: Asked) -> bytes:
        call: MemoryCall = asked.arguments
        port = asked.port if call.attempt is None else AttemptPort(asked.port, call.attempt)
        space = held(asked.service.store, port, asked.space)
        result = call_verb(space, name, call)
        if verb.right != "read":
            head = asked.service.look(asked.seen)  # that of its commit, or later
            note_head(asked.seen, head, is_repeatable=is_repeatable(name, call))
        return encode(result)

    return ServerRow(
        name,
        verb.right,
        verb.path,
        True,
        MemoryCall,
        answer,
        bound="commit_bytes",
        commits=verb.right != "read",
        ids=(lambda call: ids_of(name, call)) if verb.path == "ids" else None,
        range=(lambda call: range_of(name, call)) if verb.path == "range" else None,
        answers=dict[str, Any],
    )


def _answer_retrieve(asked: Asked) -> bytes:
    service = asked.service

    def open_space(name: str) -> Space:
        """Open a source for one who may read all records in it."""
        seen = Seen()
        port = service.enter(asked.principal, "memory_search", name, seen)
        port.name(MemoryCall())
        return held(service.store, port, seen.space or "")

    found = examine_for(
        asked.arguments, open_space=open_space, root=service.settings.retrieval_root
    )
    if found.spaces and not service.store.read_only:
        # The server's to write: who asks needs no right but to read.
        add_receipt(service.port, found.spaces[0].did, found.receipt, since=found.since)
    return encode(found.package)


def _answer_runs(asked: Asked) -> bytes:
    return encode(list_runs(asked.port, asked.space, asked.arguments))


def _answer_commit_run(asked: Asked) -> bytes:
    commit = commit_run(asked.port, asked.space, asked.arguments)
    note_commit(asked.seen, commit)
    return encode_value(commit)


def _answer_receipt_add(asked: Asked) -> bytes:
    put_receipt(asked.port, asked.space, asked.arguments)
    return b"{}"


class AclRead(Struct, frozen=True):
    """The ACL of a space, as it is written."""

    acl: Any  # None: never written
    version: int  # of the fact; 0 without one


def _answer_acl_read(asked: Asked) -> bytes:
    return encode(read_acl(asked.port, asked.space))


def read_acl(port: Port, space: str) -> AclRead:
    (state,) = port.answer(space, Read((space,)))
    return AclRead(state.value, state.version)


def _row(  # noqa: PLR0917 - rows of a table
    name: str,
    right: Right,
    path: PathRule,
    arguments: type[Struct],
    answer: Callable[[Asked], bytes],
    answers: Any,
    *,
    space: bool = True,
    bound: Bound = "body_bytes",
    is_long: bool = False,
    commits: bool = False,
) -> ServerRow:
    return ServerRow(
        name, right, path, space, arguments, answer,
        bound=bound, is_long=is_long, commits=commits, answers=answers,
    )  # fmt: skip


def _by_route(
    name: str, right: Right, path: PathRule, *,
    space: bool = True, bound: Bound = "body_bytes", commits: bool = False,
) -> ServerRow:  # fmt: skip
    """Return the row of what has only routes: they answer it themselves."""

    def refuse(asked: Asked) -> bytes:
        raise AssertionError(f"{name} is answered by its routes")

    return ServerRow(
        name, right, path, space, Nothing, refuse, bound=bound, way="routes", commits=commits
    )


OWN_ROWS: tuple[ServerRow, ...] = (
    *(memory_row(name) for name in VERBS),
    _row(
        "retrieve", "authenticated", "free", RetrieveAsked, _answer_retrieve, dict[str, Any],
        space=False, is_long=True,
    ),
    _row("runs", "read", "none", RunsAsked, _answer_runs, RunPage),
    _row("commit_run", "write", "none", RunCommitted, _answer_commit_run, Commit, commits=True),
    _row("receipt_add", "write", "none", ReceiptAdded, _answer_receipt_add, None),
    _row("acl_read", "read", "none", Nothing, _answer_acl_read, AclRead),
    _by_route("entity_put", "write", "ids", bound="commit_bytes", commits=True),
    _by_route("entity_patch", "write", "ids", bound="commit_bytes", commits=True),
    _by_route("entity_delete", "write", "ids", commits=True),
    _by_route("export", "read", "none"),
    _by_route("metrics", "operator", "none", space=False),
    _by_route("openapi", "open", "free", space=False),
    _by_route("hello", "open", "free", space=False),
    _by_route("health", "open", "free", space=False),
    _by_route("ready", "open", "free", space=False),
)  # fmt: skip
