"""Commands on a store behind a server: by its URL, with the token or the key of the environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.testing.keys import did_of, seed_of
from rote.values import decode
from tests.served import Served, served
from tests.unit.cli.command import run


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(auth=("token", "did")) as found:
        found.space.grant(did_of("ada"), "owner")
        yield found


@pytest.fixture
def place(server: Served, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("ROTE_TOKEN", str(server.server.token))
    monkeypatch.delenv("ROTE_KEY_FILE", raising=False)
    return ["--store", server.server.url, "--space", server.space.name]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["set", "urn:a", '{"n": 1}'], "urn:a"),
        (["get", "urn:a"], '"n"'),
        (["patch", "urn:a", '[{"op": "add", "path": "/m", "value": 2}]'], ""),
        (["history", "urn:a"], "patch"),
        (["log"], "urn:a"),
        (["list"], "urn:a"),
        (["branch", "create", "other"], "other"),
        (["branch", "list"], "other"),
        (["diff", "other"], ""),
        (["merge", "other"], ""),
        (["query", '{"select": {"urn:a": {}}}'], "urn:a"),
        (["memory", "put", "ops", "note", "1", '{"text": "tea"}'], ""),
        (["memory", "get", "ops", "note", "1"], "tea"),
        (["memory", "list", "ops"], "note"),
        (["memory", "search", "tea"], "tea"),
        (["memory", "stats"], ""),
        (["acl", "show"], did_of("ada")),
        (["verify"], "ok"),
        (["checkpoint"], "signature"),
        (["gc"], ""),
        (["delete", "urn:a"], "urn:a"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else None,
)
def test_a_command_works_behind_a_server(place: list[str], command: list[str], shown: str) -> None:
    result = run(*command, *place)
    assert result.exit_code == 0, result.output
    assert shown in result.stdout


def test_commands_on_the_store_work_behind_a_server(place: list[str], server: Served) -> None:
    store = place[:2]
    assert server.space.name in run("spaces", *store).stdout
    assert run("runs", "list", *store).exit_code == 0
    assert run("recover", *store).exit_code == 0


def test_what_is_of_the_servers_machine_says_so(place: list[str], tmp_path: Path) -> None:
    result = run("backup", str(tmp_path / "copy.db"), *place[:2])
    assert result.exit_code == 2 and "server's machine" in result.stderr


def test_a_key_calls_where_there_is_no_token(
    place: list[str], server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROTE_TOKEN")
    assert run("get", "urn:b", *place).exit_code == 2
    file = tmp_path / "ada.key"
    file.write_text(seed_of("ada").hex())
    monkeypatch.setenv("ROTE_KEY_FILE", str(file))
    result = run("set", "urn:b", "1", "--json", *place)
    assert result.exit_code == 0, result.output
    assert decode(result.stdout.encode())["author"] == did_of("ada")
