"""`rote memory …`: the verbs from the shell, as tables and as JSON, and files in and out."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from rote import Memory
from rote.engines.sqlite.checksums import checked
from rote.opening import open as open_store
from rote.values import canonical, decode
from tests.unit.cli.command import error_of, run, run_json, run_ok

KEY = ("ops", "deploy", "web")
META = '{"tags":["prod"],"source":"runner"}'

BAD_INPUT: list[tuple[str, ...]] = [
    ("put", "nowhere", "k", "i", "{}"), ("put", *KEY, "[]"), ("put", *KEY, "{"),
    ("put", *KEY, "{}", "--ttl", "soon"), ("put", *KEY, "{}", "--ttl", "0"),
    ("put", *KEY, "{}", "--metadata", "5"), ("get", "nowhere", "k", "i"),
    ("list", "ops", "--filters", "[]"), ("list", "ops", "--filters", '{"x":1}'),
    ("list", "ops", "--since", "someday"), ("prune", "nowhere"),
    ("get", *KEY, "--at", "someday"), ("list", "--at", "someday"), ("show", *KEY, "--at", "x"),
    ("history", *KEY, "--at", "x"), ("history", *KEY, "--limit", "1001"), ("list", "nowhere"),
    ("history", "nowhere", "k", "i"), ("show", "nowhere", "k", "i"), ("touch", "nowhere", "k", "i"),
    ("stats", "--at", "99"), ("report", "--at", "x"),
    ("list", "ops", "--order", "size"), ("update", *KEY), ("update", *KEY, "--payload", "[]"),
    ("update", *KEY, "--patch", "{}"), ("update", *KEY, "--payload", "{}", "--patch", "[]"),
    ("update", *KEY, "--ttl", "0"), ("update", *KEY, "--metadata", "5"),
    ("update", "ops", "deploy", "none", "--payload", "{}"),
    ("update", *KEY, "--payload", "{}", "--if-version", "7"),
    ("put", *KEY, "{}", "--if-version", "0"), ("put", *KEY, "{}", "--key", ""),
    ("delete", *KEY, "--if-version", "-1"),
    ("export", "--format", "xml"), ("export", "--namespace", "nowhere"),
    ("import", "absent.jsonl"), ("validate", "absent.jsonl"),
]  # fmt: skip


@pytest.fixture
def store(store_path: Path) -> Path:
    run_ok("memory", "put", *KEY, '{"status":"done"}', "--metadata", META, store=store_path)
    run_ok("memory", "append", "daily_log", "note", "2026-01-01", '{"n":1}', store=store_path)
    return store_path


def test_put_and_append_say_what_they_did(store: Path) -> None:
    said = run_ok("memory", "put", *KEY, "{}", store=store)
    assert said == "replaced at version 3\n"
    assert run_ok("memory", "append", "ops", "k", "i", "{}", store=store) == (
        "1 entry at version 4\n"
    )
    written = run_json("memory", "append", "ops", "k", "i", "{}", "--ttl", "never", store=store)
    assert (written["entries"], written["version"], written["created"]) == (2, 5, False)


def test_get_prints_the_record_or_says_no(store: Path) -> None:
    record = decode(run_ok("memory", "get", *KEY, store=store))
    assert type(record) is dict
    assert record["payload"] == {"status": "done"}
    assert run_json("memory", "get", *KEY, "--at", "1", store=store)["record"] == record
    absent = run("memory", "get", "ops", "deploy", "api", store=store)
    assert (absent.exit_code, absent.stdout) == (1, "")
    assert absent.stderr == "there is no record ops deploy api\n"


def test_update_changes_parts_of_a_record(store: Path) -> None:
    said = run_ok(
        "memory", "update", *KEY, "--patch", '[{"op":"add","path":"/by","value":"ada"}]',
        "--metadata", '{"source":null,"n":1}', "--ttl", "60", store=store,
    )  # fmt: skip
    assert said == "updated at version 3\n"
    record = run_json("memory", "get", *KEY, store=store)["record"]
    assert record["payload"] == {"by": "ada", "status": "done"}
    assert (record["metadata"], record["ttl_seconds"]) == ({"n": 1, "tags": ["prod"]}, 60)
    answer = run_json("memory", "update", *KEY, "--payload", "{}", store=store)
    assert (answer["ok"], answer["version"]) == (True, 4)


def test_a_command_with_a_key_happens_once_and_one_with_a_version_only_then(store: Path) -> None:
    for command in (
        ("put", "ops", "k", "i", '{"entries":[]}', "--if-version", "0"),
        ("append", "ops", "k", "i", "{}"),
        ("update", "ops", "k", "i", "--ttl", "5"),
        ("delete", "ops", "k", "i"),
    ):
        arguments = ("memory", *command, "--key", command[0])
        first = run_json(*arguments, store=store)
        assert run_json(*arguments, store=store) == first
        other = run("memory", "put", "ops", "k", "j", "{}", "--key", command[0], store=store)
        assert other.exit_code == 2
    refused = run("memory", "put", *KEY, "{}", "--if-version", "3", store=store)
    assert "read at 3, written at 1" in error_of(refused)
    run_ok("memory", "put", *KEY, "{}", "--if-version", "1", store=store)


def test_list_is_sorted_as_it_is_told(store: Path) -> None:
    for id in ("b", "a", "c"):
        run_ok("memory", "put", "session", "turn", id, "{}", store=store)
    run_ok("memory", "update", "session", "turn", "b", "--ttl", "60", store=store)

    def listed(*options: str) -> str:
        items = run_json("memory", "list", "session", *options, store=store)["items"]
        return "".join(item["record_id"] for item in items)

    assert listed("--order", "created") == "bac"
    assert listed("--order", "updated", "--descending") == "bca"
    assert listed("--descending", "--limit", "2") == "cb"
    items = run_json("memory", "list", "session", "--include", "version", store=store)["items"]
    assert [item["version"] for item in items] == [4, 6, 5]


def test_list_has_a_row_for_each_record_and_tells_of_more(store: Path) -> None:
    run_ok("memory", "put", "ops", "deploy", "api", "{}", "--ttl", "60", store=store)
    rows = [line.split("\t") for line in run_ok("memory", "list", "ops", store=store).splitlines()]
    assert [row[:3] + row[4:] for row in rows] == [
        ["ops", "deploy", "api", "60", "", "{}"],
        [
            "ops", "deploy", "web", "", '{"source":"runner","tags":["prod"]}', '{"status":"done"}',
        ],
    ]  # fmt: skip
    first = run("memory", "list", "ops", "--limit", "1", store=store)
    assert (first.exit_code, first.stderr) == (0, "more follow: --offset 1\n")
    for options in (
        ("--tag", "prod"), ("--source", "runner"), ("--prefix", "w"), ("--offset", "1"),
        ("--filters", '{"tags_any":["prod"]}'),
    ):  # fmt: skip
        items = run_json("memory", "list", "ops", *options, store=store)["items"]
        assert [item["record_id"] for item in items] == ["web"]
    items = run_json("memory", "list", "ops", "--include", "payload", store=store)["items"]
    assert [item["payload"] for item in items] == [{}, {"status": "done"}]


def test_delete_says_no_when_there_is_nothing(store: Path) -> None:
    assert run_ok("memory", "delete", *KEY, store=store) == "deleted ops deploy web\n"
    assert run("memory", "delete", *KEY, store=store).exit_code == 1


def test_prune_stats_and_report_count(store: Path) -> None:
    assert run_ok("memory", "prune", store=store) == "0 records pruned\n"
    assert run_ok("memory", "stats", store=store).splitlines()[-1].startswith("all\t2\t")
    assert run_json("memory", "stats", store=store)["records"] == 2
    assert run_ok("memory", "report", store=store).splitlines()[2] == "all\t2\t0\t2\t0\t0"
    assert run_json("memory", "report", "--soon", "5", store=store)["age"]["last_24h"] == 2


def test_bad_input_is_one_line(store: Path) -> None:
    for arguments in BAD_INPUT:
        error_of(run("memory", *arguments, store=None if arguments[0] == "validate" else store))


def test_reading_makes_no_store(tmp_path: Path) -> None:
    for arguments in (("get", *KEY), ("list", "ops"), ("stats",), ("prune",), ("export",)):
        error_of(run("memory", *arguments, store=tmp_path / "new.db"))
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("format", ["jsonl", "json"])
def test_what_is_exported_is_imported_elsewhere(store: Path, format: str) -> None:
    file = store.with_name("records")
    options = ("--format", format)
    run_ok("memory", "export", "-o", str(file), *options, store=store)
    other = store.with_name("other.db")
    assert run_json("memory", "import", str(file), store=other) == {
        "records": 2, "new": 2, "changed": 0, "unchanged": 0, "outdated": 0, "newer": 0,
        "written": 2, "expired": 0, "commits": 1,
    }  # fmt: skip
    said = run_ok("memory", "import", str(file), "--batch", "1", store=other)
    assert said == "0 records imported (0 new, 0 changed), 2 there before\n"
    assert run_ok("memory", "export", *options, store=other).encode() == file.read_bytes()


def test_an_export_never_replaces_a_file(store: Path) -> None:
    file = store.with_name("mine")
    file.write_text("mine")
    error_of(run("memory", "export", "-o", str(file), store=store))
    assert file.read_text() == "mine"


def test_validate_tells_every_problem_and_ends_with_no(tmp_path: Path) -> None:
    good: dict[str, Any] = {
        "namespace": "ops", "record_kind": "k", "record_id": "i", "ttl_seconds": None,
        "created_at": "2026-01-02T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        "payload": {}, "metadata": {},
    }  # fmt: skip
    file = tmp_path / "records.jsonl"
    file.write_bytes(canonical(good))
    warned = run("memory", "validate", str(file))
    assert (warned.exit_code, warned.stdout[:22]) == (0, "warning\t1/updated_at\ti")
    file.write_bytes(
        canonical(good) + b"\n" + canonical({**good, "record_id": "j", "ttl_seconds": 0})
    )
    refused = run("memory", "validate", str(file), "--json")
    assert refused.exit_code == 1
    told = [decode(line) for line in refused.stdout.splitlines()]
    assert [(p["record"], p["kind"], p["path"]) for p in told if type(p) is dict] == [
        (1, "warning", "/updated_at"),
        (2, "warning", "/updated_at"),
        (2, "error", "/ttl_seconds"),
    ]
    assert run("memory", "validate", str(file), "--profile", "v1").exit_code == 1


def test_namespaces_that_hold_records_are_known_to_every_command(store: Path) -> None:
    with open_store(store) as opened:
        own = Memory(opened.space("default"), namespaces=["notes", "ops", "zoo"])
        own.put("notes", "k", "1", {"n": 1})
        own.put("zoo", "k", "1", {"n": 2}, 60)
        version = opened.space("default").version
    assert run_json("memory", "stats", store=store)["by_namespace"].keys() == {
        "daily_log", "notes", "ops", "zoo",
    }  # fmt: skip
    assert run_json("memory", "report", store=store)["totals"]["records"] == 4
    lines = run_ok("memory", "export", store=store).splitlines()
    assert [decode(line)["namespace"] for line in lines] == ["daily_log", "notes", "ops", "zoo"]
    run_ok("memory", "append", "notes", "log", "1", "{}", store=store)
    assert run_json("memory", "get", "notes", "k", "1", store=store)["record"]["payload"] == {
        "n": 1
    }
    run_ok("memory", "delete", "zoo", "k", "1", store=store)
    assert "--namespaces" in error_of(run("memory", "put", "zoo", "k", "1", "{}", store=store))
    past = ("get", "zoo", "k", "1", "--at", str(version))
    assert run_json("memory", *past, store=store)["found"]


def test_a_new_namespace_is_named_once(store: Path) -> None:
    file = store.with_name("records.jsonl")
    put = ("put", "notes", "k", "1", "{}", "--namespaces", "notes,more")
    assert run_ok("memory", *put, store=store) == "created at version 3\n"
    run_ok("memory", "export", "-o", str(file), store=store)
    other = store.with_name("other.db")
    assert "notes" in error_of(run("memory", "import", str(file), store=other))
    assert run("memory", "validate", str(file)).exit_code == 1
    assert run("memory", "validate", str(file), "--namespaces", "notes").exit_code == 0
    run_ok("memory", "import", str(file), "--namespaces", "notes", store=other)
    assert run_ok("memory", "export", store=other).encode() == file.read_bytes()
    for wrong in ("Notes", "a,,b", ""):
        error_of(run("memory", *put[:-1], wrong, store=store))


@pytest.mark.parametrize(
    ("options", "filters"),
    [
        (("--tag", "prod"), '{"tags_all":["test"]}'),
        (("--source", "x"), '{"source":"runner"}'),
        (("--limit", "1"), '{"limit":5}'),
        (("--offset", "0"), '{"offset":1}'),
    ],
)
def test_a_filter_that_is_given_twice_is_refused(
    store: Path, options: tuple[str, str], filters: str
) -> None:
    said = error_of(run("memory", "list", "ops", *options, "--filters", filters, store=store))
    assert options[0] in said
    assert "--filters" in said
    both = run_json("memory", "list", "ops", "--filters", filters, store=store)
    assert both.keys() == {"items"}


def test_options_and_other_filters_are_combined(store: Path) -> None:
    run_ok("memory", "put", "ops", "k", "i", "{}", "--metadata", '{"source":"runner"}', store=store)
    both = ("--source", "runner", "--filters", '{"tags_any":["prod"],"source":null}')
    items = run_json("memory", "list", "ops", *both, store=store)["items"]
    assert [item["record_id"] for item in items] == ["web"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("put", *KEY, "hello"), "give a JSON object: '{\"text\":\"hello\"}'"),
        (("put", *KEY, '"hello"'), "give a JSON object: '{\"text\":\"hello\"}'"),
        (("append", *KEY, "nothing"), "give a JSON object: '{\"text\":\"nothing\"}'"),
        (("append", *KEY, "[]"), "give a JSON object: "),
        (("put", *KEY, "{}", "--metadata", "x"), "give a JSON object: '{\"source\":\"x\"}'"),
        (("list", "ops", "--filters", "x"), "give a JSON object: '{\"source\":\"x\"}'"),
        (("put", *KEY, "{", "--ttl", "5"), "not JSON at character 1"),
        (("put", *KEY, "{}", "--ttl", "0"), "--ttl takes seconds from 1 to"),
        (("put", *KEY, "{}", "--ttl", "9" * 19), "--ttl takes seconds from 1 to"),
        (("put", *KEY, "{}", "--metadata", '{"tags":[1]}'), "metadata.tags must hold texts"),
        (("list", "ops", "--since", "someday"), "--since: 'someday'"),
        (("report", "--soon", "9" * 15), "--soon"),
        (("list", "ops", "--include", "payload"), "--include goes with --json"),
        (("list", "ops", "--include", "foo", "--json"), "flags, version, not 'foo'"),
    ],
)  # fmt: skip
def test_an_error_speaks_of_the_command_line(
    store: Path, arguments: tuple[str, ...], words: str
) -> None:
    said = error_of(run("memory", *arguments, store=store))
    assert words in said
    assert not any(name in said for name in ("ttl_seconds", "updated_since", "expire_soon"))


def test_a_group_alone_wants_a_command() -> None:
    for group in ("branch", "blob", "memory"):
        said = error_of(run(group))
        assert said == f"error: Missing command; see rote {group} --help\n"


def test_metadata_may_be_null(store: Path) -> None:
    run_ok("memory", "append", "ops", "k", "i", "{}", "--metadata", META, store=store)
    run_ok("memory", "append", "ops", "k", "i", "{}", "--metadata", "null", store=store)
    assert run_json("memory", "get", "ops", "k", "i", store=store)["record"]["metadata"] is None


RECORD: dict[str, Any] = {
    "namespace": "ops", "record_kind": "k", "record_id": "1", "ttl_seconds": None,
    "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
    "payload": {}, "metadata": None,
}  # fmt: skip


def test_an_import_that_fails_leaves_no_new_store(tmp_path: Path) -> None:
    bad = canonical(RECORD) + b"\n{\n"
    file, new = tmp_path / "records.jsonl", tmp_path / "new.db"
    file.write_bytes(bad)
    assert "line 2: not JSON" in error_of(run("memory", "import", str(file), store=new))
    assert "line 2: not JSON" in error_of(run("memory", "import", "-", store=new, stdin=bad))
    assert not new.exists()
    good = canonical(RECORD) + b"\n"
    said = run("memory", "import", "-", store=new, stdin=good).stdout
    assert said == "1 record imported (1 new, 0 changed), 0 there before\n"
    assert "line 2" in error_of(run("memory", "import", str(file), "--space", "other", store=new))
    with open_store(new) as opened:
        assert [space.name for space in opened.spaces()] == ["default"]


def test_an_import_replaces_what_is_newer_only_when_it_is_told_to(store: Path) -> None:
    old = canonical({**RECORD, "record_kind": "deploy", "record_id": "web"})
    told = error_of(run("memory", "import", "-", store=store, stdin=old))
    assert "record 1 (ops deploy web: " in told
    assert "--overwrite" in told
    rehearsed = run("memory", "import", "-", "--dry-run", store=store, stdin=old)
    assert "1 record newer there" in rehearsed.stdout
    assert run("memory", "import", "-", "--overwrite", store=store, stdin=old).exit_code == 0
    record = run_json("memory", "get", *KEY, store=store)["record"]
    assert (record["updated_at"], record["payload"]) == ("2026-01-01T00:00:00.000000Z", {})


def test_a_batch_that_fails_tells_what_was_written_before(store: Path) -> None:
    lines = [canonical({**RECORD, "record_id": str(number)}) for number in range(3)]
    file = b"\n".join([*lines, b"{}"])
    said = error_of(run("memory", "import", "-", "--batch", "2", store=store, stdin=file))
    assert "record 4" in said
    assert "the batches before it, 2 records, were written" in said
    assert run_json("memory", "stats", store=store)["by_namespace"]["ops"]["records"] == 3
    first = error_of(run("memory", "import", "-", "--batch", "9", store=store, stdin=file))
    assert "written" not in first


def test_validate_tells_all_that_an_import_refuses(tmp_path: Path) -> None:
    file = tmp_path / "records"
    one, other = canonical(RECORD), canonical({**RECORD, "record_id": "2"})
    file.write_bytes(b"\n".join([one, b"{", other, one, b"[]", b'{"a":1,"a":2}']))
    result = run("memory", "validate", str(file), "--json")
    assert result.exit_code == 1
    told: list[Any] = [decode(line) for line in result.stdout.splitlines()]
    assert {p["record"] for p in told} == {2, 4, 5, 6}
    assert "not JSON" in told[0]["message"]
    assert "record 1" in told[1]["message"]
    file.write_bytes(b"[" + one + b"," + one + b"]")
    array = run("memory", "validate", str(file), "--json")
    assert (array.exit_code, decode(array.stdout)["record"]) == (1, 2)
    file.write_bytes(b"[" + one)
    cut = run("memory", "validate", str(file))
    assert (cut.exit_code, cut.stderr) == (1, "")


def test_doctor_repairs_an_index_that_was_damaged(store: Path) -> None:
    with open_store(store) as opened:
        opened.space("default").reindex()  # a few records have no rows yet
    connection = apsw.Connection(str(store), vfs=checked())
    connection.execute("delete from derived where term like 'tag %'")
    connection.close()
    with open_store(store) as opened:
        assert not opened.space("default").verify().ok
        assert Memory(opened.space("default")).list("ops", filters={"tags_any": ["prod"]}) == {
            "items": []
        }
    assert run("doctor", store=store).exit_code == 1
    said = run_ok("doctor", "--repair", store=store)
    assert "note: space default: its indexes were built anew\n" in said
    with open_store(store) as opened:
        assert opened.space("default").verify().ok
        found = Memory(opened.space("default")).list("ops", filters={"tags_any": ["prod"]})
        assert len(found["items"]) == 1


def test_namespaces_and_kinds_of_an_export_add_up(store: Path) -> None:
    run_ok("memory", "put", "session", "turn", "1", "{}", store=store)
    both = ("--namespace", "session", "--namespace", "ops")
    lines = run_ok("memory", "export", *both, store=store).splitlines()
    assert [decode(line)["namespace"] for line in lines] == ["ops", "session"]
    kinds = ("--kind", "turn", "--kind", "note")
    lines = run_ok("memory", "export", *kinds, "-o", "-", store=store).splitlines()
    assert [decode(line)["record_kind"] for line in lines] == ["note", "turn"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "longterm", "k", "i", "{}"),
        ("put", "ops", "", "i", "{}"),
        ("put", *KEY, "{}", "--metadata", '{"confidence":2}'),
        ("append", "longterm", "k", "i", "{}"),
        ("append", "ops", "k", "", "{}"),
    ],
)
def test_a_write_that_is_refused_leaves_no_new_store(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    error_of(run("memory", *arguments, store=tmp_path / "new.db"))
    assert list(tmp_path.iterdir()) == []


def test_numbers_for_programs_have_no_separators(store: Path) -> None:
    run_ok("memory", "put", *KEY, canonical({"text": "x" * 5_000}).decode(), store=store)
    _, _, size = run_ok("memory", "stats", store=store).splitlines()[-1].split("\t")
    assert int(size) > 5_000


def test_a_file_that_is_there_is_told_with_a_way_out(store: Path) -> None:
    store.with_name("mine").write_text("mine")
    told = error_of(run("memory", "export", "-o", str(store.with_name("mine")), store=store))
    assert "remove it, or name another" in told


def test_unknown_namespaces_are_told_with_the_option(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_bytes(canonical({**RECORD, "namespace": "zoo"}))
    assert "--namespaces" in error_of(run("memory", "import", str(file), store=tmp_path / "new.db"))
    assert "--namespaces" in run("memory", "validate", str(file)).stdout
