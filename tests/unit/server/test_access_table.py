"""The table of access: command x principal x right x path x way, written down here by hand.

    right  what a command needs          path  what a right with a path may name

The code's table must say the same, and every command must behave so for every principal.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import rote
from rote.access.principals import Principal
from rote.access.rights import covers
from rote.access.tokens import TokenRight
from rote.contract.table import PathRule, Right
from rote.errors import Denied, NotFound, RoteError
from rote.opening.sources import SystemClock, SystemIds
from rote.server.messages import Head, Seen
from rote.server.serving import Serving
from rote.server.table import TABLE
from rote.space import Space
from rote.testing.keys import did_of, lend
from rote.testing.serving import serving
from rote.values import micros_of
from tests.callers import Signer

# The rows of the contract, as it groups them.
CONTRACT: dict[tuple[Right, PathRule], str] = {
    ("open", "free"): "health ready openapi hello",
    (
        "operator",
        "none",
    ): "metrics space_create space_erase adopt copy_in foundation_in sides_in adopt_blob",
    ("authenticated", "free"): "now spaces grant_create grant_end retrieve",
    ("read", "free"): "space head snapshot branches settle",
    ("read", "ids"): "read glance history rehearse memory_get memory_history",
    ("read", "range"): "scan memory_list memory_search",
    ("read", "walk"): "query values watch",
    (
        "read",
        "none",
    ): "log find diff verify checkpoint blob_info blob_get side sides runs memory_stats"
    " memory_report export acl_read",
    ("write", "ids"): "commit entity_put entity_patch entity_delete memory_put memory_put_many"
    " memory_append memory_update memory_delete memory_touch",
    ("write", "none"): "memory_prune create_branch delete_branch merge blob_put put_side drop_side"
    " commit_run receipt_add",
    (
        "owner",
        "none",
    ): "acl_write erase memory_erase compact gc reindex copy_out foundation_out sides_out"
    " blob_list",
    ("owner", "free"): "revoke",
}
# Rows that the contract has not: what the kernel answers besides.
BESIDES: dict[tuple[Right, PathRule], str] = {
    ("read", "free"): "versions await",
    ("read", "ids"): "states made",
    ("read", "range"): "skip",
    ("read", "none"): "postings vectors changes",
    ("write", "none"): "blob_piece blob_drop put_vectors drop_sides",
    ("owner", "none"): "find_written vector_names vectors_out",
}
NOT_YET = {"health", "ready"} - TABLE.keys()


def rows(groups: dict[tuple[Right, PathRule], str]) -> dict[str, tuple[Right, PathRule]]:
    return {name: group for group, names in groups.items() for name in names.split()}


EXPECTED = {**rows(CONTRACT), **rows(BESIDES)}


def test_the_table_in_code_is_the_table_of_the_contract() -> None:
    told = {name: (row.right, row.path) for name, row in TABLE.items()}
    assert told == {name: row for name, row in EXPECTED.items() if name not in NOT_YET}


# -- every command for every principal -------------------------------------------------------------

IN, OUT = "urn:in:a", "urn:out:a"
PATHS = ("urn:in:", "record:ops!!")


def arguments(name: str, inside: bool) -> dict[str, Any]:
    """Return arguments that name something within the path of a principal, or outside of it."""
    id = IN if inside else OUT
    record = {"namespace": "ops" if inside else "session", "kind": "k", "id": "1"}
    writes: dict[str, dict[str, Any]] = {
        "memory_put": {"payload": {}},
        "memory_append": {"entry": {}},
    }
    if name == "memory_put_many":
        names = {"record_kind": "k", "record_id": "1", "payload": {}}
        return {"arguments": {"records": [{"namespace": record["namespace"], **names}]}}
    if name == "memory_list":
        return {"arguments": {"namespace": record["namespace"]}}
    if name == "memory_search":
        return {"arguments": {"text": "x"}}
    if name.startswith("memory_"):
        return {"arguments": {**record, **writes.get(name, {})}}
    sets = [{"op": "set", "id": id, "value": 1}]
    named: dict[str, dict[str, Any]] = {
        "read": {"ids": [id]},
        "states": {"ids": [id]},
        "glance": {"id": id},
        "history": {"id": id},
        "made": {"key": "k", "call": {}, "ids": [id]},
        "rehearse": {"operations": sets, "own": {}, "now": 0},
        "commit": {"operations": sets},
        "scan": {"start": id, "end": id + "\0"},
        "skip": {"start": id, "end": id + "\0"},
        "query": {"query": {"select": {id: {}}}},
        "values": {"query": {"select": {id: {}}}},
    }
    return named.get(name, {})


class Served:
    """A server with one space, and principals that have shown who they are in every way."""

    def __init__(self, server: Serving, space: Space) -> None:
        self.server = server
        self.space = space

    def head(self, **headers: str) -> Head:
        pairs = tuple(
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        )
        return Head("POST", b"/v1/now", b"", pairs, None)

    def by_token(
        self, right: Right, path: str | None = None, *, elsewhere: bool = False
    ) -> Principal:
        home, now = self.server.service.home, micros_of(SystemClock().now())
        name = f"t{len(home.tokens())}"
        bound = TokenRight(right, did_of("other") if elsewhere else self.space.did, path)
        text, _ = home.create_token(name, bound, now=now, expires=None, ids=SystemIds())
        return self.server.app.authentication.principal(self.head(authorization=f"Bearer {text}"))

    def by_signature(self, name: str, *proofs: dict[str, Any]) -> Principal:
        headers = Signer(self.server, name, proofs=proofs).headers("POST", "/v1/now", None)
        return self.server.app.authentication.principal(self.head(**headers))

    def by_grant(self, name: str, *proofs: dict[str, Any]) -> Principal:
        token, _ = self.server.service.home.create_grant(
            did_of(name),
            list(proofs),
            now=int(SystemClock().now().timestamp()),
            seconds=60,
            ids=SystemIds(),
        )
        return self.server.app.authentication.principal(self.head(authorization=f"Bearer {token}"))

    def shown(self, way: str, right: Right, path: str | None) -> Principal:
        """Return a principal that holds a right, and has shown who it is in some way."""
        if way == "token":
            return self.by_token(right, path)
        by = self.by_signature if way.endswith("signature") else self.by_grant
        return by("guest", lent(self, right, path)) if way.startswith("lent") else by(right)

    def outcome(self, principal: Principal, name: str, given: dict[str, Any]) -> str:
        """Return what becomes of a command: how it is refused, or `allowed`."""
        row = TABLE[name]
        space = "notes" if row.space else ""
        try:
            self.server.service.answer(principal, space, name, given, seen=Seen())
        except NotFound as error:
            return "no space" if error.details == {"space": "notes"} else "allowed"
        except Denied as error:
            details = error.details
            if "needs" in details:
                assert details == {"command": name, "needs": details["needs"]}
                return f"needs {details['needs']}"
            if "path_rule" in details:
                assert details == {"command": name, "path_rule": details["path_rule"]}
                return f"path {details['path_rule']}"
            return f"unauthenticated {details['why']}" if "why" in details else "allowed"
        except RoteError:
            return "allowed"
        return "allowed"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with rote.open(":memory:") as store, serving(store, auth=("token", "did")) as server:
        space = store.space("notes")
        space.grant(did_of("owner"), "owner")
        space.grant(did_of("write"), "write")
        space.grant(did_of("read"), "read")
        yield Served(server, space)


COMMANDS = sorted(
    name for name, row in TABLE.items() if row.space and row.way == "command" and name != "revoke"
)
RIGHTS: tuple[Right, ...] = ("read", "write", "owner")


def lent(served: Served, right: Right, path: str | None) -> dict[str, Any]:
    now = micros_of(SystemClock().now())
    return lend("owner", "guest", space=served.space.did, right=right, path=path, now=now)


def expected(name: str, right: Right, path: str | None, inside: bool) -> str:
    needs, rule = EXPECTED[name]
    least = "read" if name == "merge" else needs  # a dry run needs no more
    if not covers(right, least):
        return f"needs {least}"
    if path is not None and rule == "none":
        return "path none"
    if not covers(right, needs):
        return "allowed"  # its arguments decide
    is_judged = path is not None and rule in ("ids", "range", "walk")
    if is_judged and (not inside or name == "memory_search"):
        return f"path {rule}"
    return "allowed"


@pytest.mark.parametrize(
    "way", ["token", "signature", "grant", "lent by signature", "lent by grant"]
)
def test_every_command_is_answered_for_those_who_may_and_for_nobody_else(
    served: Served, way: str
) -> None:
    for right in RIGHTS:
        paths = (None,) if way in ("signature", "grant") else (None, *PATHS)
        for path in paths:
            principal = served.shown(way, right, path)
            for name in COMMANDS:
                if path is not None and (path == PATHS[1]) != name.startswith("memory_"):
                    continue
                for inside in (True, False):
                    told = served.outcome(principal, name, arguments(name, inside))
                    case = (way, right, path, name, inside)
                    assert told == expected(name, right, path, inside), case


@pytest.mark.parametrize("name", sorted(TABLE))
def test_who_holds_nothing_is_told_of_no_space(served: Served, name: str) -> None:
    row = TABLE[name]
    strangers = [
        (served.by_token("owner", elsewhere=True), "no space"),
        (served.by_signature("stranger"), "no space"),
        (served.by_grant("stranger"), "no space"),
        (
            served.by_grant("guest", lend("stranger", "guest", space=served.space.did)),
            "unauthenticated time",
        ),
    ]
    if not row.space or row.way != "command":
        return
    for principal, refusal in strangers:
        assert served.outcome(principal, name, arguments(name, True)) == refusal, principal.name


def test_commands_to_the_store_are_for_operators_but_for_a_few(served: Served) -> None:
    principals = [served.by_token("owner"), served.by_signature("owner"), served.by_grant("owner")]
    for name, row in TABLE.items():
        if row.space or row.way != "command" or name == "space_create":
            continue
        for principal in principals:
            told = served.outcome(principal, name, {})
            assert told == ("needs operator" if row.right == "operator" else "allowed"), name


def test_an_operator_may_do_everything(served: Served) -> None:
    boss = Principal("operator", None, is_operator=True)
    for name in COMMANDS:
        assert served.outcome(boss, name, arguments(name, False)) == "allowed", name


def test_every_rule_that_needs_names_knows_those_of_every_command() -> None:
    """A command whose names nobody looks for would be refused to all who have a path."""
    for name in COMMANDS:
        if EXPECTED[name][1] in ("ids", "range", "walk") and name != "memory_search":
            assert arguments(name, True), f"add arguments of {name} here"


def test_a_store_is_unchanged_by_what_was_refused(served: Served) -> None:
    version = served.space.version
    reader = served.by_token("read")
    for name in COMMANDS:
        if EXPECTED[name][0] in ("write", "owner"):
            served.outcome(reader, name, arguments(name, True))
    assert served.space.version == version
