"""rote queue: messages are put, taken, and acknowledged or given back."""

import re
from pathlib import Path
from typing import Any

import pytest

import rote
from tests.unit.cli.command import error_of, json_error_of, run, run_json, run_ok
from tests.unit.cli.test_outcome import on_terminal


def put(payload: str, *options: str, store: Path) -> str:
    return run_ok("queue", "put", "alerts", payload, *options, store=store).strip()


def take(store: Path, *options: str) -> Any:
    return run_json("queue", "take", "alerts", *options, store=store)["message"]


def depth(store: Path) -> str:
    return run_ok("queue", "depth", "alerts", store=store)


def counts(ready: int, leased: int, dead: int) -> str:
    return f"ready\t{ready}\nleased\t{leased}\ndead\t{dead}\n"


@pytest.fixture
def fragile(store_path: Path) -> Path:
    """Return the place of a store whose messages have one try."""
    store_path.with_name("rote.toml").write_text("[host.queue]\nmax_tries = 1\nlease_seconds = 60")
    return store_path


def test_put_makes_the_store_and_take_gives_messages_in_order(store_path: Path) -> None:
    first, second = put('{"host":"web-1"}', store=store_path), put("2", store=store_path)
    message = take(store_path)
    assert (message["id"], message["payload"], message["tries"]) == (first, {"host": "web-1"}, 1)
    lines = run_ok("queue", "take", "alerts", store=store_path).splitlines()
    told = dict(line.split("\t") for line in lines)
    assert list(told) == ["id", "payload", "put_at", "tries", "lease", "leased_until"]
    assert (told["id"], told["payload"], told["tries"]) == (second, "2", "1")
    done = run_ok("queue", "ack", "alerts", told["id"], told["lease"], store=store_path)
    assert done == f"acknowledged {second}\n"
    assert depth(store_path) == counts(0, 1, 0)


def test_a_payload_comes_from_a_file_or_from_standard_input(
    store_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "alert.json").write_text('["a"]')
    put(f"@{tmp_path / 'alert.json'}", store=store_path)
    run_ok("queue", "put", "alerts", "-", store=store_path, stdin='["b"]')
    assert [take(store_path)["payload"] for _ in range(2)] == [["a"], ["b"]]


def test_a_key_puts_a_message_once(store_path: Path) -> None:
    first = put("1", "--key", "monday", store=store_path)
    assert put("1", "--key", "monday", store=store_path) == first
    other = run("queue", "put", "alerts", "2", "--key", "monday", "--json", store=store_path)
    assert (other.exit_code, json_error_of(other)["code"]) == (2, "payload_mismatch")
    assert depth(store_path) == counts(1, 0, 0)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["put", "no name", "1"], "queue must be a name"),
        (["put", "alerts", "hello"], "'\"hello\"'"),
        (["put", "alerts", "1", "--key", ""], "key"),
        (["put", "alerts", "1", "--key", "rote:own"], "rote:"),
        (["put", "alerts", "@none.json"], "none.json"),
        (["put", "alerts", '"' + "x" * 1_048_577 + '"'], "max_payload_bytes"),
        (["put", "alerts"], "PAYLOAD"),
        (["put", "alerts", "1", "--config", "none.toml"], "none.toml"),
        (["take", "alerts"], "no store at"),
        (["depth", "alerts"], "no store at"),
        (["peek", "alerts"], "no store at"),
        (["ack", "alerts", "id", "lease"], "no store at"),
        (["drop", "alerts", "id"], "no store at"),
    ],
)
def test_what_is_refused_makes_no_store(store_path: Path, words: list[str], why: str) -> None:
    assert why in error_of(run("queue", *words, store=store_path))
    assert not store_path.exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["take", "a/b"], "queue must be a name"),
        (["take", "alerts", "--lease-seconds", "0"], "0.001"),
        (["take", "alerts", "--lease-seconds", "86401"], "86400"),
        (["take", "alerts", "--lease-seconds", "nan"], "86400"),
        (["take", "alerts", "--wait-seconds", "61"], "60"),
        (["take", "alerts", "--wait-seconds", "-1"], "0"),
        (["peek", "alerts", "--limit", "0"], "1"),
        (["peek", "alerts", "--limit", "1001"], "1000"),
        (["nack", "alerts", "id"], "LEASE"),
        (["nack", "alerts", "id", "lease", "--delay-seconds", "-1"], "0"),
        (["extend", "alerts", "id", "lease", "--lease-seconds", "x"], "x"),
        (["take", "alerts", "--space", "elsewhere"], "there is default"),
        (["take", "alerts", "--branch", "elsewhere"], "elsewhere"),
    ],
)
def test_bad_input_is_refused(store_path: Path, words: list[str], why: str) -> None:
    put("1", store=store_path)
    assert why in error_of(run("queue", *words, store=store_path))
    assert depth(store_path) == counts(1, 0, 0)


def test_no_message_exits_with_1(store_path: Path) -> None:
    put("1", store=store_path)
    take(store_path)
    for words, said in (
        (["take", "alerts"], "no message of alerts is ready\n"),
        (["take", "alerts", "--wait-seconds", "0.01"], "no message of alerts is ready\n"),
        (["peek", "alerts", "--dead"], "alerts has no dead message\n"),
        (["peek", "none"], "none has no message\n"),
        (["revive", "alerts", "x"], "there is no message 'x' in 'alerts'\n"),
        (["drop", "alerts", "0" * 32], f"there is no message '{'0' * 32}' in 'alerts'\n"),
    ):
        result = run("queue", *words, store=store_path)
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", said)
    for words, answer in (
        (["take", "alerts"], '{"message":null}\n'),
        (["peek", "none"], '{"items":[]}\n'),
    ):
        result = run("queue", *words, "--json", store=store_path)
        assert (result.exit_code, result.stdout, result.stderr) == (1, answer, "")


def test_a_lease_that_is_lost_exits_with_2(store_path: Path) -> None:
    put("1", store=store_path)
    message = take(store_path)
    run_ok("queue", "nack", "alerts", message["id"], message["lease"], store=store_path)
    for verb in ("ack", "nack", "extend"):
        args = ("queue", verb, "alerts", message["id"], message["lease"], "--json")
        refused = run(*args, store=store_path)
        assert (refused.exit_code, json_error_of(refused)["code"]) == (2, "lease_lost")


def test_a_message_is_given_back_extended_and_delayed(store_path: Path) -> None:
    put("1", store=store_path)
    message = take(store_path, "--lease-seconds", "5")
    named = ("alerts", message["id"], message["lease"])
    until = run_json("queue", "extend", *named, "--lease-seconds", "500", store=store_path)
    assert until["leased_until"] > message["leased_until"]
    said = run_ok("queue", "extend", *named, store=store_path)
    assert said.startswith(f"{message['id']} is leased until 20")
    said = run_ok("queue", "nack", *named, "--delay-seconds", "500", store=store_path)
    assert said == f"given back {message['id']}\n"
    assert depth(store_path) == counts(0, 1, 0)


def test_the_settings_say_how_many_tries_a_message_has(fragile: Path) -> None:
    id = put("1", store=fragile)
    message = take(fragile)
    args = ("queue", "nack", "alerts", id, message["lease"])
    assert run_ok(*args, store=fragile) == f"given back {id}, dead: it has had its tries\n"
    assert depth(fragile) == counts(0, 0, 1)
    dead = run_ok("queue", "peek", "alerts", "--dead", store=fragile)
    assert dead == f"{id}\t{message['put_at']}\t1\t\t1\n"
    assert run_ok("queue", "revive", "alerts", id, store=fragile) == f"{id} is ready again\n"
    for verb in ("revive", "drop"):
        refused = run("queue", verb, "alerts", id, "--json", store=fragile)
        assert (refused.exit_code, json_error_of(refused)["code"]) == (2, "not_dead")
    run_ok("queue", "nack", "alerts", id, take(fragile)["lease"], store=fragile)
    assert run_ok("queue", "drop", "alerts", id, store=fragile) == f"dropped {id}\n"
    assert depth(fragile) == counts(0, 0, 0)


def test_a_profile_and_a_grant_of_the_settings_do_not_bind_the_operator(store_path: Path) -> None:
    settings = '[host]\nprofile = "minimal"\ngrant = { queue = { queues = [] } }'
    store_path.with_name("rote.toml").write_text(settings)
    put("1", store=store_path)
    assert depth(store_path) == counts(1, 0, 0)


def test_peek_shows_messages_in_order_and_takes_none(store_path: Path) -> None:
    ids = [put(str(number), store=store_path) for number in range(3)]
    lines = run_ok("queue", "peek", "alerts", "--limit", "10", store=store_path).splitlines()
    assert [line.split("\t")[0] for line in lines] == ids
    items = run_json("queue", "peek", "alerts", store=store_path)["items"]
    assert [item["id"] for item in items] == ids[:1]
    assert depth(store_path) == counts(3, 0, 0)


def test_a_queue_is_that_of_the_space_and_the_branch(store_path: Path) -> None:
    put("1", "--space", "notes", store=store_path)
    assert depth_in(store_path, "--space", "notes") == 1
    run_ok("branch", "create", "try", "--space", "notes", store=store_path)
    with rote.open(store_path) as opened:
        message = rote.Host("network-restricted", space=opened.space("notes")).queue.take("alerts")
    assert message["message"]["payload"] == 1
    assert depth_in(store_path, "--space", "notes", "--branch", "try") == 1
    assert depth_in(store_path, "--space", "notes") == 0


def depth_in(store: Path, *options: str) -> Any:
    return run_json("queue", "depth", "alerts", *options, store=store)["ready"]


def test_a_terminal_gets_a_table_and_sees_that_a_take_waits(store_path: Path) -> None:
    id = put('{"host":"web-1"}', store=store_path)
    terminal = {"COLUMNS": "150", "FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"}
    shown = run("queue", "peek", "alerts", store=store_path, **terminal).stdout
    heading, _, row = re.sub(r"\x1b\[[0-9;]*m", "", shown).strip().splitlines()
    assert heading.split() == ["id", "put_at", "tries", "leased_until", "payload"]
    assert row.split()[0] == id
    take(store_path)
    waiting = ("queue", "take", "alerts", "--wait-seconds", "0.2", "--store", str(store_path))
    shown = on_terminal(*waiting, cwd=store_path.parent, expected=1)
    assert "waiting for a message of alerts" in shown
