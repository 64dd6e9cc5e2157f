"""Entities by GET, PUT, PATCH and DELETE: one value each, with its fact's hash as its ETag."""

import re
from typing import Any

from msgspec.json import encode

from rote.contract import Commit, State, View
from rote.contract.commands import GetHead, MakeCommit, Read
from rote.contract.wire import encode_answer
from rote.errors import Conflict, InvalidInput, NotFound, ReadConflict
from rote.kernel.kernel import TABLE as KERNEL
from rote.server.messages import Head, Headers, Http, Response
from rote.server.parameters import AT, BRANCH, Parameter, parameters, version_at
from rote.server.requests import once_in
from rote.server.rows import note_commit
from rote.server.statuses import JSON, error_response
from rote.server.visits import Visit, visit
from rote.values import decode
from rote.values.limits import VALUE_BYTES_MAX

ID = Parameter("id", "text", "The id of the entity.", required=True)
READ = (ID, BRANCH, AT)
WRITTEN = (ID, BRANCH)

_ETAGS = re.compile(r'\s*(?:W/)?"([^"]*)"\s*(?:,|$)').match
_ANY = "*"


def get_entity(http: Http) -> Response:
    given = parameters(http.head, *READ)
    visited = visit(http, "read")
    version = version_at(visited.port, visited.space, given.get("at"))
    (state,) = visited.answer(Read((given["id"],), View(given.get("branch", "main"), version)))
    if not state.exists:
        raise _absent(state)
    headers = _named(state.hash, state.version)
    known = _etags(http.head, b"if-none-match")
    if known is not None and (known == _ANY or state.hash in known):
        return Response(304, headers)
    return Response(200, (JSON, *headers), encode(state.value))


def put_entity(http: Http) -> Response:
    return _written(http, "entity_put", {"op": "set", "value": _value(http.body)})


def patch_entity(http: Http) -> Response:
    return _written(http, "entity_patch", {"op": "patch", "ops": _value(http.body)})


def delete_entity(http: Http) -> Response:
    if http.body:
        raise InvalidInput("a delete has no body")
    return _written(http, "entity_delete", {"op": "delete"})


def _value(body: bytes) -> Any:
    return decode(body, size_bytes_max=max(len(body), VALUE_BYTES_MAX))


def _written(http: Http, row: str, operation: dict[str, Any]) -> Response:
    given = parameters(http.head, *WRITTEN)
    once = once_in(http.head)
    visited = visit(http, row)
    id, branch = given["id"], given.get("branch", "main")
    wanted = MakeCommit([{**operation, "id": id}], branch, key=once.key, attempt=once.attempt)
    try:
        commit = _committed(visited, wanted, http.head)
    except Conflict as error:
        if not {b"if-match", b"if-none-match"} & {name for name, _ in http.head.headers}:
            raise
        return error_response(error, status=412)
    note_commit(http.seen, commit)
    fact = commit.facts[-1] if commit.facts else None
    named = () if fact is None else _named(fact.hash, fact.version)
    body = encode_answer(KERNEL.row(MakeCommit), commit).head
    return Response(200, (JSON, *named), body)


def _committed(visited: Visit, wanted: MakeCommit, head: Head) -> Commit:
    """Commit under the condition of the headers, which is a read of the entity."""
    matching, unmatching = _etags(head, b"if-match"), _etags(head, b"if-none-match")
    if matching is None and unmatching is None:
        made: Commit = visited.answer(wanted)
        return made
    id = wanted.operations[0]["id"]
    (state,) = visited.answer(Read((id,), View(wanted.branch)))
    if _holds(state, matching, unmatching):
        reads = [{"id": id, "version": state.version, "branch": wanted.branch}]
        made = visited.answer(_with(wanted, reads=reads))
        return made
    is_repeatable = wanted.key is not None or wanted.attempt is not None
    if is_repeatable and visited.answer(GetHead()).version > 0:
        # A repetition gets the first answer, though its own write has changed the entity. With this
        # condition nothing new is written: a key or an attempt that was used has made a version.
        try:
            made = visited.answer(_with(wanted, unchanged_since=0))
            return made
        except Conflict:
            pass
    raise Conflict((_conflict(state, wanted.branch),))


def _with(wanted: MakeCommit, **changes: Any) -> MakeCommit:
    members = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    return MakeCommit(**{**members, **changes})


def _holds(
    state: State, matching: str | set[str] | None, unmatching: str | set[str] | None
) -> bool:
    if matching == _ANY and not state.exists:
        return False
    if isinstance(matching, set) and state.hash not in matching:
        return False
    if unmatching == _ANY and state.exists:
        return False
    return not (isinstance(unmatching, set) and state.exists and state.hash in unmatching)


def _conflict(state: State, branch: str) -> ReadConflict:
    return ReadConflict.of_entity(
        state.id, branch=branch, expected_version=0, actual=(state.version, state.hash)
    )


def _etags(head: Head, name: bytes) -> str | set[str] | None:
    """Return the hashes of a header, `*`, or None without it; InvalidInput for anything else."""
    value = head.one(name)
    if value is None:
        return None
    text = value.decode("latin-1").strip()
    if text == _ANY:
        return _ANY
    found, place = set(), 0
    while place < len(text):
        match = _ETAGS(text, place)
        if match is None:
            break
        found.add(match[1])
        place = match.end()
    if not found or place < len(text):
        raise InvalidInput(f'the header {name.decode()} has the form "<hash>", or *')
    return found


def _named(hash: str | None, version: int) -> Headers:
    if hash is None:
        return ()
    return ((b"etag", f'"{hash}"'.encode()), (b"rote-entity-version", b"%d" % version))


def _absent(state: State) -> NotFound:
    if state.hash is None:
        return NotFound(f"there is no entity {state.id!r:.80}", id=state.id)
    return NotFound(
        f"the entity {state.id!r:.80} was deleted in version {state.version}",
        deleted=True,
        version=state.version,
        hash=state.hash,
    )
