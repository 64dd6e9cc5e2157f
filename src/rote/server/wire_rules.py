"""Rules for what commands of principals hold: side rows, reserved keys, and the ACL of the space.

`checked` returns a command as it goes to the kernel: with the condition that the ACL which let it in is
still the newest, and bound to the path of its principal.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import ValidationError, convert, structs

from rote.access.acl import check_usable, parse_acl
from rote.access.refusals import acl_alone, lacks_right
from rote.access.rights import Held, covers
from rote.contract import AnswerRead, Guard, OnlyIf, Port, SideRow, View
from rote.contract import commands as c
from rote.errors import InvalidInput
from rote.kernel.committing.jobs import check_structs
from rote.patch import apply
from rote.retrieval.spaces import parts_of
from rote.runs.run_rows import NotedAnswer
from rote.server.gates import Look
from rote.server.retrievals import files_in
from rote.server.side_checks import (
    check_dropped,
    check_guards,
    check_readable,
    check_reserved_key,
    check_written,
    pending_of,
)
from rote.values import Encoded, Json, decode_canonical

_MAIN = "main"
A = TypeVar("A", AnswerRead, NotedAnswer)


def checked(port: Port, space: str, look: Look, held: Held, command: Any) -> Any:
    """Return the command to ask the kernel; Denied or InvalidInput when it breaks a rule."""
    if getattr(command, "only_if", None) is not None or getattr(command, "path", None) is not None:
        raise InvalidInput("only_if and path are the server's own")

    def find(kind: str, key: str) -> SideRow | None:
        return port.answer(space, c.GetSide(kind, key))

    match command:
        case c.GetSide() | c.ListSides():
            check_readable(command.kind)
        case c.DropSide() | c.DropSides():
            check_dropped(command.kind)
        case c.PutSide():
            check_written(command.kind, command.key, command.body, find)
            command = _with_rules_in_run(port, command, space, look)
        case c.MakeCommit():
            check_structs(command.guards, Guard, "guards")
            _check_answers(command.answers)
            check_reserved_key(command.key, command.guards)
            check_guards(command.guards, find)
            answers = _askable(port, space, command.answers, path=held.path)
            command = structs.replace(command, answers=answers)
            if _writes_acl(command.operations, space):
                return _commit_of_acl(port, space, look, command)
        case c.Merge():
            command = _checked_merge(port, space, command)
        case c.Erase():
            _check_erase(space, command)
        case c.Query() | c.Values() | c.Watch():
            return structs.replace(command, path=held.path)
    return _conditioned(command, space, look.version)


def _conditioned(command: Any, space: str, version: int | None) -> Any:
    """Return a write with the condition that the ACL is as it was seen."""
    if version is None:
        return command
    if isinstance(command, c.MakeCommit):
        if type(command.reads) not in (list, tuple):
            return command  # the kernel refuses it
        read = {"id": space, "version": version, "branch": _MAIN}
        return structs.replace(command, reads=[*command.reads, read])
    if hasattr(command, "only_if"):
        return structs.replace(command, only_if=OnlyIf(space, version, _MAIN))
    return command


# -- the ACL ---------------------------------------------------------------------------------------


def _writes_acl(operations: Any, space: str) -> bool:
    return type(operations) in (list, tuple) and any(
        type(operation) is dict and operation.get("id") == space for operation in operations
    )


def _commit_of_acl(port: Port, space: str, look: Look, command: c.MakeCommit) -> c.MakeCommit:
    """Check a commit that writes the ACL: alone, on main, by an owner, and well formed afterwards."""
    operation = command.operations[0]
    if (
        len(command.operations) != 1
        or command.branch != _MAIN
        or operation.get("op") not in ("set", "patch")
        or operation.keys() - {"op", "id", "value", "ops"}
    ):
        raise acl_alone("commit")
    check_owns_all(look, "commit")
    (state,) = port.answer(space, c.Read((space,)))
    if operation["op"] == "set":
        value = _plain(operation.get("value"))
    else:
        value = apply(state.value if state.exists else None, operation.get("ops"))
    check_usable(parse_acl(value))
    version = state.version if look.version is None else look.version
    ready: c.MakeCommit = _conditioned(command, space, version)
    return ready


def check_owns_all(look: Look, command: str) -> None:
    """Check for an owner without a path."""
    owns = any(held.path is None and covers(held.right, "owner") for held in look.standing.held)
    if not owns:
        raise lacks_right(command, "owner")


def _checked_merge(port: Port, space: str, command: c.Merge) -> c.Merge:
    """Refuse a merge that would change the ACL, which is main's.

    The source may move after the look; with its condition the merge fails rather than write the ACL.
    """
    if isinstance(command.resolutions, dict) and space in command.resolutions:
        raise acl_alone("merge")
    if command.target != _MAIN:
        return command
    (ours,) = port.answer(space, c.Read((space,)))
    (theirs,) = port.answer(space, c.Read((space,), View(command.source)))
    ready = structs.replace(command, only_if=OnlyIf(space, ours.version, _MAIN))
    if ours.hash == theirs.hash:
        return ready
    rehearsed = port.answer(space, structs.replace(command, dry_run=True, key=None, attempt=None))
    touched = {*rehearsed.merged, *(conflict.id for conflict in rehearsed.conflicts)}
    if space in touched:
        raise acl_alone("merge")
    return ready


def _check_erase(space: str, command: c.Erase) -> None:
    ids = command.ids if type(command.ids) in (list, tuple) else ()
    prefix = command.prefix
    is_prefixed = type(prefix) is str and space.startswith(prefix)
    if command.id == space or space in (ids or ()) or is_prefixed:
        raise acl_alone("erase")


def _with_rules_in_run(port: Port, command: c.PutSide, space: str, look: Look) -> c.PutSide:
    """Return the row of a run whose pending commit depends on the ACL, as any commit does.

    Whoever recovers the run commits it later, when the right to write may be gone.
    """
    found = pending_of(command.kind, command.body)
    if found is None:
        return command
    run, pending = found
    if _writes_acl(pending.operations, space):
        raise acl_alone("put_side")
    answers, reads = _askable(port, space, pending.answers, path=None), pending.reads
    if look.version is not None:
        reads = [*reads, {"id": space, "version": look.version, "branch": _MAIN}]
    payload = structs.replace(pending, reads=reads, answers=answers).text()
    return structs.replace(command, body=structs.replace(run, payload=payload).body())


# -- answers that a commit relies on ---------------------------------------------------------------


def _check_answers(answers: Any) -> None:
    """Refuse answers whose members have not their types: the kernel relies on them."""
    check_structs(answers, AnswerRead, "answers")
    try:
        for answer in answers:
            convert(structs.asdict(answer), AnswerRead)
    except ValidationError as error:
        raise InvalidInput(f"answers: {error}", argument="answers") from None


def _askable(port: Port, space: str, answers: Sequence[A], *, path: str | None) -> list[A]:
    """Return the answers, without the questions that the kernel must not ask for this principal.

    It asks as the store itself. An answer from a file or another space, or for a principal with a path,
    would tell by a conflict what it may not read. Without its question an answer counts as changed.
    """
    if path is None and any(answer.call.get("name") == "retrieve" for answer in answers):
        names = {space, port.answer(space, c.Describe()).name}
    else:
        names = {space}
    return [
        answer if path is None and _is_of(names, answer.call) else structs.replace(answer, call={})
        for answer in answers
    ]


def _is_of(names: set[str], call: dict[str, Any]) -> bool:
    """Whether a question is about this space alone."""
    if call.get("name") != "retrieve":
        return True
    request = call.get("request")
    paths = request.get("store_paths") if type(request) is dict else None
    return (
        type(paths) is list
        and not files_in(request)
        and all(type(path) is str and parts_of(path)[0] in names for path in paths)
    )


def _plain(value: Json | Encoded) -> Json:
    return decode_canonical(value.data) if type(value) is Encoded else value
