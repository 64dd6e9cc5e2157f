"""Lists of what a space holds, for people: pages as JSON, or everything as lines, in one state.

Lines are read page by page as the client takes them, so that a long answer costs no memory.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.json import encode

from rote.bridges.exports import export_records
from rote.contract import Commit, Fact, State, View, paged
from rote.contract.commands import (
    Describe,
    GetHead,
    GetHistory,
    GetLog,
    ListBranches,
    Read,
    Scan,
)
from rote.contract.wire import encode_value
from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.server.entities import ID
from rote.server.memories import known_namespaces
from rote.server.messages import Http, Response
from rote.server.parameters import AT, BRANCH, LIMIT, Parameter, parameters, version_at
from rote.server.visits import Visit, answer_json, held, json, streamed, takes_lines, visit
from rote.values import canonical, check_branch_name, parse_time
from rote.values.limits import PAGE_MAX
from rote.values.ranges import prefix_end

PREFIX = Parameter("prefix", "text", "Only entities whose ids begin with it.")
AFTER = Parameter("after", "text", "Only what comes after it, in the order of the list.")
BEFORE_PLACE = Parameter("before", "place", "Only facts below this version and index, like 17.0.")
SINCE = Parameter("since", "integer", "Only commits above this version.")
BEFORE = Parameter("before", "integer", "Only commits below this version.")
NEWEST = Parameter("newest", "flag", "Newest first.")
VERSION = Parameter("version", "integer", "As of this version.")
FORMAT = Parameter("format", "text", "jsonl: one record a line.", required=True)

SPACES = (AFTER, LIMIT)
ENTITIES = (PREFIX, AFTER, LIMIT, BRANCH, AT)
HISTORY = (ID, LIMIT, BEFORE_PLACE, BRANCH)
LOG = (SINCE, BEFORE, NEWEST, LIMIT)
BRANCHES = (VERSION,)
HEAD = (AT,)
EXPORT = (FORMAT, BRANCH, AT)


def get_entities(http: Http) -> Response:
    given = parameters(http.head, *ENTITIES)
    visited = visit(http, "scan")
    branch, prefix = given.get("branch", "main"), given.get("prefix", "")
    view = View(branch, version_at(visited.port, visited.space, given.get("at")))
    command = Scan(prefix, prefix_end(prefix), given.get("after"), _page(given), view)
    if not takes_lines(http):
        return answer_json(visited, command)
    view = _pinned(visited, view)

    def ask(after: str | None, size: int) -> tuple[Sequence[State], str | None]:
        page = visited.answer(Scan(command.start, command.end, after, size, view))
        return page.states, page.next

    states = paged(ask, command.after, limit=given.get("limit"))
    return streamed(encode(state) for state in states)


def get_history(http: Http) -> Response:
    given = parameters(http.head, *HISTORY)
    visited = visit(http, "history")
    id, view = given["id"], View(given.get("branch", "main"))
    if not takes_lines(http):
        return answer_json(visited, GetHistory(id, given.get("before"), _page(given), view))
    view = _pinned(visited, view)

    def ask(before: Any, size: int) -> tuple[Sequence[Fact], Any]:
        page = visited.answer(GetHistory(id, before, size, view))
        return page.facts, page.next

    facts = paged(ask, given.get("before"), limit=given.get("limit"))
    return streamed(encode_value(fact) for fact in facts)


def get_log(http: Http) -> Response:
    given = parameters(http.head, *LOG)
    visited = visit(http, "log")
    newest, before = given.get("newest", False), given.get("before")
    if not takes_lines(http):
        return answer_json(visited, GetLog(given.get("since", 0), _page(given), newest, before))
    since = given.get("since")
    if before is None:  # all lines are of one state, whoever writes meanwhile
        before = visited.answer(GetHead()).version + 1

    def ask(reached: int | None, size: int) -> tuple[Sequence[Commit], int | None]:
        low, high = (since, reached) if newest else (reached, before)
        commits = visited.answer(GetLog(low, size, newest, high))
        return commits, commits[-1].version if commits else None

    commits = paged(ask, before if newest else since, limit=given.get("limit"))
    return streamed(encode_value(commit) for commit in commits)


def get_branches(http: Http) -> Response:
    given = parameters(http.head, *BRANCHES)
    return answer_json(visit(http, "branches"), ListBranches(given.get("version")))


def get_head(http: Http) -> Response:
    point = parameters(http.head, *HEAD).get("at")
    at = parse_time(point) if type(point) is str else None
    version = None if type(point) is str else point
    return answer_json(visit(http, "head"), GetHead(version, at))


def get_spaces(http: Http) -> Response:
    given = parameters(http.head, *SPACES)
    return _answered(http, "", "spaces", given)


def put_space(http: Http) -> Response:
    parameters(http.head)
    if http.body not in (b"", b"{}"):
        raise InvalidInput("a new space has a name, and nothing in its body")
    return _answered(http, "", "space_create", {"name": http.names["space"], "create": True})


def get_acl(http: Http) -> Response:
    parameters(http.head)
    return _answered(http, http.space, "acl_read", {})


def get_verify(http: Http) -> Response:
    parameters(http.head)
    return _answered(http, http.space, "verify", {})


def get_space(http: Http) -> Response:
    parameters(http.head)
    return answer_json(visit(http, "space"), Describe())


def export(http: Http) -> Response:
    """Stream the records of all namespaces, one canonical envelope a line."""
    given = parameters(http.head, *EXPORT)
    if given["format"] != "jsonl":
        raise InvalidInput("the format is jsonl", parameter="format")
    visited = visit(http, "export")
    space = held(http.service.store, visited.port, visited.space)
    view = space.on(given.get("branch", "main"))
    if given.get("at") is not None:
        view = view.at(given["at"])
    memory = Memory(view, namespaces=known_namespaces(view))
    return streamed(canonical(record) for record in export_records(memory))


def _answered(http: Http, space: str, command: str, arguments: dict[str, Any]) -> Response:
    return json(
        http.service.answer(
            http.principal, space, command, arguments, seen=http.seen, tell=http.tell
        )
    )


def _pinned(visited: Visit, view: View) -> View:
    """Return the view at one version: lines are of one state."""
    check_branch_name(view.branch)
    visited.answer(Read((), view))  # NotFound for a branch that does not exist
    if view.version is not None:
        return view
    return View(view.branch, visited.answer(GetHead()).version)


def _page(given: dict[str, Any]) -> int:
    limit: int = given.get("limit", PAGE_MAX)
    return limit
