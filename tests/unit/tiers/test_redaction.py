"""Redaction: the names that it finds, and what of an error stays whatever is redacted."""

from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import Conflict, NotFound, RoteError

SECRET = "hunter2-the-secret"


@pytest.mark.parametrize(
    "name", ["type", "code", "message", "details", "conflicts", "id", "error", "kind"]
)
def test_an_error_keeps_its_class_and_its_code_whatever_is_redacted(
    tmp_path: Path, name: str
) -> None:
    def failures(host: rote.Host) -> list[tuple[type, str]]:
        told = []
        calls: list[Any] = [
            ("memory", "put", ["ops", "k", "i", {"n": 1}, None, None, None, 99]),
            ("store", "delete", ["urn:a:1"]),
            ("agent", "read_task", ["none"]),
        ]
        for call in calls:
            with pytest.raises(RoteError) as raised:
                host.call(*call)
            told.append((type(raised.value), raised.value.code))
        return told

    path = tmp_path / "r.jsonl"
    expected = [(Conflict, "conflict"), (NotFound, "not_found"), (NotFound, "no_task")]
    with rote.open(":memory:") as store:
        host = rote.Host("operator-controlled", store=store, redact=[name])
        with host.record(path):
            assert failures(host) == expected
    with rote.Host("operator-controlled", redact=[name]).replay(path) as replaying:
        assert failures(replaying) == expected


@pytest.mark.parametrize("secret", ["Found", "no_task", "NotFound", "task"])
def test_a_secret_that_is_part_of_a_class_or_a_code_changes_neither(
    tmp_path: Path, secret: str
) -> None:
    envelope = {
        "schema_version": "1.0", "task_id": "none", "agent_id": "a", "status": "done",
        "output": {"summary": "s", "password": secret},
    }  # fmt: skip
    path = tmp_path / "r.jsonl"
    with rote.open(":memory:") as store:
        host = rote.Host("operator-controlled", store=store, redact=["password"])
        with host.record(path), pytest.raises(NotFound) as raised:
            host.agent.post_result(envelope)
    assert raised.value.code == "no_task"
    bare = rote.Host("operator-controlled", redact=["password"])
    with bare.replay(path) as replaying, pytest.raises(NotFound) as raised:
        replaying.agent.post_result(envelope)
    assert raised.value.code == "no_task"


@pytest.mark.parametrize("name", ["a/b", "a.b", "a~b", "a~1b", "x/y.z"])
def test_a_name_is_found_on_a_pointer_as_it_is_written_there(tmp_path: Path, name: str) -> None:
    pointer = "/users/" + name.replace("~", "~0").replace("/", "~1")
    path = tmp_path / "r.jsonl"
    with rote.open(":memory:") as store:
        host = rote.Host("compute-and-store", store=store, redact=[name])
        with host.record(path):
            host.store.set("urn:a:1", {"users": {}})
            host.store.patch("urn:a:1", [{"op": "add", "path": pointer, "value": SECRET}])
            assert host.store.get("urn:a:1") == {"users": {name: SECRET}}
    assert SECRET.encode() not in path.read_bytes()
