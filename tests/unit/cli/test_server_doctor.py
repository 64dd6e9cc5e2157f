"""`rote doctor` of a server: reach, rights, clock and version, and what is wrong."""

from collections.abc import Iterator
from importlib.metadata import version

import pytest

from rote.values import decode
from tests.served import Served, served
from tests.unit.cli.command import run


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        found.space.set("urn:a", 1)
        yield found


def test_an_operator_hears_all(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTE_TOKEN", str(server.server.token))
    before = server.space.version
    result = run("doctor", "--store", server.server.url, "--json")
    assert result.exit_code == 0, result
    told = decode(result.stdout.encode())
    assert told["ok"] is True and told["problems"] == []
    assert told["store"]["server"] == server.server.url
    assert told["store"]["version"] == version("rote")
    assert told["store"]["ready"] is True and told["store"]["operator"] is True
    assert abs(told["store"]["clock_seconds"]) < 5
    (space,) = told["spaces"]
    assert space["name"] == server.space.name and space["right"] == "owner"
    assert space["version"] == before == server.space.version
    shown = run("doctor", "--store", server.server.url)
    assert "server version" in shown.stdout and "ok: no problem found" in shown.stdout
    assert str(server.server.token) not in result.stdout + shown.stdout


def test_nobody_is_told_what_to_do(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTE_TOKEN", raising=False)
    result = run("doctor", "--store", server.server.url)
    assert result.exit_code == 0, result
    assert "server version" in result.stdout and "clock\tnot seen" in result.stdout
    assert "ROTE_TOKEN" in result.stdout
    assert "not seen: the clock, the rights and the spaces" in result.stdout
    assert server.space.did not in result.stdout


def test_a_token_that_is_no_good_is_a_problem(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTE_TOKEN", "rote_" + "0" * 12 + "_" + "x" * 43)
    result = run("doctor", "--store", server.server.url)
    assert result.exit_code == 1
    assert "problem: the server does not take the token in ROTE_TOKEN (token)" in result.stdout
    assert "xxxx" not in result.stdout + result.stderr


def test_a_server_that_is_not_there_cannot_be_reached(server: Served) -> None:
    result = run("doctor", "--store", "http://127.0.0.1:1")
    assert result.exit_code == 2 and "cannot be reached" in result.stderr
    for url in ("http://user:secret@127.0.0.1:1", "http://127.0.0.1:1/v1", "http://"):
        result = run("doctor", "--store", url)
        assert result.exit_code == 2 and "secret" not in result.stderr
    result = run("doctor", "--repair", "--store", server.server.url)
    assert result.exit_code == 2 and "--repair" in result.stderr
