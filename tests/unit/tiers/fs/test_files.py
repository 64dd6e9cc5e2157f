"""The fs adapter: what its verbs answer, refuse and leave behind."""

import fcntl
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rote.errors import Busy, InvalidInput, LimitExceeded, NotFound, RoteError, Unavailable
from rote.tiers.fs import Files, files, open_fs
from tests.unit.tiers.calling import call, code, refusal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def box(root: Path) -> Iterator[Files]:
    adapter = open_fs({"sandbox_root": str(root), "allow_delete": True})
    yield adapter
    adapter.close()


def opened(root: Path, **options: Any) -> Files:
    return open_fs({"sandbox_root": str(root), **options})


def test_a_file_that_was_written_is_read_listed_and_deleted(box: Files, root: Path) -> None:
    assert call(box, "write", "/reports/daily.json", "grün") == {"ok": True, "bytes": 5}
    assert (root / "reports" / "daily.json").read_text() == "grün"
    assert call(box, "read", "reports/daily.json") == {"content": "grün", "bytes": 5}
    assert call(box, "exists", "reports/daily.json") == {"exists": True, "type": "file"}
    assert call(box, "exists", "reports") == {"exists": True, "type": "directory"}
    entry = {"name": "daily.json", "type": "file", "bytes": 5}
    assert call(box, "list", "reports") == {"entries": [entry]}
    assert call(box, "delete", "/reports/daily.json") == {"ok": True, "deleted": True}
    assert call(box, "delete", "/reports/daily.json") == {"ok": True, "deleted": False}
    assert call(box, "exists", "reports/daily.json") == {"exists": False, "type": None}
    assert call(box, "list", "reports") == {"entries": []}


def test_the_root_is_listed_by_each_of_its_names(box: Files) -> None:
    call(box, "write", "b.txt", "1")
    call(box, "write", "B/c.txt", "22")
    listed = [
        {"name": "B", "type": "directory", "bytes": None},
        {"name": "b.txt", "type": "file", "bytes": 1},
    ]
    for path in ("", ".", "/"):
        assert call(box, "list", path) == {"entries": listed}
    assert call(box, "list") == {"entries": listed}


def test_only_list_takes_the_root(box: Files) -> None:
    for path in ("", "/"):
        assert code(box, "read", path) == "bad_path"
        assert code(box, "write", path, "x") == "bad_path"
        assert code(box, "append", path, "x") == "bad_path"
        assert code(box, "exists", path) == "bad_path"
        assert code(box, "delete", path) == "bad_path"


def test_append_adds_to_a_file_and_makes_a_missing_one(box: Files) -> None:
    assert call(box, "append", "log/a.txt", "one\n") == {"ok": True, "bytes": 4}
    assert call(box, "append", "log/a.txt", "dHdvCg==", "base64") == {"ok": True, "bytes": 8}
    assert call(box, "read", "log/a.txt")["content"] == "one\ntwo\n"


def test_bytes_that_are_no_text_are_read_as_base64(box: Files) -> None:
    assert call(box, "write", "x.bin", "/wA=", "base64") == {"ok": True, "bytes": 2}
    assert code(box, "read", "x.bin") == "not_text"
    assert call(box, "read", "x.bin", "base64") == {"content": "/wA=", "bytes": 2}


def test_bad_contents_and_encodings_are_refused(box: Files, root: Path) -> None:
    for content in ("a", "a===", "äöü=", "AA==\n", "AA ="):
        assert code(box, "write", "x", content, "base64") == "bad_arguments"
    assert code(box, "write", "x", "y", "latin-1") == "bad_arguments"
    assert code(box, "write", "x", "\ud800") == "not_text"
    assert list(root.iterdir()) == []


def test_what_is_absent_is_not_found(box: Files) -> None:
    for verb, path in (("read", "x"), ("read", "x/y"), ("list", "x"), ("list", "x/y")):
        assert isinstance(refusal(box, verb, path), NotFound)
    assert call(box, "exists", "x/y")["exists"] is False
    assert call(box, "delete", "x/y")["deleted"] is False


def test_a_folder_is_no_file_and_a_file_no_folder(box: Files) -> None:
    call(box, "write", "folder/file", "x")
    assert code(box, "read", "folder") == "not_a_file"
    assert code(box, "write", "folder", "x") == "not_a_file"
    assert code(box, "append", "folder", "x") == "not_a_file"
    assert code(box, "delete", "folder") == "not_a_file"
    assert code(box, "list", "folder/file") == "not_a_folder"
    for verb, more in (("read", ()), ("write", ("x",)), ("append", ("x",)), ("exists", ())):
        assert code(box, verb, "folder/file/x", *more) == "not_a_folder"
    assert code(box, "delete", "folder/file/x") == "not_a_folder"


def _things(root: Path, outside: Path) -> list[str]:
    """Put everything that is not plain under a name; return the names."""
    (outside / "secret.txt").write_text("secret")
    (root / "file.txt").write_text("own")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "inner.txt").symlink_to("file.txt")
    (root / "dangling.txt").symlink_to("nowhere")
    (root / "folder.txt").symlink_to(outside)
    (root / "hard.txt").hardlink_to(outside / "secret.txt")
    os.mkfifo(root / "pipe.txt")
    server = socket.socket(socket.AF_UNIX)
    folder = os.open(root, os.O_RDONLY)
    server.bind(f"/proc/self/fd/{folder}/socket.txt")
    server.close()
    os.close(folder)
    names = ["link.txt", "inner.txt", "dangling.txt", "folder.txt", "hard.txt", "pipe.txt"]
    return [*names, "socket.txt"]


def test_links_pipes_and_sockets_are_refused_by_every_verb(
    box: Files, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    names = _things(root, outside)
    for name in names:
        for verb, more in (("read", ()), ("write", ("x",)), ("append", ("x",)), ("exists", ())):
            assert code(box, verb, name, *more) == "not_plain", (verb, name)
        assert code(box, "delete", name) == "not_plain"
        assert code(box, "list", name) in ("not_plain", "not_a_folder")
    for verb, more in (("read", ()), ("write", ("x",)), ("append", ("x",)), ("exists", ())):
        assert code(box, verb, "folder.txt/secret.txt", *more) == "not_plain"
    assert code(box, "delete", "folder.txt/secret.txt") == "not_plain"
    assert code(box, "list", "folder.txt") == "not_plain"
    assert [each["name"] for each in call(box, "list")["entries"]] == ["file.txt"]
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"secret.txt": "secret"}
    assert sorted(path.name for path in root.iterdir()) == sorted([*names, "file.txt"])


def test_a_device_is_refused(box: Files, root: Path) -> None:
    try:
        os.mknod(root / "null", 0o020666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    assert code(box, "read", "null") == "not_plain"
    assert code(box, "write", "null", "x") == "not_plain"


def test_a_list_has_only_names_that_a_path_can_have(box: Files, root: Path) -> None:
    for name in (b"ok", b"not\xffutf8", b"back\\slash", b"line\nbreak", "e\u0301".encode()):
        os.close(os.open(os.fsencode(root) + b"/" + name, os.O_CREAT | os.O_WRONLY))
    (root / ".rote.draft").write_text("half")
    assert [each["name"] for each in call(box, "list")["entries"]] == ["ok"]


def test_a_list_at_the_last_level_has_nothing_that_no_path_reaches(box: Files, root: Path) -> None:
    deepest = root.joinpath(*"a" * 32)
    deepest.mkdir(parents=True)
    (deepest / "x").write_text("")
    assert call(box, "list", "/".join("a" * 32)) == {"entries": []}
    assert call(box, "list", "/".join("a" * 31))["entries"][0]["name"] == "a"


def test_a_folder_with_too_many_names_is_refused(
    box: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FS_ENTRIES_MAX", 3)
    for name in "abc":
        (root / name).write_text("")
    assert len(call(box, "list")["entries"]) == 3
    (root / "d").write_text("")
    assert isinstance(refusal(box, "list"), LimitExceeded)


def test_extensions_are_exact_and_dotfiles_have_none(root: Path) -> None:
    box = opened(root, allow_extensions=[".txt"], allow_delete=True)
    call(box, "write", "folder/a.txt", "x")
    for name in ("a.TXT", "a.txt2", "a", "a.", ".txt", ".a.txt", "txt", "a.txt.exe", "folder"):
        assert code(box, "write", name, "x") == "extension_denied", name
        assert code(box, "append", name, "x") == "extension_denied"
        assert code(box, "read", name) == "extension_denied"
        assert code(box, "delete", name) == "extension_denied"
    (root / "b.exe").write_text("x")
    assert code(box, "exists", "b.exe") == "extension_denied"
    assert call(box, "exists", "c.exe")["exists"] is False
    assert call(box, "exists", "folder")["type"] == "directory"
    assert [each["name"] for each in call(box, "list")["entries"]] == ["folder"]
    box.close()


def test_no_extensions_allow_no_file(root: Path) -> None:
    box = opened(root, allow_extensions=[])
    assert code(box, "write", "a.txt", "x") == "extension_denied"
    box.close()


def test_a_grant_only_narrows(root: Path) -> None:
    box = opened(root, allow_extensions=[".txt", ".md"], max_write_bytes=4, max_read_bytes=4)
    granted: dict[str, Any] = {"allow_extensions": (".md", ".exe")}
    assert code(box, "write", "a.txt", "x", granted=granted) == "extension_denied"
    assert code(box, "write", "a.exe", "x", granted=granted) == "extension_denied"
    assert call(box, "write", "a.md", "1234", granted=granted)["bytes"] == 4
    for sizes in ({"max_write_bytes": 3}, {"max_write_bytes": 3, "max_read_bytes": 9}):
        error = refusal(box, "write", "a.md", "1234", granted=sizes)
        assert isinstance(error, LimitExceeded)
        assert error.details["limit"] == 3
    assert isinstance(
        refusal(box, "write", "a.md", "12345", granted={"max_write_bytes": 9}), LimitExceeded
    )
    assert isinstance(refusal(box, "read", "a.md", granted={"max_read_bytes": 3}), LimitExceeded)
    box.close()


def test_sizes_count_bytes_and_are_named_when_passed(root: Path) -> None:
    box = opened(root, max_read_bytes=4, max_write_bytes=6)
    call(box, "write", "a", "äää")
    error = refusal(box, "read", "a")
    assert isinstance(error, LimitExceeded)
    assert str(error).startswith("max_read_bytes: ")
    assert str(error).endswith("read a smaller file, or raise max_read_bytes")
    assert (error.details["size"], error.details["limit"]) == (6, 4)
    assert "max_write_bytes" in str(refusal(box, "write", "a", "ääää"))
    call(box, "write", "b", "1234")
    assert isinstance(refusal(box, "append", "b", "567"), LimitExceeded)
    assert (root / "b").read_text() == "1234"
    assert call(box, "append", "b", "56")["bytes"] == 6
    (root / "c").write_text("12345678")
    assert isinstance(refusal(box, "append", "c", ""), LimitExceeded)
    box.close()


def test_a_size_of_zero_is_a_bound(root: Path) -> None:
    box = opened(root, max_read_bytes=0, max_write_bytes=0)
    assert call(box, "write", "a", "") == {"ok": True, "bytes": 0}
    assert call(box, "read", "a") == {"content": "", "bytes": 0}
    assert isinstance(refusal(box, "write", "a", "x"), LimitExceeded)
    box.close()


def test_a_refused_write_leaves_no_folder_behind(root: Path) -> None:
    box = opened(root, max_write_bytes=1, allow_extensions=[".txt"])
    refusal(box, "write", "new/a.txt", "12")
    refusal(box, "write", "new/a.exe", "1")
    refusal(box, "write", "new/a.txt", "?", "base64")
    assert list(root.iterdir()) == []
    box.close()


def test_a_new_file_keeps_the_permissions_of_the_old_one(box: Files, root: Path) -> None:
    call(box, "write", "a", "1")
    (root / "a").chmod(0o640)
    call(box, "write", "a", "2")
    call(box, "append", "a", "3")
    assert (root / "a").stat().st_mode & 0o7777 == 0o640


def test_a_draft_of_a_killed_writer_is_not_in_the_way(box: Files, root: Path) -> None:
    draft = root / ".rote.draft"
    draft.write_text("half of a file")
    assert code(box, "read", ".rote.draft") == "bad_path"
    assert code(box, "delete", ".rote.draft") == "bad_path"
    call(box, "write", "a", "1")
    assert sorted(path.name for path in root.iterdir()) == ["a"]
    draft.symlink_to(root / "a")
    call(box, "write", "b", "2")
    assert (root / "a").read_text() == "1"
    assert not draft.is_symlink()


def test_a_file_is_synced_before_it_takes_its_name_and_the_name_afterwards(
    box: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename, mkdir = os.fsync, os.rename, os.mkdir

    def noting_fsync(descriptor: int) -> None:
        is_folder = os.path.isdir(f"/proc/self/fd/{descriptor}")  # noqa: PTH112
        done.append("sync folder" if is_folder else "sync file")
        fsync(descriptor)

    def noting_rename(*args: Any, **more: Any) -> None:
        done.append("rename")
        rename(*args, **more)

    def noting_mkdir(*args: Any, **more: Any) -> None:
        done.append("mkdir")
        mkdir(*args, **more)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "rename", noting_rename)
    monkeypatch.setattr(os, "mkdir", noting_mkdir)
    call(box, "write", "new/a", "x")
    assert done == ["mkdir", "sync folder", "sync file", "rename", "sync folder"]
    done.clear()
    call(box, "append", "new/a", "y")
    assert done == ["sync file", "rename", "sync folder"]


def test_a_failed_write_leaves_the_old_file_and_no_draft(
    box: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(box, "write", "a", "old")

    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    error = refusal(box, "write", "a", "new")
    assert error.code == "disk_full"
    assert str(root) not in str(error.to_dict())
    assert {path.name: path.read_text() for path in root.iterdir()} == {"a": "old"}


def test_a_reader_of_a_file_that_is_replaced_gets_the_old_one_whole(
    box: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(box, "write", "a", "old")
    (root / "b").write_text("new")
    fstat = os.fstat

    def fstat_after_a_swap(descriptor: int) -> os.stat_result:
        monkeypatch.undo()
        (root / "b").replace(root / "a")
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", fstat_after_a_swap)
    assert call(box, "read", "a")["content"] == "old"
    assert (root / "a").read_text() == "new"


@pytest.mark.parametrize("kind", ["hard", "link", "pipe", "folder"])
def test_what_takes_the_place_of_a_file_after_the_look_is_judged_on_the_open_descriptor(
    kind: str, box: Files, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(box, "write", "a", "own")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    other = root / "other"
    kinds: dict[str, Callable[[], object]] = {
        "hard": lambda: other.hardlink_to(secret),
        "link": lambda: other.symlink_to(secret),
        "pipe": lambda: os.mkfifo(other),
        "folder": other.mkdir,
    }
    kinds[kind]()
    really_open = os.open

    def open_after_a_swap(name: str, *args: Any, **more: Any) -> int:
        if name == "a":
            monkeypatch.undo()
            (root / "a").unlink()
            other.rename(root / "a")
        return really_open(name, *args, **more)

    monkeypatch.setattr(os, "open", open_after_a_swap)
    assert code(box, "read", "a") == ("not_a_file" if kind == "folder" else "not_plain")


def test_a_writer_waits_for_another_and_then_gives_up(
    box: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FS_LOCK_SECONDS_MAX", 0.02)
    call(box, "write", "a", "old")
    other = os.open(root, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    for verb, more in (("write", ("new",)), ("append", ("new",)), ("delete", ())):
        assert isinstance(refusal(box, verb, "a", *more), Busy)
    assert call(box, "read", "a")["content"] == "old"
    os.close(other)
    assert call(box, "append", "a", "er")["bytes"] == 5


def test_threads_that_append_lose_nothing(box: Files) -> None:
    def append(letter: str) -> None:
        for _ in range(10):
            call(box, "append", "log", f"{letter}\n")

    threads = [threading.Thread(target=append, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(call(box, "read", "log")["content"].split()) == sorted("abcd" * 10)


def test_options_are_checked_when_the_adapter_is_made(root: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_fs({"sandbox_root": str(tmp_path / "missing")})
    (tmp_path / "file").write_text("")
    bad: list[dict[str, Any]] = [
        {}, {"sandbox_root": ""}, {"sandbox_root": 5}, {"sandbox_root": "/"},
        {"sandbox_root": "/proc/.."}, {"sandbox_root": str(tmp_path / "file")},
        {"sandbox_root": "a\0b"}, {"sandbox_root": str(root), "allow": 1},
    ]  # fmt: skip
    ill_typed: dict[str, list[Any]] = {
        "allow_extensions": [".txt", [""], ["txt"], [5], ["."], [".tar.gz"], ["./x"], {}],
        "max_read_bytes": [-1, 1.5, "5", True],
        "max_write_bytes": [-1, 1.5, "5", True],
        "allow_delete": [1, "yes"],
    }
    for name, values in ill_typed.items():
        bad += [{"sandbox_root": str(root), name: value} for value in values]
    for options in bad:
        with pytest.raises(InvalidInput):
            open_fs(options)


def test_the_root_is_opened_once(box: Files, root: Path, tmp_path: Path) -> None:
    call(box, "write", "a", "x")
    root.rename(tmp_path / "moved")
    root.symlink_to("/")
    assert call(box, "read", "a")["content"] == "x"
    assert call(box, "exists", "etc")["exists"] is False


def test_a_closed_adapter_is_unavailable(box: Files) -> None:
    box.close()
    box.close()
    assert isinstance(refusal(box, "list"), Unavailable)


def test_no_call_leaves_a_descriptor_open(box: Files, root: Path) -> None:
    (root / "link").symlink_to("/")
    call(box, "write", "a/b/c", "x")
    before = sorted(Path("/proc/self/fd").iterdir())
    for verb, *args in (
        ("read", "a/b/c"), ("write", "a/b/c", "y"), ("append", "a/n/c", "y"), ("list", "a"),
        ("exists", "a/b/c"), ("delete", "a/b/c"),
    ):  # fmt: skip
        call(box, verb, *args)
        for path in ("link/x", "a/b/c/d", "a/b", "none/x"):
            try:
                call(box, verb, path, *args[1:])
            except (RoteError, AssertionError):
                pass
    assert sorted(Path("/proc/self/fd").iterdir()) == before
