"""rote host: calls as the settings allow them, and what may be called."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from rote.testing.postgres import database_url
from rote.values import decode
from tests.unit.cli.command import error_of, json_error_of, run, run_json, run_ok

EVERYTHING = """
[host]
profile = "operator-controlled"
cache = { path = "warm.cache" }
redact = ["password"]

[host.sqlite]
path = "m.db"
allow_tables = ["metrics"]

[host.fs]
sandbox_root = "out"
allow_extensions = [".json"]

[host.queue]
max_tries = 1

[host.agent]
root = "mailbox"

[host.grant.memory]
namespaces = ["ops"]

[host.limits]
max_adapter_calls = 5
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return the place of a store, with settings and all that they name beside it."""
    (tmp_path / "rote.toml").write_text(EVERYTHING)
    for folder in ("out", "mailbox"):
        (tmp_path / folder).mkdir()
    tables = apsw.Connection(str(tmp_path / "m.db"))
    tables.execute("create table metrics(name, value); insert into metrics values ('cpu', 5)")
    tables.execute("create table users(password)")
    tables.close()
    run_ok("set", "urn:a:1", "1", store=tmp_path / "rote.db")
    return tmp_path / "rote.db"


def call(adapter: str, verb: str, args: str, *, store: Path) -> Any:
    return run_json("host", "call", adapter, verb, args, store=store)


def test_every_adapter_answers(store: Path) -> None:
    assert call("frame", "get", '["a", 7]', store=store) == 7
    assert call("cache", "set", '["n", "k", 1]', store=store) == {"ok": True}
    assert call("Cache", "CacheGet", '["n", "k"]', store=store) == {"found": True, "value": 1}
    assert call("memory", "put", '["ops", "k", "i", {}]', store=store)["created"]
    assert call("store", "get", '{"id": "urn:a:1"}', store=store) == 1
    assert call("sqlite", "Query", '["SELECT * FROM metrics"]', store=store)["rows"] == [
        {"name": "cpu", "value": 5}
    ]
    assert call("fs", "Write", '["/reports/daily.json", "{}"]', store=store)["bytes"] == 2
    assert (store.parent / "out" / "reports" / "daily.json").read_text() == "{}"
    assert len(call("queue", "Put", '["alerts", 1]', store=store)) == 32
    assert call("agent", "tasks", "{}", store=store) == {"items": [], "next": None}


def test_people_get_an_indented_answer_and_arguments_come_from_anywhere(
    store: Path, tmp_path: Path
) -> None:
    assert run_ok("host", "call", "store", "get", '["urn:a:1"]', store=store) == "1\n"
    assert run_ok("host", "call", "frame", "get", store=store) == "{}\n"
    said = run_ok("host", "call", "cache", "get", "-", store=store, stdin='["n", "k"]')
    assert said == '{\n  "found": false,\n  "value": null\n}\n'
    (tmp_path / "args.json").write_text('["urn:a:1"]')
    assert run_ok("host", "call", "store", "get", f"@{tmp_path / 'args.json'}", store=store)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["nowhere", "get"], "unknown_adapter", "there are frame, cache"),
        (["cache", "never"], "unknown_verb", "there are get, set, delete"),
        (["cache", "get", '["a"]'], "bad_arguments", "key is missing"),
        (["cache", "get", '{"no": 1}'], "bad_arguments", "there are namespace, key"),
        (["cache", "get", '"a"'], "invalid_input", "put [ ] around"),
        (["cache", "get", "a"], "invalid_input", "not JSON"),
        (["fs", "delete", '["a.json"]'], "verb_denied", "[host] in "),
        (["memory", "get", '["session", "k", "i"]'], "grant_denied", "[host] in "),
        (["sqlite", "query", '["SELECT * FROM users"]'], "sql_denied", ""),
        (["fs", "read", '["../rote.db"]'], "outside_sandbox", ""),
        (["store", "get", '["record:x"]'], "reserved_id", ""),
    ],
)
def test_a_refusal_exits_with_2_and_says_what_to_do(
    store: Path, words: list[str], code: str, why: str
) -> None:
    assert why in error_of(run("host", "call", *words, store=store))
    refused = run("host", "call", *words, "--json", store=store)
    assert (refused.exit_code, json_error_of(refused)["code"]) == (2, code)


def test_what_is_not_there_exits_with_1(store: Path) -> None:
    assert run("host", "call", "fs", "read", '["none.json"]', store=store).exit_code == 1
    none = run("host", "call", "agent", "read_task", '["t1"]', "--json", store=store)
    assert (none.exit_code, json_error_of(none)["code"]) == (1, "no_task")
    none = run("host", "call", "queue", "take", '["alerts"]', "--json", store=store)
    assert (none.exit_code, none.stdout) == (1, '{"message":null}\n')
    assert run("host", "call", "queue", "drop", '["alerts", "x"]', store=store).exit_code == 1


def test_without_settings_a_host_is_minimal_and_says_how_to_allow_more(store_path: Path) -> None:
    assert run_ok("host", "call", "frame", "get", store=store_path) == "{}\n"
    for adapter, profile in (("store", "compute-and-store"), ("queue", "network-restricted")):
        said = error_of(run("host", "call", adapter, "get", store=store_path))
        assert f'profile = "{profile}" to {store_path.with_name("rote.toml")}' in said
    assert not store_path.exists()
    store_path.with_name("rote.toml").write_text("[host]\n")
    said = error_of(run("host", "call", "store", "get", store=store_path))
    assert f"[host] in {store_path.with_name('rote.toml')} decides" in said


def test_a_missing_store_is_told_only_where_one_is_needed(store: Path) -> None:
    missing = store.with_name("none.db")
    assert call("cache", "get", '["n", "k"]', store=missing)["found"] is False
    assert call("sqlite", "query", '["SELECT 1 AS a"]', store=missing)["rows"] == [{"a": 1}]
    for adapter, verb in (("memory", "stats"), ("Store ", "scan"), ("agent", "tasks")):
        assert "no store at" in error_of(run("host", "call", adapter, verb, store=missing))
    said = error_of(run("host", "call", "store", "set", '["urn:a:1", 1]', store=missing))
    assert "no store at" in said
    assert "no verb 'never'" in error_of(run("host", "call", "store", "never", store=missing))
    other = run("host", "call", "store", "scan", "--space", "elsewhere", store=store)
    assert "there is default" in error_of(other)
    assert not missing.exists()


def test_what_a_host_lacks_is_told_with_its_place(tmp_path: Path) -> None:
    store = tmp_path / "rote.db"
    (tmp_path / "rote.toml").write_text('[host]\nprofile = "compute-and-store"')
    said = error_of(run("host", "call", "fs", "list", store=store))
    assert "the option fs=" in said
    assert f"[host] in {tmp_path / 'rote.toml'} decides" in said


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ('profile = "maximal"', "there are minimal"),
        ("cache = { size = 1 }", "cache: there is no option 'size'; there are path"),
        ("cache = { max_entries = 1.5 }", "max_entries must be integer from 0"),
        ("cache = { max_entries = 1979-05-27 }", "max_entries must be integer from 0"),
        ('queue = { lease_seconds = "30" }', "lease_seconds must be number"),
        ('fs = { sandbox_root = "nowhere" }', "make it first"),
        ('sqlite = { path = "nowhere.db", allow_tables = [] }', "is not there"),
        ('sqlite = { path = "m.db" }', "allow_tables is missing"),
        ('sqlite = { path = "rote.db", allow_tables = ["*"] }', "the store's own file"),
        ("limits = { max_calls = 1 }", "there are max_adapter_calls"),
        ("grant = { adapters = ['nowhere'] }", "no adapter 'nowhere'"),
        ("redact = 'password'", "redact is a list of names"),
        ("redact = [nan]", "redact is a list of names"),
        ("color = 1", "host has no 'color'"),
    ],
)
def test_wrong_settings_are_refused_and_the_file_is_named(
    store: Path, settings: str, why: str
) -> None:
    place = store.with_name("rote.toml")
    place.write_text(f"[host]\n{settings}\n")
    for command in (("call", "frame", "get"), ("capabilities",)):
        said = error_of(run("host", *command, store=store))
        assert str(place) in said
        assert why in said


def test_settings_are_named_by_an_option(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "other.toml"
    missing = run("host", "call", "frame", "get", "--config", str(other), store=store)
    assert str(other) in error_of(missing)
    other.parent.mkdir()
    other.write_text('[host]\nprofile = "compute-and-store"\ncache = { path = "warm" }')
    args = ("host", "call", "cache", "set", '["n", "k", 1]', "--config", str(other))
    run_ok(*args, store=store)
    assert (other.parent / "warm").exists()  # beside the settings, wherever the command runs


def test_a_call_is_on_the_space_and_the_branch_that_are_named(store: Path) -> None:
    run_ok("branch", "create", "try", store=store)
    run_ok("host", "call", "store", "set", '["urn:a:1", 2]', "--branch", "try", store=store)
    assert call("store", "get", '["urn:a:1"]', store=store) == 1
    said = run_ok("host", "call", "store", "get", '["urn:a:1"]', "--branch", "try", store=store)
    assert said == "2\n"


def test_capabilities_list_what_may_be_called(store: Path) -> None:
    lines = run_ok("host", "capabilities", store=store).splitlines()
    assert "cache\tget\treads\tnamespace key [default]" in lines
    assert "queue\tput\twrites\tqueue payload [key]" in lines
    assert "fs\twrite\treplaces or removes\tpath content [encoding]" in lines
    assert not any(line.startswith(("fs\tdelete", "sqlite\texecute")) for line in lines)
    assert lines[-1] == (
        "profile operator-controlled; max_adapter_calls 5, max_frame_bytes 1048576"
    )
    told = run_json("host", "capabilities", store=store)
    assert told["adapters"]["cache"]["get"]["input_schema"]["required"] == ["namespace", "key"]
    assert told["limits"]["max_adapter_calls"] == 5


def test_capabilities_without_a_store_say_what_is_left_out(store: Path) -> None:
    result = run("host", "capabilities", store=store.with_name("none.db"))
    assert result.exit_code == 0
    assert "without memory, store, queue and agent: there is no store at" in result.stderr
    adapters = {line.split("\t")[0] for line in result.stdout.splitlines()[:-1]}
    assert adapters == {"frame", "cache", "sqlite", "fs"}
    bare = run("host", "capabilities", "--json", store=store.with_name("none.db"))
    assert (bare.exit_code, bare.stderr) == (0, "")


def test_settings_of_a_server_are_named_by_an_option(tmp_path: Path) -> None:
    url = database_url(tmp_path)
    run("queue", "put", "alerts", "1", "--store", url)
    assert "by --config" in error_of(run("host", "call", "queue", "depth", "--store", url))
    settings = tmp_path / "host.toml"
    settings.write_text('[host]\nprofile = "network-restricted"')
    args = ("host", "call", "queue", "depth", '["alerts"]', "--config", str(settings), "--json")
    result = run(*args, "--store", url)
    assert decode(result.stdout) == {"ready": 1, "leased": 0, "dead": 0}


def test_arguments_one_by_one_are_refused_with_advice(store: Path) -> None:
    said = error_of(run("host", "call", "cache", "get", "m", "k", store=store))
    assert """ARGS is one JSON list, such as '["a", 1]'""" in said
