"""Nothing is read or written outside of a folder, and files are there whole or not at all."""

import os
from pathlib import Path
from typing import Any

import pytest

from rote.bridges import folders
from rote.bridges.folders import Folder, Skip, check_file_name, same_name
from rote.errors import InvalidInput, LimitExceeded

SIZE = 100

BAD_NAMES = [
    "../../x.md", "../x.md", "..", ".", "", "/etc/x.md", "a/b.md", "a\\b.md", "..\\x.md", "C:x.md",
    ".hidden.md", "..md", " x.md", "nul\x00.md", "line\nfeed.md", "tab\t.md", "del\x7f.md",
    "CON.md", "con.md", "Nul.txt.md", "aux .md", "COM1.md", "lpt9.md", "a*.md", "a?.md", 'a".md',
    "a<b>.md", "a|b.md", "right\u202eleft.md", "zero\u200bwidth.md", "line\u2028end.md",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_not_one_file_everywhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_file_name(name)


def test_other_names_are_taken() -> None:
    for name in ("2026-03-20.md", "a b.md", "a..md", "~x.md", "-x.md", "é\U0001f600.md", "icon.md"):
        assert check_file_name(name) == name
    assert check_file_name("x" * 252 + ".md")
    with pytest.raises(LimitExceeded):
        check_file_name("é" * 127 + ".md")


def test_names_are_the_same_where_case_or_composition_do_not_count() -> None:
    for left, right in [("A.md", "a.md"), ("É.md", "e\u0301.md"), ("STRASSE", "straße")]:
        assert same_name(left) == same_name(right)
    assert same_name("a.md") != same_name("b.md")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "mine.md").write_text("mine")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


def contents(path: Path) -> dict[str, str]:
    return {
        str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()
    }


def test_a_folder_that_is_a_link_is_not_entered(root: Path, outside: Path) -> None:
    (root / "2026").symlink_to(outside)
    with Folder(root) as folder:
        for name in ("2026/new.md", "2026/mine.md"):
            with pytest.raises(InvalidInput, match="is a link"):
                folder.write(name, b"theirs")
            with pytest.raises(InvalidInput, match="is a link"):
                folder.read(name, size_bytes_max=SIZE)
        assert folder.files() == ([], [("2026", "a link is not followed")])
    assert contents(outside) == {"mine.md": "mine"}


def test_a_file_that_is_a_link_is_not_read_and_never_written_through(
    root: Path, outside: Path
) -> None:
    (root / "x.md").symlink_to(outside / "mine.md")
    (root / "loop.md").symlink_to(root / "loop.md")
    with Folder(root) as folder:
        for name in ("x.md", "loop.md"):
            with pytest.raises(InvalidInput, match="is a link"):
                folder.read(name, size_bytes_max=SIZE)
        folder.write("x.md", b"new")
        assert folder.files()[0] == ["x.md"]
    assert contents(outside) == {"mine.md": "mine"}
    assert (root / "x.md").read_bytes() == b"new"


def test_what_is_no_file_is_not_read(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    (root / "folder.md").mkdir()
    with Folder(root) as folder:
        with pytest.raises(InvalidInput, match="no ordinary file"):
            folder.read("pipe.md", size_bytes_max=SIZE)
        assert folder.files() == ([], [("pipe.md", "its name is not UTF-8, or it is no file")])
        with pytest.raises((InvalidInput, OSError)):
            folder.read("folder.md", size_bytes_max=SIZE)
        assert folder.read("absent.md", size_bytes_max=SIZE) is None
        assert folder.read("absent/x.md", size_bytes_max=SIZE) is None


def test_a_write_that_fails_leaves_what_was_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with Folder(root) as folder:
        folder.write("2026/x.md", b"before")
        monkeypatch.setattr("os.fsync", full)
        for name in ("2026/x.md", "2026/y.md"):
            with pytest.raises(OSError, match="No space"):
                folder.write(name, b"after")
    assert contents(root) == {"2026/x.md": "before"}


def test_files_are_found_in_order_and_hidden_ones_are_told(root: Path) -> None:
    for name in ("b.markdown", "a/z.MD", "a/b/c.md", ".hidden/x.md", "a/.x.md", "notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    with Folder(root) as folder:
        files, others = folder.files()
        assert files == ["a/b/c.md", "a/z.MD", "b.markdown"]
        assert [name for name, _ in others] == [".hidden", "a/.x.md", "notes.txt"]
        assert folder.read("a/b/c.md", size_bytes_max=2) == b"a/b"


@pytest.mark.parametrize(
    ("globs", "files", "unused"),
    [
        ([], ["a/b/c.md", "a/d.md", "d.md", "e[1].md"], []),
        (["d.md"], ["a/b/c.md", "e[1].md"], []),
        (["./a/d.md"], ["a/b/c.md", "d.md", "e[1].md"], []),
        (["b/"], ["a/d.md", "d.md", "e[1].md"], []),
        (["a/*"], ["d.md", "e[1].md"], []),
        (["a"], ["d.md", "e[1].md"], []),
        (["**/d.md"], ["a/b/c.md", "e[1].md"], []),
        (["**/b/*"], ["a/d.md", "d.md", "e[1].md"], []),
        (["[c-e].md", "D.MD"], ["e[1].md"], ["D.MD"]),
        (["e[1].md", "/d.md"], ["a/b/c.md", "a/d.md", "e[1].md"], ["e[1].md"]),
        (["*"], [], []),
    ],
)
def test_what_is_skipped_is_told_with_its_pattern(
    root: Path, globs: list[str], files: list[str], unused: list[str]
) -> None:
    names = ("a/b/c.md", "a/d.md", "d.md", "e[1].md")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    skip = Skip(globs)
    with Folder(root) as folder:
        found, others = folder.files(skip)
    assert (found, list(skip.unused)) == (files, unused)
    assert all(reason.startswith("left out by --skip ") for _, reason in others)
    gone = [name for name in names if name not in found]
    for name in gone:
        assert any(name == other or name.startswith(f"{other}/") for other, _ in others)


@pytest.mark.parametrize("globs", ["a.md", [""], ["/"], [1], None, {"a.md"}])
def test_patterns_that_are_none_are_refused(globs: Any) -> None:
    with pytest.raises(InvalidInput):
        Skip(globs)
    with pytest.raises(LimitExceeded):
        Skip(["x"] * 101)


def test_a_name_that_is_not_utf_8_is_told_and_left_out(root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/\xff.md", os.O_CREAT | os.O_WRONLY))
    with Folder(root) as folder:
        files, others = folder.files()
    assert (files, [name for name, _ in others]) == ([], ["\\xff.md"])


def test_a_folder_has_bounds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "/".join("abcdefghi")).mkdir(parents=True)
    with Folder(root) as folder:
        with pytest.raises(LimitExceeded, match="depth"):
            folder.files()
        monkeypatch.setattr(folders, "MARKDOWN_NAMES_MAX", 3)
        with pytest.raises(LimitExceeded, match="number of files"):
            folder.files()
