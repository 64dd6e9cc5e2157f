"""JSONL stores: every line counts once, no line is too much, and nothing is written."""

import os
import tracemalloc
import weakref
from pathlib import Path
from random import Random
from typing import Any

import pytest

import rote
from rote.errors import Unavailable
from rote.retrieval import files
from rote.retrieval.cache import CorpusCache
from rote.retrieval.corpus import COLUMNS, Corpus
from rote.retrieval.details import Details
from rote.retrieval.files import _Content, read_file
from rote.values import sha256_hex
from rote.values.limits import (
    CORPUS_TIMES,
    JSONL_LINE_BYTES_MAX,
    JSONL_READ_BYTES,
    VOCABULARY_PARTS_MAX,
)

LINE = b'{"memory_id":"%d","text":"some words"}\n'


def request(**more: Any) -> dict[str, Any]:
    return {
        "query": "words", "store_paths": ["s.jsonl"], "budget": {"max_excerpt_tokens": 100}, **more
    }  # fmt: skip


def dropped(root: Path) -> list[dict[str, str]]:
    found = rote.retrieve(request(), root=root)["selection"]["dropped"]
    assert type(found) is list
    return found


def test_lines_that_cross_the_pieces_of_reading_are_whole(tmp_path: Path) -> None:
    count = 3 * JSONL_READ_BYTES // len(LINE)
    (tmp_path / "s.jsonl").write_bytes(b"".join(LINE % number for number in range(count)))
    corpus = read_file(tmp_path / "s.jsonl", "s.jsonl", CorpusCache())
    assert corpus.ids == [str(number) for number in range(count)]
    assert corpus.invalid == []


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"memory_id":"1","text":"x"}{"memory_id":"2","text":"y"}'],
        [b'{"memory_id":"1","text":"x"} {"memory_id":"2","text":"y"}'],
        [b'{"memory_id":"1",', b'"text":"x"}'],
        [b'{"memory_id":"1","text":"x"}{', b'"memory_id":"2","text":"y"}'],
        [b'{"memory_id":"1","text":"x"}\r{"memory_id":"2","text":"y"}'],
    ],
)
def test_a_record_is_one_line_and_a_line_is_one_record(lines: list[bytes], tmp_path: Path) -> None:
    """Records were read wherever they stood: two on a line, or one on two lines."""
    around = [(LINE % 8).strip(), *lines, (LINE % 9).strip()]
    (tmp_path / "s.jsonl").write_bytes(b"\n".join(around))
    corpus = read_file(tmp_path / "s.jsonl", "s.jsonl", CorpusCache())
    assert corpus.ids == ["8", "9"]
    assert [hash for _, _, hash in corpus.invalid] == [sha256_hex(line) for line in lines]


@pytest.mark.parametrize("before", [0, JSONL_READ_BYTES // 2])
@pytest.mark.parametrize("blanks", [0, 2 * JSONL_READ_BYTES])
@pytest.mark.parametrize("over", [0, 1])
def test_what_is_too_long_does_not_depend_on_where_it_stands(
    before: int, blanks: int, over: int, tmp_path: Path
) -> None:
    """A long line was accepted when it ended within the piece that was read, and refused otherwise."""
    start, end = b'{"memory_id":"long","text":"', b'"}'
    size = JSONL_LINE_BYTES_MAX + over
    long = start + b"x" * (size - len(start + end)) + end
    (tmp_path / "s.jsonl").write_bytes(b" " * before + b"\n" + b" " * blanks + long + b"\n")
    corpus = read_file(tmp_path / "s.jsonl", "s.jsonl", CorpusCache())
    assert corpus.ids == ([] if over else ["long"])
    assert [hash for _, _, hash in corpus.invalid] == ([sha256_hex(long)] if over else [])


def test_a_line_that_is_too_long_is_invalid_and_those_after_it_are_read(tmp_path: Path) -> None:
    start = b'{"memory_id":"long","text":"'
    long = start + b"x" * (JSONL_LINE_BYTES_MAX + 2 * JSONL_READ_BYTES) + b'"}'
    data = LINE % 1 + b" \t" + long + b"\t\r\n" + LINE % 2 + b" " * len(long) + b"\n" + LINE % 3
    (tmp_path / "s.jsonl").write_bytes(data)
    corpus = read_file(tmp_path / "s.jsonl", "s.jsonl", CorpusCache())
    assert corpus.ids == ["1", "2", "3"]
    assert corpus.invalid == [("s.jsonl", "", sha256_hex(long))]


def test_a_long_line_at_the_end_of_a_store_counts(tmp_path: Path) -> None:
    long = b"x" * (JSONL_LINE_BYTES_MAX + 1)
    (tmp_path / "s.jsonl").write_bytes(b"\xef\xbb\xbf" + long)
    assert [drop["record_hash"] for drop in dropped(tmp_path)] == [sha256_hex(long)]


def test_a_torn_last_line_is_told(tmp_path: Path) -> None:
    torn = (LINE % 2)[:-5]
    (tmp_path / "s.jsonl").write_bytes(LINE % 1 + torn)
    (only,) = dropped(tmp_path)
    assert only == {
        "memory_id": "",
        "record_hash": sha256_hex(torn),
        "store_path": "s.jsonl",
        "reason": "invalid_record_schema",
    }


def test_what_is_appended_while_a_store_is_read_is_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(LINE % 1)
    with path.open("rb", buffering=0) as file:
        content = _Content(file, path.stat().st_size, "s.jsonl")
        with path.open("ab") as writer:
            writer.write(LINE % 2)
        corpus, hash = content.read()
        assert corpus.ids == ["1"]
        assert hash == content.hash()


def test_a_store_that_became_shorter_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(LINE % 1)
    with path.open("rb", buffering=0) as file:
        content = _Content(file, path.stat().st_size, "s.jsonl")
        path.write_bytes(b"")
        with pytest.raises(Unavailable, match="retrieve again"):
            content.read()


def test_a_store_is_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(LINE % 1 + b"\xff\n")
    os.utime(path, ns=(1, 1))
    path.chmod(0o444)
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    for _ in range(2):
        rote.retrieve(request(), root=tmp_path)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_changed_store_is_read_again_though_size_and_date_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    hashes = set()
    for number in (1, 2, 1):
        path.write_bytes(LINE % number)
        os.utime(path, ns=(1, 1))
        hashes.add(rote.retrieve(request(), root=tmp_path)["package_hash"])
    assert len(hashes) == 2


def test_an_unchanged_store_is_not_decoded_again(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(LINE % 1)
    cache = CorpusCache()
    first = read_file(tmp_path / "s.jsonl", "s.jsonl", cache)
    assert read_file(tmp_path / "s.jsonl", "s.jsonl", cache) is first


def test_what_is_kept_is_bounded() -> None:
    cache = CorpusCache(10 * CORPUS_TIMES)
    corpora = [Corpus() for _ in range(4)]
    for number in range(3):
        cache.put(number, "h", corpora[number], 5)
    assert [cache.get(number, "h") for number in range(3)] == [None, corpora[1], corpora[2]]
    assert cache.get(1, "other") is None
    cache.put(2, "h", corpora[3], 11)
    assert not cache.holds(2, 11)
    assert cache.get(1, "h") is corpora[1]


def test_of_a_log_that_grows_only_what_was_read_last_is_kept(tmp_path: Path) -> None:
    """The corpus of each length was kept, until there was no room for anything else."""
    cache, kept = CorpusCache(), []
    for number in range(3):
        with (tmp_path / "s.jsonl").open("ab") as log:
            log.write(LINE % number)
        kept.append(weakref.ref(read_file(tmp_path / "s.jsonl", "s.jsonl", cache)))
    assert [each() is not None for each in kept] == [False, False, True]


def test_files_of_one_name_in_two_folders_are_both_kept(tmp_path: Path) -> None:
    cache, corpora = CorpusCache(), []
    for folder in ("a", "b", "a", "b"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "s.jsonl").write_bytes(LINE % (folder == "a"))
        corpora.append(read_file(tmp_path / folder / "s.jsonl", "s.jsonl", cache))
    assert corpora[0] is corpora[2]
    assert corpora[1] is corpora[3]


def test_details_of_any_shape_are_read_as_strictly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of the usual shape are decoded at once, and others one by one."""
    members = [
        b'"kind":"k"', b'"kind":""', b'"kind":5', b'"kind":null', b'"namespace":"n"', b'"more":1',
        b'"metadata":{}', b'"metadata":null', b'"metadata":[]', b'"metadata":{"thread":"t","turn":2}',
        b'"metadata":{"turn":2.0}', b'"metadata":{"turn":-0}', b'"metadata":{"turn":true}',
        b'"metadata":{"a":["b"],"c":null}', b'"metadata":{"a":[1]}', b'"metadata":{"a":{"b":1}}',
        b'"metadata":{"n":9223372036854775807}', b'"metadata":{"n":9223372036854775808}',
        b'"metadata":{"n":-9223372036854775808}', b'"metadata":{"a":1,"a":"b"}', b'"refs":[{}]',
        b'"metadata":{"a":NaN}', b'"metadata":{"\\ud800":1}', b'"metadata":{"a":"\\ud800"}',
        b'"metadata":{"a":1},"metadata":{"b":2}', b'"tags":["T"]', b'"ts_utc":"2026-01-02"',
    ]  # fmt: skip
    draw = Random(1)
    lines = [
        b'{"memory_id":"m%d","text":"x",%s}' % (number, b",".join(draw.sample(members, 2)))
        for number in range(400)
    ]
    path = tmp_path / "s.jsonl"
    seen = []
    for _ in range(2):
        columns = []
        for start in range(0, len(lines), 4):
            path.write_bytes(b"\n".join(lines[start : start + 4]))
            corpus = read_file(path, "s.jsonl", CorpusCache())
            columns += [getattr(corpus, name) for name in (*COLUMNS, "invalid")]
            columns.append([type((each or Details()).turn) for each in corpus.details])
        seen.append(columns)
        monkeypatch.setattr(files, "_simple", lambda lines: None)
        monkeypatch.setattr(files, "_detailed", lambda lines: None)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("line", [b"{\n", b'{"memory_id":"%d","text":"x"}\n', LINE])
def test_what_is_kept_takes_no_more_memory_than_is_reckoned(line: bytes, tmp_path: Path) -> None:
    """Short lines take many times their length."""
    count = 5_000
    lines = [line % number if b"%d" in line else line for number in range(count)]
    (tmp_path / "s.jsonl").write_bytes(b"".join(lines))
    cache = CorpusCache()
    tracemalloc.start()
    try:
        corpus = read_file(tmp_path / "s.jsonl", "s.jsonl", cache)
        for reason in ("budget_exhausted", "max_items_reached"):
            list(corpus.encoded_drops.of(corpus.order, reason, corpus))
        list(corpus.words(corpus.looked_for_min))
        for words in corpus.words(1):
            for number in range(2 * VOCABULARY_PARTS_MAX):
                words.marks(str(number))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= cache._size_bytes
