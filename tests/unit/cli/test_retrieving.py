"""rote retrieve: where it keeps what files hold, and where not."""

from pathlib import Path

import pytest

from tests.unit.cli.command import error_of, run, run_process

REQUEST = '{"query":"keys","store_paths":["s.jsonl"],"budget":{"max_excerpt_tokens":50}}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "s.jsonl").write_bytes(b'{"memory_id":"1","text":"deploy keys"}\n')
    return tmp_path / "root"


def asked(root: Path, *options: str, **environment: str) -> str:
    told = run_process("retrieve", REQUEST, *options, cwd=root, **environment)
    assert (told.returncode, told.stderr) == (0, "")
    return told.stdout


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_kept_in_the_users_cache_folder(root: Path, tmp_path: Path) -> None:
    cache, home = tmp_path / "cache", tmp_path / "home"
    first = asked(root, XDG_CACHE_HOME=str(cache), HOME=str(home))
    [kept] = files_in(cache)
    assert kept.startswith("rote/retrieval/")
    assert not home.exists()
    assert asked(root, XDG_CACHE_HOME="relative", HOME=str(home)) == first
    assert [path.removeprefix(".cache/") for path in files_in(home)] == [kept]
    assert files_in(root) == ["s.jsonl"]


def test_a_file_is_kept_where_one_says_or_nowhere(root: Path, tmp_path: Path) -> None:
    cache, other = tmp_path / "cache", tmp_path / "other"
    environment = {"XDG_CACHE_HOME": str(cache), "HOME": str(tmp_path / "home")}
    first = asked(root, "--no-cache", **environment)
    assert files_in(tmp_path) == ["root/s.jsonl"]
    assert asked(root, "--cache", str(other), **environment) == first
    assert len(files_in(other)) == 1
    assert not cache.exists()


def test_a_home_that_cannot_be_written_is_no_fault(root: Path) -> None:
    assert asked(root, XDG_CACHE_HOME="/proc/nothing", HOME="/proc/nothing")


def test_a_cache_and_none_exclude_each_other(root: Path) -> None:
    told = run("retrieve", REQUEST, "--root", str(root), "--cache", "x", "--no-cache")
    assert "exclude each other" in error_of(told)
