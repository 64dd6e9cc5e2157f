"""Vectors of files in a directory: none is trusted, and none is missed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rote.errors import InvalidInput
from rote.retrieval.ranking.vectors import quantised
from rote.retrieval.vector_cache import VectorCache
from rote.retrieval.vector_files import VectorFiles

KEY = "vectors/a@1/3\n/notes.jsonl"
GOOD = quantised([3.0, -4.0, 1.0]) or b""
SOME = {number.to_bytes(32, "big"): GOOD for number in range(5)}


def only(folder: Path) -> Path:
    [file] = folder.iterdir()
    return file


def test_vectors_come_back_as_they_were_kept(tmp_path: Path) -> None:
    files = VectorFiles(tmp_path / "kept")
    assert files.get(KEY, 3) == {}
    files.keep(KEY, SOME)
    assert files.get(KEY, 3) == SOME
    assert VectorFiles(tmp_path / "kept").get(KEY, 3) == SOME
    files.keep(KEY, None)
    assert files.get(KEY, 3) == SOME
    assert files.get("other", 3) == {}
    files.keep(KEY, {})
    assert files.get(KEY, 3) == {}


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_link(file: Path) -> None:
    real = file.rename(file.with_suffix(".real"))
    file.symlink_to(real)


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGE: list[Callable[[Path], object]] = [
    lambda file: file.write_bytes(file.read_bytes()[:-1]),
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"rote-vectors-2\n"),
    lambda file: file.write_bytes(file.read_bytes().replace(GOOD, bytes(7), 1)),
    lambda file: file.write_bytes(b"x" + file.read_bytes()),
    lambda file: file.chmod(0o666),
    make_folder,
    make_link,
    make_pipe,
]


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_a_damaged_file_counts_as_missing(tmp_path: Path, number: int) -> None:
    files = VectorFiles(tmp_path)
    files.keep(KEY, SOME)
    DAMAGE[number](only(tmp_path))
    assert files.get(KEY, 3) == {}
    files.keep(KEY, SOME)


def test_vectors_of_another_form_count_as_missing(tmp_path: Path) -> None:
    files = VectorFiles(tmp_path)
    files.keep(KEY, {bytes(32): b"\x01\x02\x03\0\0\0\x01"})
    assert files.get(KEY, 3) == {}
    files.keep(KEY, SOME)
    assert files.get(KEY, 4) == {}


def test_the_files_that_were_used_last_are_kept(tmp_path: Path) -> None:
    files = VectorFiles(tmp_path, count_max=2)
    for number, key in enumerate("abc"):
        files.keep(key, SOME)
        for file in tmp_path.iterdir():
            if file.stat().st_mtime > 1e9:
                os.utime(file, (number, number))
    assert [files.get(key, 3) == SOME for key in "abc"] == [False, True, True]
    small = VectorFiles(tmp_path, size_bytes_max=300)
    small.keep("d", SOME)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_directory_that_cannot_be_one_is_refused_and_a_closed_one_is_no_fault(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInput):
        VectorFiles(tmp_path / "file")
    folder = tmp_path / "gone"
    files = VectorFiles(folder)
    folder.write_bytes(b"")  # since
    files.keep(KEY, SOME)
    assert files.get(KEY, 3) == {}


def test_a_process_keeps_the_places_that_were_used_last() -> None:
    cache = VectorCache(size_bytes_max=3 * 5 * (len(GOOD) + 192))
    for place in "abc":
        cache.put(place, SOME)
    assert cache.get("a") == SOME
    cache.put("d", SOME)
    assert [bool(cache.get(place)) for place in "abcd"] == [True, False, True, True]
    cache.put("a", {})
    assert not cache.get("a")
    many = {number.to_bytes(32, "big"): GOOD for number in range(20)}
    cache.put("e", many)
    assert not cache.get("e")
    assert cache.get("c") == SOME
