import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from rote.values.limits import BLOB_CHUNK_BYTES
from tests.unit.cli.command import ROTE, environment, error_of, run, run_json, run_ok, run_process
from tests.unit.cli.test_outcome import on_terminal

DATA = bytes(range(256)) * (BLOB_CHUNK_BYTES // 100)
HASH = sha256(DATA).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


def test_bytes_go_in_from_a_file_and_out_to_one(store_path: Path, file: Path) -> None:
    assert run_ok("blob", "put", str(file), store=store_path) == f"{HASH}\n"
    target = file.with_name("out.bin")
    printed = run_ok("blob", "get", HASH, "-o", str(target), store=store_path)
    assert printed == f"{len(DATA)} bytes written to {target}\n"
    assert target.read_bytes() == DATA


def test_bytes_go_in_from_stdin_and_out_to_stdout(store_path: Path) -> None:
    result = run("blob", "put", "-", store=store_path, stdin=DATA)
    assert result.stdout == f"{HASH}\n"
    result = run("blob", "get", HASH, store=store_path)
    assert result.stdout_bytes == DATA


def test_what_is_known_of_a_blob_is_printed_as_json(store_path: Path, file: Path) -> None:
    options = ("--type", "image/png", "--label", "b", "--label", "a")
    info = {"hash": HASH, "size": len(DATA), "content_type": "image/png", "labels": ["b", "a"]}
    assert run_json("blob", "put", str(file), *options, store=store_path) == info
    assert run_json("blob", "get", HASH, store=store_path) == info
    target = file.with_name("out.bin")
    assert run_json("blob", "get", HASH, "-o", str(target), store=store_path) == info
    assert target.read_bytes() == DATA


def test_a_blob_is_described_on_the_branch_it_is_put_on(store_path: Path, file: Path) -> None:
    on_topic = ("--branch", "topic")
    error_of(run("blob", "put", str(file), *on_topic, store=store_path))
    assert not store_path.exists()
    run_ok("set", "urn:a", "1", store=store_path)
    run_ok("branch", "create", "topic", store=store_path)
    run_ok("blob", "put", str(file), "--type", "image/png", *on_topic, store=store_path)
    assert run("get", f"urn:blob-meta:{HASH}", store=store_path).exit_code == 1
    known = run_json("blob", "get", HASH, *on_topic, store=store_path)
    assert known["content_type"] == "image/png"
    assert run("blob", "get", HASH, store=store_path).stdout_bytes == DATA


def test_other_bytes_than_expected_are_refused(store_path: Path, file: Path) -> None:
    result = run("blob", "put", str(file), "--expect", "0" * 64, store=store_path)
    assert "nothing was stored" in error_of(result)
    assert run("blob", "get", HASH, store=store_path).exit_code == 1
    assert run_ok("blob", "put", str(file), "--expect", HASH, store=store_path) == f"{HASH}\n"


def test_bad_arguments_create_no_store(store_path: Path, file: Path) -> None:
    for options in (("--type", "plain"), ("--label", ""), ("--expect", "abc")):
        error_of(run("blob", "put", str(file), *options, store=store_path))
    error_of(run("blob", "put", str(file.with_name("nowhere")), store=store_path))
    assert not store_path.exists()


def test_a_blob_that_is_not_there_is_a_no(store_path: Path, file: Path) -> None:
    run_ok("blob", "put", str(file), store=store_path)
    result = run("blob", "get", "0" * 64, store=store_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no blob" in result.stderr
    error_of(run("blob", "get", "abc", store=store_path))
    error_of(run("blob", "get", HASH, store=store_path.with_name("nowhere.db")))


def test_a_file_that_is_there_is_not_overwritten(store_path: Path, file: Path) -> None:
    run_ok("blob", "put", str(file), store=store_path)
    other = file.with_name("precious")
    other.write_text("mine")
    assert "exists" in error_of(run("blob", "get", HASH, "-o", str(other), store=store_path))
    assert other.read_text() == "mine"


def test_gc_says_what_went_and_what_stays(store_path: Path, file: Path) -> None:
    run_ok("blob", "put", str(file), store=store_path)
    run_ok("blob", "put", "-", store=store_path, stdin="kept")
    run_ok("delete", f"urn:blob-meta:{HASH}", store=store_path)
    assert run_json("gc", store=store_path)["blobs"] == 0
    printed = run_ok("gc", "--grace", "0", store=store_path)
    assert printed.startswith("1 blob and 0 unfinished uploads collected (")
    assert printed.endswith("; 1 blob kept\n")
    assert run_json("gc", store=store_path) == {
        "blobs": 0, "uploads": 0, "size_bytes": 0, "kept": 1, "snapshots": 0,
        "erasures": 0, "is_shrunk": False,
    }  # fmt: skip


def test_a_copy_says_how_many_blobs_came(store_path: Path, file: Path) -> None:
    run_ok("blob", "put", str(file), store=store_path)
    result = run("copy", str(store_path), str(store_path.with_name("target.db")))
    assert result.stdout.startswith("1 commit copied, 1 blob\n")


def test_progress_is_for_terminals(tmp_path: Path, file: Path) -> None:
    assert "storing" in on_terminal("blob", "put", str(file), cwd=tmp_path)
    assert "reading" in on_terminal("blob", "get", HASH, "-o", "out.bin", cwd=tmp_path)
    run_process("delete", f"urn:blob-meta:{HASH}", cwd=tmp_path)
    assert "reading commits" in on_terminal("gc", "--grace", "0", cwd=tmp_path)
    assert run_process("blob", "put", str(file), cwd=tmp_path).stderr == ""


def test_output_that_nobody_reads_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(4_000_000))
    hash = run_process("blob", "put", "large", cwd=tmp_path).stdout.strip()
    ended = subprocess.run(
        ["sh", "-c", f"{ROTE} blob get {hash} | head -c 10 | wc -c"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (ended.stdout.strip(), ended.stderr) == ("10", "")


def test_blobs_are_listed_as_a_branch_describes_them(store_path: Path) -> None:
    put = ("blob", "put", "-")
    first = run_ok(*put, "--type", "text/plain", "--label", "a", "--label", "b", store=store_path,
                   stdin=b"hello").strip()  # fmt: skip
    second = run_ok(*put, store=store_path, stdin=b"x" * 2_000).strip()
    run_ok("set", f"urn:blob-meta:{'0' * 64}", "{}", store=store_path)  # of no blob
    rows = {
        first: f"{first}\t5\ttext/plain\ta, b",
        second: f"{second}\t2000\tapplication/octet-stream\t",
    }
    lines = run_ok("blob", "list", store=store_path).splitlines()
    assert lines == [rows[hash] for hash in sorted(rows)]
    assert run_ok("blob", "list", "--at", "1", store=store_path).splitlines() == [rows[first]]
    printed = run_ok("blob", "list", "--json", "--at", "1", store=store_path)
    assert printed == run_ok("blob", "get", first, "--json", store=store_path)
    run_ok("delete", f"urn:blob-meta:{first}", store=store_path)
    assert run_ok("blob", "list", store=store_path).splitlines() == [rows[second]]
