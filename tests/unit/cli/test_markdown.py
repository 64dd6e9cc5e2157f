"""`rote memory export|import|validate` with Markdown: folders out and in, and the output."""

from pathlib import Path

import pytest

from rote.values import decode
from tests.unit.cli.command import error_of, run, run_json, run_ok


@pytest.fixture
def store(store_path: Path) -> Path:
    entry = '{"text":"two\\nlines [x]","at":"2026-01-01T09:00:00Z"}'
    run_ok("memory", "append", "daily_log", "note", "2026-01-01", entry, store=store_path)
    return store_path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("- sun\n\n## Preferences\n\n- tea\n")
    (folder / "2026-03-20.md").write_text("- asked\n")
    (folder / "README.md").write_text("")
    return folder


def test_daily_logs_go_out_and_come_back(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("memory", "export", "--format", "markdown", "-o", str(out))
    assert run_ok(*arguments, store=store) == f"1 file written to {out}, 0 there before\n"
    assert run_json(*arguments, store=store) == {
        "records": 1,
        "written": 0,
        "unchanged": 1,
        "without_record": [],
    }
    text = (out / "2026" / "2026-01-01.md").read_text()
    assert text.endswith("# 2026-01-01\n\n- [2026-01-01T09:00:00Z] two\n  lines [x]\n")
    other = tmp_path / "other.db"
    assert run_ok("memory", "import", str(out), store=other) == (
        "daily_log\tnote\t1\t1\t0\t0\t0\n1 record imported (1 new, 0 changed), 0 there before\n"
    )
    assert run_ok("memory", "export", store=other) == run_ok("memory", "export", store=store)


def test_an_id_that_would_leave_the_folder_is_refused(store: Path, tmp_path: Path) -> None:
    run_ok("memory", "append", "daily_log", "note", "../../x", "{}", store=store)
    out = tmp_path / "deep" / "out"
    told = error_of(run("memory", "export", "--format", "markdown", "-o", str(out), store=store))
    assert "note '../../x' is no name for a file" in told
    assert not out.parent.exists()
    assert not (tmp_path / "x.md").exists()


def test_a_folder_is_migrated_with_a_report(store: Path, notes: Path) -> None:
    rows = (
        "warning\tREADME.md:1\tthere is no text in it; it is left out\n"
        "daily_log\tnote\t1\t1\t0\t0\t0\nlong_term\tfact\t1\t1\t0\t0\t0\n"
        "long_term\tpreference\t1\t1\t0\t0\t0\n"
    )
    head = run_json("log", store=store)
    arguments = ("memory", "import", str(notes))
    assert run_ok(*arguments, "--dry-run", store=store) == (
        rows + "3 records would be imported (3 new, 0 changed), 0 there before\n"
    )
    assert run_json("log", store=store) == head
    assert run_ok(*arguments, store=store) == (
        rows + "3 records imported (3 new, 0 changed), 0 there before\n"
    )
    report = run_json(*arguments, store=store)
    assert (report["records"], report["written"], report["commits"]) == (3, 0, 0)
    assert [problem["path"] for problem in report["warnings"]] == ["README.md:1"]
    (notes / "README.md").write_text("about")
    assert run_ok("memory", "import", str(notes / "README.md"), store=store) == (
        "long_term\tfact\t1\t1\t0\t0\t0\n1 record imported (1 new, 0 changed), 0 there before\n"
    )


def test_a_dry_run_and_a_missing_file_make_no_store(tmp_path: Path, notes: Path) -> None:
    store = tmp_path / "new.db"
    told = run_ok("memory", "import", str(notes), "--dry-run", store=store)
    assert told.endswith("3 records would be imported (3 new, 0 changed), 0 there before\n")
    error_of(run("memory", "import", str(tmp_path / "absent.md"), store=store))
    error_of(run("memory", "validate", str(tmp_path / "absent.md")))
    assert not store.exists()


def test_a_bad_file_is_one_line_and_nothing_is_written(store: Path, notes: Path) -> None:
    (notes / "2026-03-21.md").write_bytes(b"- a\n- \xff\n")
    head = run_json("log", store=store)
    told = error_of(run("memory", "import", str(notes), store=store))
    assert told == "error: 2026-03-21.md:2: it is not UTF-8; convert the file\n"
    assert run_json("log", store=store) == head


def test_notes_that_are_refused_leave_no_new_store(tmp_path: Path, notes: Path) -> None:
    (notes / "2026-03-21.md").write_bytes(b"- a\n- \xff\n")
    store = tmp_path / "new.db"
    assert "2026-03-21.md:2" in error_of(run("memory", "import", str(notes), store=store))
    assert not store.exists()
    (notes / "2026-03-21.md").unlink()
    assert "3 records imported" in run_ok("memory", "import", str(notes), store=store)


def test_a_batch_of_notes_that_fails_tells_what_was_written_before(
    store: Path, notes: Path
) -> None:
    (notes / "z").mkdir()
    (notes / "z" / "2026-03-21.md").write_bytes(b"- a\n- \xff\n")
    arguments = ("memory", "import", str(notes), "--batch", "2")
    told = error_of(run(*arguments, "--dry-run", store=store))
    assert "2026-03-21.md:2" in told
    assert "written" not in told
    told = error_of(run(*arguments, store=store))
    assert "the batches before it, 2 records, were written" in told


def test_validate_knows_markdown(notes: Path) -> None:
    fine = run("memory", "validate", str(notes))
    assert (fine.exit_code, fine.stdout.splitlines()[-1]) == (0, "ok: 3 records")
    (notes / "2026-03-21.md").write_bytes(b"- a\n- \xff\n")
    refused = run("memory", "validate", str(notes), "--json")
    assert refused.exit_code == 1
    told = [decode(line) for line in refused.stdout.splitlines()]
    assert told == [
        {
            "kind": "error",
            "path": "2026-03-21.md:2",
            "message": "it is not UTF-8; convert the file",
        },
        {
            "kind": "warning",
            "path": "README.md:1",
            "message": "there is no text in it; it is left out",
        },
    ]
    error_of(run("memory", "validate", str(notes / "MEMORY.md"), "--namespaces", "Own"))
    assert run("memory", "validate", str(notes / "MEMORY.md"), "--namespaces", "own").exit_code == 0


def test_an_export_says_what_it_cannot_do(store: Path, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "out"))
    for options in (
        ("--format", "markdown"),
        ("--format", "markdown", "--namespace", "ops", *out),
        ("--json",),
    ):
        error_of(run("memory", "export", *options, store=store))
    assert run_json("memory", "export", "--kind", "absent", *out, store=store) == {"records": 0}


def test_an_export_keeps_what_was_edited_until_it_is_told(store: Path, tmp_path: Path) -> None:
    arguments = ("memory", "export", "--format", "markdown", "-o", str(tmp_path / "out"))
    run_ok(*arguments, store=store)
    [file] = (tmp_path / "out").rglob("*.md")
    edited = file.read_text() + "- by hand\n"
    file.write_text(edited)
    run_ok("memory", "append", "daily_log", "note", "2026-01-01", "{}", store=store)
    told = error_of(run(*arguments, store=store))
    assert "2026/2026-01-01.md was edited" in told
    assert file.read_text() == edited
    told = error_of(run("memory", "import", str(file), store=store))
    assert "2026-01-01.md:1 (daily_log note 2026-01-01: there " in told
    assert run_ok(*arguments, "--overwrite", store=store).startswith("1 file written")


def test_an_export_tells_of_files_without_a_record(store: Path, tmp_path: Path) -> None:
    arguments = ("memory", "export", "--format", "markdown", "-o", str(tmp_path / "out"))
    run_ok(*arguments, store=store)
    run_ok("memory", "delete", "daily_log", "note", "2026-01-01", store=store)
    assert "1 file has no record any more: 2026/2026-01-01.md; " in run_ok(*arguments, store=store)
    report = run_json(*arguments, store=store)
    assert report["without_record"] == ["2026/2026-01-01.md"]


def test_an_empty_name_is_not_this_folder(
    store: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes)
    for command in ("import", "validate"):
        assert "empty" in error_of(
            run("memory", command, "", store=store if command == "import" else None)
        )
    assert "empty" in error_of(
        run("memory", "export", "--format", "markdown", "-o", "", store=store)
    )


def test_an_export_names_its_formats_and_wants_a_folder(store: Path) -> None:
    assert "markdown" in error_of(run("memory", "export", "--format", "md", store=store))
    told = error_of(run("memory", "export", "--format", "markdown", "-o", "-", store=store))
    assert "-o DIR" in told


# -- workspaces ------------------------------------------------------------------------------------


def test_a_folder_of_which_nothing_is_taken_is_a_no(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert run("memory", "import", str(folder), store=store).exit_code == 0  # no pages at all
    (folder / "a.md").write_text("<!-- nothing -->")
    (folder / "MEMORY.md").write_text("<!-- nothing -->\n---\n")
    skipped = run("memory", "import", str(folder), "--skip", "a.md", store=store)
    assert skipped.exit_code == 1
    assert skipped.stdout == (
        "warning\ta.md\tleft out by --skip a.md\n"
        "warning\tMEMORY.md:1\ta comment is left out\n"
        "warning\tMEMORY.md:2\tlines without text are left out: 2\n"
        "warning\tMEMORY.md:1\tthere is no text in it; it is left out\n"
        "0 records imported (0 new, 0 changed), 0 there before\n"
    )
    assert run("memory", "import", str(folder), "--skip", "*", store=store).exit_code == 1
    # What is there already was imported before: that is a yes.
    for _ in range(2):
        assert run("memory", "import", str(folder), store=store).exit_code == 0


def test_a_namespace_that_is_none_is_one_line_and_leaves_no_store(tmp_path: Path) -> None:
    page = tmp_path / "tea.md"
    page.write_text("---\nid: tea\nnamespace: kitchen\n---\ngreen\n")
    new = tmp_path / "new.db"
    told = error_of(run("memory", "import", str(page), store=new))
    assert told.startswith("error: tea.md:3: namespace: there is no namespace 'kitchen'; there are")
    assert not new.exists()
    run_ok("memory", "import", str(page), "--namespaces", "kitchen", store=new)
    found = run_json("memory", "get", "kitchen", "fact", "tea", store=new)
    assert found["record"]["payload"] == {"text": "green"}


def test_skip_goes_with_folders(store: Path, notes: Path, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text("")
    for file in (notes / "MEMORY.md", records):
        for command in ("import", "validate"):
            arguments = ("memory", command, str(file), "--skip", "x")
            told = error_of(run(*arguments, store=store if command == "import" else None))
            assert "no folder" in told
    fine = run("memory", "validate", str(notes), "--skip", "README.md", "--skip", "2026*")
    assert fine.stdout.splitlines()[-1] == "ok: 2 records"


def test_records_show_what_they_carry(store: Path, tmp_path: Path) -> None:
    line = run_ok("memory", "export", store=store)
    carried = line[:-2] + ',"provenance":{"authored_by":"bot"},"flags":{"curated":true}}\n'
    file = tmp_path / "ainl.jsonl"
    file.write_text(carried)
    other = tmp_path / "other.db"
    assert "1 record imported" in run_ok("memory", "import", str(file), store=other)
    arguments = ("memory", "list", "daily_log", "--include", "provenance", "--include", "flags")
    [item] = run_json(*arguments, store=other)["items"]
    assert (item["provenance"], item["flags"]) == ({"authored_by": "bot"}, {"curated": True})
    assert decode(run_ok("memory", "export", store=other)) == decode(carried)
    file.write_text(carried.replace('{"curated":true}', "[]"))
    assert "/flags" in run("memory", "validate", str(file)).stdout


def test_a_report_is_of_a_namespace_and_of_kinds(store: Path) -> None:
    for kind in ("a", "b", "c"):
        run_ok("memory", "put", "ops", kind, "1", "{}", store=store)
    report = run_json("memory", "report", "--namespace", "ops", store=store)
    assert (report["totals"]["records"], list(report["by_namespace"])) == (3, ["ops"])
    report = run_json("memory", "report", "--kind", "a", "--kind", "c", store=store)
    assert (report["totals"]["records"], list(report["by_kind"])) == (2, ["a", "c"])
    error_of(run("memory", "report", "--namespace", "nope", store=store))
    error_of(run("memory", "report", "--kind", "", store=store))
