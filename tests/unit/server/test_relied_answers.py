"""Answers that a commit relies on: the server asks again only what the principal may read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.runs.answers import query_digest, retrieve_digest
from rote.runs.run_rows import NotedAnswer, PendingCommit, pending_in, run_in
from tests.callers import Caller, Served, Signer, serving_notes
from tests.unit.server.test_side_checks import A, B, pending_run
from tests.wires import Reply

REQUEST = {"query": "sky", "store_paths": [], "budget": {"max_excerpt_tokens": 100}}
KEY = ("long_term", "fact", "a")


@pytest.fixture
def served() -> Iterator[Served]:
    with serving_notes() as served:
        yield served


def relying(served: Served, caller: Caller, call: Any, digest: str) -> Reply:
    """Commit, relying on an answer whose ranges were written since, so that it is asked again."""
    version = served.notes.version
    served.notes.set("urn:entity:moved", version)
    answer = {
        "call": call, "digest": digest, "ranges": [["main", "urn:entity:", "urn:entity;"]],
        "version": version, "branch": "main", "now": 0,
    }  # fmt: skip
    return caller.set("urn:entity:new", version, answers=[answer])


def retrieval(served: Served, path: str, root: str | None = None) -> tuple[dict[str, Any], str]:
    """Return the question for the records of a source, and the digest of its true answer."""
    request = {**REQUEST, "store_paths": [path]}
    package: Any = rote.retrieve(request, store=served.store, root=root or ".")
    assert package["selection"]["selected"]
    call: dict[str, Any] = {"name": "retrieve", "request": request, "own": [], "root": root}
    return call, retrieve_digest(package)


def test_what_is_in_this_space_is_asked_again(served: Served) -> None:
    memory: Any = rote.Memory(served.notes)
    memory.put(*KEY, {"text": "the sky is blue"})
    for name in ("notes", served.notes.did):
        call, digest = retrieval(served, f"rote:{name}:{served.notes.version}")
        assert relying(served, served.ben, call, digest).status == 200
        assert relying(served, served.ben, call, "0" * 64).status == 409


def test_a_commit_does_not_tell_of_another_space(served: Served) -> None:
    memory: Any = rote.Memory(served.store.space("secret"))
    memory.put(*KEY, {"text": "the sky is blue"})
    call, digest = retrieval(served, "rote:secret:1")
    assert relying(served, served.ben, call, digest).status == 409


def test_a_commit_does_not_tell_of_files(served: Served, tmp_path: Path) -> None:
    line = b'{"memory_id":"m1","text":"the sky","ts_utc":"2026-01-01T00:00:00Z","tags":[]}\n'
    (tmp_path / "notes.jsonl").write_bytes(line)
    call, digest = retrieval(served, "notes.jsonl", str(tmp_path))
    assert relying(served, served.ben, call, digest).status == 409
    assert relying(served, served.operator, call, digest).status == 409


def test_a_commit_does_not_tell_of_what_is_outside_a_path(served: Served) -> None:
    cyd = Signer(
        served.server, "cyd", proofs=[served.lend("ben", "cyd", right="write", path="urn:entity:")]
    )
    query: dict[str, Any] = {"select": {B: {}}}
    digest = query_digest(served.notes.query(query))
    call = {"name": "query", "query": query}
    assert relying(served, served.ben, call, digest).status == 200
    assert relying(served, cyd, call, digest).status == 409


def test_a_pending_run_does_not_tell_of_another_space(served: Served) -> None:
    memory: Any = rote.Memory(served.store.space("secret"))
    memory.put(*KEY, {"text": "the sky is blue"})
    call, digest = retrieval(served, "rote:secret:1")
    row = pending_run(served, [{"op": "set", "id": A, "value": 7}])
    operations = [{"op": "set", "id": A, "value": 7}]
    ranges: list[tuple[str, str, str | None]] = [("main", "urn:entity:", "urn:entity;")]
    payload = PendingCommit(operations, [], [NotedAnswer(call, digest, ranges)]).text()
    row["body"]["payload"] = payload
    assert served.ben.command("put_side", row).status == 200
    pending = pending_in(run_in(served.side("run", "r1")))
    assert pending is not None and [answer.call for answer in pending.answers] == [{}]


@pytest.mark.parametrize(
    "call",
    [
        {}, {"name": []}, {"name": "nothing"}, {"name": "query"}, {"name": "query", "query": 5},
        {"name": "values", "query": {"select": 5}}, {"name": "scan", "branch": 5, "from": 5, "to": 6},
        {"name": "list", "namespaces": 5, "profile": 5, "arguments": {}},
        {"name": "stats", "namespaces": [[]], "profile": "x"}, {"name": "expired", "namespaces": [5]},
        {"name": "retrieve"}, {"name": "retrieve", "request": 5, "own": 5},
        {"name": "retrieve", "request": {"store_paths": 5}, "own": []},
        {"name": "retrieve", "request": {"store_paths": [5]}, "own": []},
        {"name": "retrieve", "request": {**REQUEST, "store_paths": ["rote:notes"]}, "own": 5},
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_asked_counts_as_changed(
    served: Served, call: dict[str, Any]
) -> None:
    assert relying(served, served.ben, call, "0" * 64).status == 409


@pytest.mark.parametrize("given", [5, "x", [5], ["x"], [None], [[]], [{}], [{"call": 5}], {}])
@pytest.mark.parametrize("name", ["answers", "guards"])
def test_what_is_no_answer_and_no_guard_is_refused(served: Served, name: str, given: Any) -> None:
    bound = served.token("bound", right="write", path="urn:entity:")
    assert served.ben.set(A, **{name: given}).status == 400
    assert bound.set(A, **{name: given}).status in (400, 403)


def test_ids_that_are_null_are_refused(served: Served) -> None:
    assert served.ben.command("read", {"ids": None}).status == 400


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("call", []), ("call", None), ("digest", 5), ("ranges", 5), ("ranges", [5]),
        ("ranges", [["main", "a"]]), ("ranges", [[5, 5, 5]]), ("version", "1"), ("branch", []),
        ("now", None),
    ],
)  # fmt: skip
def test_an_answer_has_its_types(served: Served, member: str, value: Any) -> None:
    bound = served.token("bound", right="write", path="urn:entity:")
    answer = {
        "call": {"name": "stats"}, "digest": "0" * 64, "ranges": [["main", "urn:entity:", "urn:f"]],
        "version": 1, "branch": "main", "now": 0, member: value,
    }  # fmt: skip
    assert served.ben.set(A, answers=[answer]).status == 400
    assert bound.set(A, answers=[answer]).status in (400, 403)


@pytest.mark.parametrize("kind", [None, 5, [], {}, ["run"]])
def test_the_kind_of_a_row_is_a_text(served: Served, kind: Any) -> None:
    row = {"kind": kind, "key": "k"}
    ben = served.ben
    assert ben.command("side", row).status == 400
    assert ben.command("sides", {"kind": kind}).status == 400
    assert ben.command("put_side", {**row, "body": 1, "fence": 0}).status == 400
    assert ben.command("drop_side", {**row, "fence": 1}).status == 400
    assert ben.set(A, guards=[{**row, "body": 1, "fence": 0}]).status == 400
