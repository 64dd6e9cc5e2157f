"""Sidecar files: an answer never depends on the content of a cache directory."""

import os
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rote
from rote.errors import InvalidInput
from rote.retrieval import sidecars
from rote.retrieval.cache import CorpusCache
from rote.retrieval.corpus import Corpus
from rote.retrieval.files import read_file
from rote.retrieval.pieces import hash_of
from rote.retrieval.ranking.postings import Postings, postings_of
from rote.retrieval.sidecars import Sidecars
from rote.testing.retrieval_draws import Memories
from rote.values.limits import SIDECAR_BLOCK_BYTES
from tests.lanes import examples

COLUMNS = ("paths", "ids", "hashes", "instants", "texts", "tags", "invalid")
BLOCK: list[Any] = [["a"], ["f" * 64], [0], ["text"], [["tag"]], [0], [None], [["b", "f" * 64]]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    draws = Memories(3)
    path = tmp_path / "s.jsonl"
    lines = [draws.line() for _ in range(200)]
    lines.append(b'{"kind":"k","memory_id":"c","metadata":{"n":[1.5,2.0]},"text":""}')
    path.write_bytes(b"\n".join(lines))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "inner"


def columns(corpus: Corpus) -> list[Any]:
    return [getattr(corpus, name) for name in COLUMNS]


def read(store: Path, folder: Path, name: str = "s.jsonl") -> Corpus:
    """Return the corpus as a new process would read it."""
    return read_file(store, name, CorpusCache(), Sidecars(folder))


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_what_comes_back_is_what_was_read(store: Path, folder: Path) -> None:
    plain = columns(read_file(store, "s.jsonl", CorpusCache()))
    assert plain[-1], "there are invalid lines among them"
    first = read(store, folder)
    second = read(store, folder)
    assert columns(first) == columns(second) == plain
    assert list(second.order) == list(first.order)


def test_a_store_is_not_decoded_while_its_sidecar_is_there(store: Path, folder: Path) -> None:
    """A sidecar with another content shows which of the two was read."""
    expected = read(store, folder).ids
    forge(store, folder)
    assert read(store, folder).ids == ["a"]
    only(folder).unlink()
    assert read(store, folder).ids == expected


def test_a_sidecar_is_of_content_whatever_its_name_and_date(store: Path, folder: Path) -> None:
    forge(store, folder)
    moved = store.rename(store.with_name("other.jsonl"))
    os.utime(moved, ns=(1, 1))
    assert read(moved, folder, "other.jsonl").ids == ["a"]
    assert read(moved, folder, "other.jsonl").paths == ["other.jsonl"]
    moved.write_bytes(moved.read_bytes().replace(b"alpha", b"alphb", 1))
    os.utime(moved, ns=(1, 1))
    assert read(moved, folder, "other.jsonl").ids != ["a"]


def test_another_version_of_unicode_has_sidecars_of_its_own(
    store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(store, folder)
    monkeypatch.setattr(unicodedata, "unidata_version", "0.0.0")
    read(store, folder)
    assert len(list(folder.iterdir())) == 2


def test_every_damage_is_seen_and_mended(store: Path, folder: Path) -> None:
    """No flipped bit and no cut length changes the answer."""
    store.write_bytes(b"\n".join(store.read_bytes().split(b"\n")[:4]))
    plain = columns(read(store, folder))
    sidecar = only(folder)
    sound = sidecar.read_bytes()
    key = _key_of(store)
    for place in range(0, len(sound), examples(5, 1)):
        sidecar.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        assert Sidecars(folder).get(key, "s.jsonl") is None, place
        sidecar.write_bytes(sound[:place])
        assert Sidecars(folder).get(key, "s.jsonl") is None, place
    sidecar.write_bytes(sound)
    assert Sidecars(folder).get(key, "s.jsonl") is not None
    sidecar.write_bytes(sound + b"\n")
    assert columns(read(store, folder)) == plain
    assert sidecar.read_bytes() == sound


def test_a_sidecar_of_another_store_is_not_taken(store: Path, folder: Path) -> None:
    read(store, folder)
    other = only(folder).read_bytes()
    only(folder).unlink()
    store.write_bytes(b'{"memory_id":"1","text":"alone"}\n')
    expected = columns(read(store, folder))
    only(folder).write_bytes(other)
    assert columns(read(store, folder)) == expected


def test_a_well_formed_block_is_taken(store: Path, folder: Path) -> None:
    """The control: the blocks below are refused only for their own faults."""
    forge(store, folder)
    forged = Sidecars(folder).get(_key_of(store), "s.jsonl")
    assert forged is not None
    assert forged.tags == [("tag",)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, []), (0, [5]), (0, None), (1, ["f"]), (2, [2**63]), (2, [10**400]), (2, [True]),
        (2, [0.5]), (3, ["a", "b"]), (4, []), (4, [[[[]]]]), (5, [1]), (5, [-1]), (5, [2**70]),
        (6, []), (6, [5]), (6, [{"kind": 5}]), (6, [{"metadata": []}]), (7, [["b"]]), (7, {}),
    ],
)  # fmt: skip
def test_a_block_that_is_none_is_refused_though_its_hash_matches(
    column: int, value: Any, store: Path, folder: Path
) -> None:
    bad = [*BLOCK[:column], value, *BLOCK[column + 1 :]]
    data = b"[" + b",".join(_json(part) for part in bad) + b"]"
    forge(store, folder, data)
    assert Sidecars(folder).get(_key_of(store), "s.jsonl") is None


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[" * 100_000, b"\xff", b'["' + b"\\ud800" + b'"]', b"c__builtin__\neval\n."],
)
def test_bytes_that_are_no_block_are_refused(data: bytes, store: Path, folder: Path) -> None:
    forge(store, folder, data)
    assert Sidecars(folder).get(_key_of(store), "s.jsonl") is None


def test_a_length_beyond_the_file_takes_no_memory(store: Path, folder: Path) -> None:
    read(store, folder)
    only(folder).write_bytes(b"rote-corpus-3\n" + b"\xff" * 100)
    assert Sidecars(folder).get(_key_of(store), "s.jsonl") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_may_write_is_not_believed(mode: int, store: Path, folder: Path) -> None:
    expected = columns(read(store, folder))
    forge(store, folder)
    only(folder).chmod(mode)
    assert columns(read(store, folder)) == expected
    assert only(folder).stat().st_mode & 0o777 == 0o600, "written over, by us alone"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_others_own_is_not_believed(store: Path, folder: Path) -> None:
    expected = columns(read(store, folder))
    forge(store, folder)
    os.chown(only(folder), 12_345, -1)
    assert columns(read(store, folder)) == expected


def _link(path: Path) -> None:
    target = path.parents[1] / "target"
    path.rename(target)
    path.symlink_to(target)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("replace", [_link, _directory, _pipe])
def test_what_is_no_plain_file_is_not_read(
    replace: Callable[[Path], None], store: Path, folder: Path
) -> None:
    expected = columns(read(store, folder))
    replace(only(folder))
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert Sidecars(folder).get(_key_of(store), "s.jsonl") is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert columns(read(store, folder)) == expected


def test_sidecars_are_for_their_owner_alone(store: Path, folder: Path) -> None:
    before = os.umask(0)
    try:
        read(store, folder)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert only(folder).stat().st_mode & 0o777 == 0o600


def test_a_corpus_of_many_blocks_is_whole(tmp_path: Path, folder: Path) -> None:
    line = b'{"memory_id":"%d","text":"' + b"x" * 100_000 + b'","tags":["%d"]}\n'
    bad = b'{"memory_id":"bad %d"}\n'
    count = 3 * SIDECAR_BLOCK_BYTES // 100_000
    store = tmp_path / "s.jsonl"
    store.write_bytes(b"".join(line % (n, n) + bad % n for n in range(count)))
    plain = columns(read(store, folder))
    assert len(plain[0]) == len(plain[-1]) == count
    assert columns(read(store, folder)) == plain


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path, folder: Path) -> None:
    corpora = {str(number): _corpus(tmp_path, number) for number in range(4)}
    plenty = Sidecars(folder)
    for key in ("0", "1", "2"):
        plenty.keep(key, corpora[key])
    paths = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for age, path in enumerate(paths):
        os.utime(path, ns=(age, age))
    plenty.keep("0", corpora["0"])  # used now, so 1 is the oldest
    size = sum(path.stat().st_size for path in folder.iterdir())
    (folder / "yours.txt").write_bytes(b"x" * 10 * size)
    Sidecars(folder, size_bytes_max=size).keep("3", corpora["3"])
    assert [key for key in corpora if plenty.get(key, "s") is not None] == ["0", "2", "3"]
    Sidecars(folder, count_max=1).keep("1", corpora["1"])
    assert [key for key in corpora if plenty.get(key, "s") is not None] == ["1"]
    assert (folder / "yours.txt").exists()


def test_what_a_process_has_read_before_is_kept_when_it_is_asked_to(
    store: Path, folder: Path
) -> None:
    cache = CorpusCache()
    first = read_file(store, "s.jsonl", cache)
    assert read_file(store, "s.jsonl", cache, Sidecars(folder)) is first
    assert columns(read(store, folder)) == columns(first)
    assert len(list(folder.iterdir())) == 1


def test_a_corpus_that_takes_more_than_there_is_is_not_kept(tmp_path: Path, folder: Path) -> None:
    Sidecars(folder, size_bytes_max=1_000).keep("small", _corpus(tmp_path, 1))
    assert len(list(folder.iterdir())) == 1
    Sidecars(folder, size_bytes_max=1_000).keep("large", _corpus(tmp_path, 1, "x" * 1_000))
    assert len(list(folder.iterdir())) == 1, "and the other one stays"


def test_what_a_process_left_behind_unfinished_goes_in_its_turn(
    tmp_path: Path, folder: Path
) -> None:
    folder.mkdir(parents=True)
    left = folder / f"{'0' * 64}abc_1234.part"
    left.write_bytes(b"x" * 2_000)
    os.utime(left, ns=(1, 1))
    Sidecars(folder, size_bytes_max=2_000).keep("new", _corpus(tmp_path, 1))
    assert only(folder) != left


def test_a_full_or_closed_disk_is_no_fault(
    store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = columns(read_file(store, "s.jsonl", CorpusCache()))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sidecars, "_encode", full)
        assert columns(read(store, folder)) == expected
    assert list(folder.iterdir()) == []
    inside_a_file = store / "cache"
    assert columns(read(store, inside_a_file)) == expected


def test_a_cache_that_cannot_be_made_is_no_fault(store: Path) -> None:
    expected = rote.retrieve(_request(), root=store.parent)
    for folder in (store.parent / ("x" * 300), Path("x" * 5_000)):
        assert rote.retrieve(_request(), root=store.parent, cache=folder) == expected


@pytest.mark.parametrize("bad", [5, b"x", "", "a\0b", "\ud800"])
def test_a_cache_is_a_path(bad: Any, store: Path) -> None:
    with pytest.raises(InvalidInput, match="cache must be"):
        rote.retrieve(_request(), root=store.parent, cache=bad)


def test_a_cache_is_no_file(store: Path) -> None:
    with pytest.raises(InvalidInput, match="is none"):
        rote.retrieve(_request(), root=store.parent, cache=store)


def test_without_a_cache_nothing_is_left(store: Path) -> None:
    rote.retrieve(_request(), root=store.parent)
    assert list(store.parent.iterdir()) == [store]


def test_many_threads_and_processes_share_a_directory(store: Path, folder: Path) -> None:
    """All read, write and delete at once, and each gets the right answer."""
    expected = rote.retrieve(_request(), root=store.parent)["package_hash"]
    program = (
        "import sys, rote\n"
        "from rote.retrieval import cache\n"
        "for _ in range(5):\n"
        "    cache.CORPORA.__init__()\n"
        f"    print(rote.retrieve({_request()!r}, root=sys.argv[1], cache=sys.argv[2])"
        "['package_hash'])\n"
    )
    command = [sys.executable, "-c", program, str(store.parent), str(folder)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    stop = threading.Event()

    def delete() -> None:
        while not stop.is_set():
            for path in list(folder.glob("*")):
                path.unlink(missing_ok=True)

    deleter = threading.Thread(target=delete)
    deleter.start()
    try:
        told = [process.communicate(timeout=60)[0].split() for process in processes]
    finally:
        stop.set()
        deleter.join()
    assert told == [[expected] * 5] * 2


def test_terms_are_kept_and_every_damage_of_them_is_seen(store: Path, folder: Path) -> None:
    plain = postings_of(read_file(store, "s.jsonl", CorpusCache()), "english")
    corpus = read(store, folder)
    before = set(folder.iterdir())
    assert _terms(corpus.frequencies("english")) == _terms(plain)
    (kept,) = set(folder.iterdir()) - before
    sound = kept.read_bytes()
    for place in range(0, len(sound), examples(97, 1)):
        kept.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        assert _terms(read(store, folder).frequencies("english")) == _terms(plain)
        assert kept.read_bytes() == sound
    kept.chmod(0o666)
    assert _terms(read(store, folder).frequencies("english")) == _terms(plain)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_store_is_not_analysed_while_its_terms_are_there(
    store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {each: read(store, folder).frequencies(each) for each in ("english", "none")}
    assert _terms(first["english"]) != _terms(first["none"])
    monkeypatch.setattr(sidecars, "packed_rows", None)
    for language, terms in first.items():
        assert _terms(read(store, folder).frequencies(language)) == _terms(terms)


def _terms(postings: Postings) -> Any:
    found = {
        term: sorted(zip(posting.rows, posting.counts, strict=True))
        for term, posting in postings.by_term.items()
    }
    return found, list(postings.lengths), postings.length


def forge(store: Path, folder: Path, block: bytes = msgspec.json.encode(BLOCK)) -> None:
    """Write a sidecar with any block, whose own hash matches."""
    read(store, folder)
    path = only(folder)
    hash = hash_of(hash_of(path.name.encode()) + hash_of(block))
    path.write_bytes(b"rote-corpus-3\n" + len(block).to_bytes(4, "big") + block + hash)


def _corpus(tmp_path: Path, number: int, text: str = "text") -> Corpus:
    path = tmp_path / f"{number}.jsonl"
    path.write_bytes(rote.canonical({"memory_id": str(number), "text": text}))
    return read_file(path, "s", CorpusCache())


def _key_of(store: Path) -> str:
    return f"file {hash_of(hash_of(store.read_bytes())).hex()}"


def _json(value: Any) -> bytes:
    return str(value[0]).join("[]").encode() if value == [10**400] else msgspec.json.encode(value)


def _request() -> dict[str, Any]:
    return {
        "query": "alpha beta", "store_paths": ["s.jsonl"], "budget": {"max_excerpt_tokens": 50}
    }  # fmt: skip
