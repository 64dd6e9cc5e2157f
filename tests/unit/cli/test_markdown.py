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
    (folder / "README.md").write_text("about")
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
        "warning\tREADME.md\tit is neither MEMORY.md, nor named after a day, nor an export;"
        " it is left out\ndaily_log\tnote\t1\t1\t0\t0\t0\nlong_term\tfact\t1\t1\t0\t0\t0\n"
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
    assert [problem["path"] for problem in report["warnings"]] == ["README.md"]
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
            "path": "README.md",
            "message": "it is neither MEMORY.md, nor named after a day, nor an export;"
            " it is left out",
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
