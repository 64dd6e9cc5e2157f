"""Retrieval in other environments, watched, with secrets, and on stores that are hostile or grow."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import RoteError
from rote.retrieval import files
from rote.retrieval.cache import CORPORA
from rote.testing.naive_retrieval import naive_retrieve
from rote.testing.retrieval_draws import Memories
from rote.values import canonical, decode
from rote.values.limits import JSONL_LINE_BYTES_MAX, MIB
from tests.faults.retrieval_children import BEGIN, END
from tests.lanes import SLOW, examples

ROOT = Path(__file__).resolve().parents[2]
STORE = "s.jsonl"
REQUEST: dict[str, Any] = {
    "query": "alpha beta", "store_paths": [STORE], "budget": {"max_excerpt_tokens": 20}
}  # fmt: skip
SECONDS_MAX = 300


def child(
    *arguments: object, under: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> Any:
    """Return the output of a process of its own, which must print no error."""
    done = subprocess.run(
        [*under, sys.executable, "-m", "tests.faults.retrieval_children", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return decode(done.stdout, size_bytes_max=64 * MIB)


def tree(folder: Path) -> dict[str, Any]:
    """Return everything in a folder, with the attributes that must not change."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes(), *(status := path.stat())[:7], status.st_mtime_ns, status.st_ctime_ns
        )
        for path in folder.rglob("*")
        if path.is_file()
    }  # fmt: skip


# -- circumstances -----------------------------------------------------------------------------------


def test_nothing_around_a_process_changes_a_package(tmp_path: Path) -> None:
    """Hash seeds, time zones, locales and dates of files differ, with and without kept sidecars."""
    cases, cache = tmp_path / "cases", tmp_path / "cache"
    first = 2_000_000 if SLOW else 5_000
    expected = []
    for number in range(examples(60, 1_000)):
        root = cases / f"{number:06}"
        root.mkdir(parents=True)
        request = Memories(first + number).case(root)
        (root / "request.json").write_bytes(canonical(request))
        expected.append(rote.digest(naive_retrieve(request, root)))
    for date, (kept, seed, zone, language) in enumerate(
        (
            ("", "0", "UTC", "C"),
            (cache, "1", "Asia/Kathmandu", "tr_TR.UTF-8"),
            (cache, "4294967295", "America/St_Johns", "C.UTF-8"),
        )
    ):
        for path in cases.rglob("*.jsonl"):
            os.utime(path, ns=(date, date * 10**18))
        before = tree(cases)
        environment = {"PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": language}
        told = child("answer", cases, kept, environment=environment)
        assert told == expected, (seed, zone, language)
        assert tree(cases) == before
    assert any(cache.iterdir())


# -- watched -----------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """Return a folder with a question to two stores and a snapshot, beside a store that nobody names."""
    root = tmp_path / "root"
    (root / "b").mkdir(parents=True)
    draws = Memories(4)
    for name in (STORE, "b/other.jsonl", "unnamed.jsonl"):
        (root / name).write_bytes(draws.store() + b"\n" + canonical(draws.record()))
    (root / "trust.json").write_bytes(b'{"classifications":[]}')
    request = {
        **REQUEST,
        "store_paths": [STORE, "b/other.jsonl"],
        "trust_filter": {"trust_snapshot_path": "trust.json"},
    }
    (root / "request.json").write_bytes(canonical(request))
    return root


def is_allowed(path: str, root: Path, cache: Path) -> bool:
    named = {str(root / name) for name in (STORE, "b/other.jsonl", "trust.json")}
    return path in named or Path(path) == cache or cache in Path(path).parents


def test_nothing_but_what_was_named_is_opened(watched: Path, tmp_path: Path) -> None:
    """The interpreter reports the accesses: files, folders, sockets, processes."""
    cache = tmp_path / "cache"
    events = child("watch", watched, cache)
    opened = {event[1] for event in events if event[0] == "open" and len(event) > 1}
    assert {str(watched / STORE), str(watched / "trust.json")} <= opened
    assert any(Path(path).parent == cache / "watched" for path in opened)
    outside = ("open", "os.", "shutil.", "tempfile.", "pathlib.", "glob.")
    for event, *arguments in events:
        kind = event.split(".")[0]
        assert kind not in ("socket", "subprocess", "urllib", "ctypes", "import"), (
            event,
            arguments,
        )
        assert event not in ("os.exec", "os.fork", "os.system", "os.putenv", "exec"), event
        if event.startswith(outside):
            for path in arguments:
                is_path = "/" in path
                assert not is_path or is_allowed(path, watched, cache / "watched"), (event, path)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_system_is_asked_for_nothing_but_what_was_named(watched: Path, tmp_path: Path) -> None:
    """The kernel reports the accesses: every system call with a path, and every one of the network."""
    log, cache = tmp_path / "log", tmp_path / "cache"
    strace = ("strace", "-f", "-qq", "-s", "4096", "-e", "trace=%file,%network", "-o", str(log))
    child("watch", watched, cache, under=strace)
    calls = log.read_text()
    within = calls[calls.index(BEGIN) : calls.index(END)].splitlines()[1:-1]
    paths = [path for line in within for path in re.findall(r'"(/[^"]*)"', line)]
    assert str(watched / STORE) in paths
    assert not [path for path in paths if not is_allowed(path, watched, cache / "watched")]
    assert not [line for line in within if re.search(r"\b(socket|connect|bind|send|exec)", line)]


# -- secrets -----------------------------------------------------------------------------------------


def canaries() -> Iterator[tuple[str, bool, bytes]]:
    """Yield a name, whether the package may show it, and the line that holds it."""
    plain = {"memory_id": "m", "text": "alpha"}
    yield "cnry-text", True, canonical({**plain, "text": "alpha beta cnry-text"})
    yield "cnry-id", True, canonical({**plain, "memory_id": "cnry-id"})
    yield "cnry-badid", True, canonical({"memory_id": "cnry-badid", "text": 5})
    fields: dict[str, dict[str, Any]] = {
        "cnry-unseen": {"text": "nothing cnry-unseen"},
        "cnry-tag": {"tags": ["alpha", "CNRY-tag"]},
        "cnry-time": {"ts_utc": "cnry-time"},
        "cnry-refkey": {"refs": [{"cnry-refkey": 1}]},
        "cnry-ref": {"refs": [{"a": ["cnry-ref"]}]},
        "cnry-more": {"cnry-more": 1},
        "cnry-other": {"other": {"deep": "cnry-other"}},
        "cnry-badtext": {"memory_id": " ", "text": "alpha cnry-badtext"},
        "cnry-badtag": {"tags": ["cnry-badtag", 1]},
        "cnry-badref": {"refs": ["cnry-badref"]},
        "cnry-badtime": {"ts_utc": ["cnry-badtime"]},
    }
    for name, field in fields.items():
        yield name, False, canonical({**plain, **field})
    yield "cnry-bytes", False, b"\xff" + canonical({**plain, "text": "cnry-bytes"})
    yield "cnry-twice", False, b'{"memory_id":"cnry-twice","memory_id":"m","text":"x"}'
    yield "cnry-torn", False, canonical({**plain, "text": "cnry-torn"})[:-3]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / STORE).write_bytes(b"\n".join(line for _, _, line in canaries()))
    entry = {"record_hash": "cnry-hash", "memory_id": "cnry-denied", "classification": "cnry-class"}
    (root / "trust.json").write_bytes(canonical({"classifications": [entry]}))
    trust = {"trust_snapshot_path": "trust.json"}
    (root / "request.json").write_bytes(
        canonical({**REQUEST, "budget": {"max_excerpt_tokens": 8}, "trust_filter": trust})
    )
    return root


def test_what_memories_hold_is_in_the_package_and_nowhere_else(
    secrets: Path, tmp_path: Path
) -> None:
    places = {name: tmp_path / name for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    for path in places.values():
        path.mkdir()
    environment = {name: str(path) for name, path in places.items()}
    package = child("tell", secrets, tmp_path / "ledger.db", environment=environment)
    told = canonical(package).lower()
    for name, is_told, _ in canaries():
        assert (name.encode() in told) is is_told, name
    for path in tmp_path.rglob("*"):
        if path.is_file() and secrets not in path.parents:
            assert b"cnry" not in path.read_bytes().lower(), path
    with rote.open(tmp_path / "ledger.db") as store:
        assert store.receipts() == [rote.receipt(package)]
    assert not any(any(places[name].iterdir()) for name in places)


def test_no_error_or_log_tells_what_memories_hold(
    secrets: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(0)
    secret: Any = decode((secrets / "request.json").read_bytes())
    broken = b'{"classifications":[{"memory_id":"cnry-denied","classification":["cnry-class"]}]}'
    (secrets / "broken.json").write_bytes(broken)
    for wrong in (
        {"store_paths": [STORE, "missing.jsonl"]},
        {"store_paths": [STORE, "."]},
        {"trust_filter": {"trust_snapshot_path": STORE}},
        {"trust_filter": {"trust_snapshot_path": "broken.json"}},
        {"trust_filter": {"trust_snapshot_path": "missing.json"}},
    ):
        with pytest.raises(RoteError) as raised:
            rote.retrieve({**secret, **wrong}, root=secrets)
        seen: BaseException | None = raised.value
        while seen is not None:
            assert "cnry" not in f"{seen!s} {seen!r} {getattr(seen, 'details', '')}".lower()
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    rote.retrieve(secret, root=secrets)
    assert "cnry" not in caplog.text.lower()
    assert capfd.readouterr() == ("", "")


# -- hostile stores ----------------------------------------------------------------------------------

GOOD = b'{"memory_id":"%d","text":"alpha"}'
MANY = examples(20, 200)
HOSTILE: dict[str, bytes] = {
    "a mark of byte order, and another": b"\xef\xbb\xbf" + GOOD % 1 + b"\n\xef\xbb\xbf" + GOOD % 2,
    "line breaks of other systems": b"\r\n".join([GOOD % 1, b"", GOOD % 2, b"\r\r", GOOD % 3]),
    "line breaks of Unicode": "\n".join(
        f'{{"memory_id":"{n}","text":"alpha{line_break}beta"}}'
        for n, line_break in enumerate(("\u2028", "\u2029", "\x85", "\\u000b", "\\n"))
    ).encode(),
    "bad bytes": b"\n".join([GOOD % 1, b"\xff\xfe", b"\xed\xa0\x80", b"\0", GOOD % 2, b"\xc3"]),
    "numbers of 5,000 digits": b"\n".join(
        GOOD[:-1] % n + b',"refs":[{"n":' + sign + b"9" * 5_000 + rest + b"}]}"
        for n, (sign, rest) in enumerate([(b"", b""), (b"-", b""), (b"", b".5"), (b"1e", b"")] * MANY)
    ),
    "deep nesting": b"\n".join(
        GOOD[:-1] % n + b',"refs":' + opening * 100_000 + b"1" + closing * 100_000 + b"}"
        for n, (opening, closing) in enumerate([(b"[", b"]"), (b'{"a":', b"}")] * (MANY // 10))
    ),
    "keys twice": b"\n".join(
        b'{"memory_id":"first","text":"alpha","text":"beta","memory_id":"last %d"}' % n
        for n in range(MANY)
    ),
    "one key a thousand times": b"{" + b'"text":"x",' * 50_000 + (GOOD % 1)[1:],
    "a torn last line": GOOD % 1 + b"\n" + (GOOD % 2)[:-4],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_store_gives_what_the_reference_says_in_little_memory(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / STORE).write_bytes(HOSTILE[name])
    (tmp_path / "request.json").write_bytes(canonical(REQUEST))
    expected = naive_retrieve(REQUEST, tmp_path)
    assert rote.retrieve(REQUEST, root=tmp_path) == expected
    if len(HOSTILE[name]) > MIB // 4:
        grown = child("grow", tmp_path)
        assert grown["package_hash"] == expected["package_hash"]
        assert grown["bytes"] < 16 * MIB + 8 * len(HOSTILE[name])


@pytest.mark.parametrize("start", [b"x", b" ", *((b"[", b'{"text":"') if SLOW else ())])
def test_a_long_line_takes_no_more_memory_than_a_line_may(start: bytes, tmp_path: Path) -> None:
    count = 3 * JSONL_LINE_BYTES_MAX if not SLOW else 100 * MIB
    with (tmp_path / STORE).open("wb") as file:
        file.write(GOOD % 1 + b"\n" + start)
        for _ in range(count // MIB):
            file.write(start[:1] * MIB)
        file.write(b"\n" + GOOD % 2)
    (tmp_path / "request.json").write_bytes(canonical(REQUEST))
    assert child("grow", tmp_path)["bytes"] < 4 * JSONL_LINE_BYTES_MAX
    selection = rote.retrieve(REQUEST, root=tmp_path)["selection"]
    assert [item["memory_id"] for item in selection["selected"]] == ["1", "2"]
    assert len(selection["dropped"]) == (0 if start == b" " else 1)


# -- stores that grow --------------------------------------------------------------------------------


def test_a_store_that_grows_gives_a_state_that_existed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are appended before each read of a piece, whole lines and torn ones."""
    monkeypatch.setattr(files, "JSONL_READ_BYTES", 64)
    path, real = tmp_path / STORE, os.pread
    start = b"".join(GOOD % number + b"\n" for number in range(6)) + (GOOD % 6)[:9]
    path.write_bytes(start)
    pieces = len(start) // 64 + 1
    for moment in range(pieces):
        CORPORA.forget(lambda place: True)
        path.write_bytes(start)
        expected = naive_retrieve(REQUEST, tmp_path)
        calls = 0

        def pread(descriptor: int, size: int, offset: int, moment: int = moment) -> bytes:
            nonlocal calls
            if calls == moment:
                with path.open("ab") as file:
                    file.write((GOOD % 6)[9:] + b"\n" + GOOD % 7)
            calls += 1
            return real(descriptor, size, offset)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", pread)
            assert rote.retrieve(REQUEST, root=tmp_path) == expected, moment
        assert calls >= pieces
        after = naive_retrieve(REQUEST, tmp_path)
        assert after != expected
        assert rote.retrieve(REQUEST, root=tmp_path) == after


def test_while_another_process_appends_every_package_is_of_lines_that_were_there(
    tmp_path: Path,
) -> None:
    path, whole = tmp_path / STORE, tmp_path / "whole"
    path.write_bytes(b"")
    lines = [GOOD % number + b"\n" for number in range(examples(100, 1_000))]
    command = [sys.executable, "-m", "tests.faults.retrieval_children", "append", str(path)]
    seen = set()
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        for line in lines:
            writer.stdin.write(line)
            writer.stdin.flush()
            package = rote.retrieve(REQUEST, root=tmp_path, cache=tmp_path / "cache")
            selection = package["selection"]
            count = len(selection["selected"]) + len(selection["dropped"])
            seen.add((count, package["package_hash"]))
        writer.communicate(timeout=SECONDS_MAX)
    whole.mkdir()
    for count, hash in sorted(seen)[:: examples(5, 1)]:
        (whole / STORE).write_bytes(b"".join(lines[:count]))
        assert naive_retrieve(REQUEST, whole)["package_hash"] == hash
    assert len(seen) > 1


def test_a_fork_beside_a_retrieval_leaves_the_child_able_to_retrieve(tmp_path: Path) -> None:
    """Corpora are kept for the whole process; the child waited for a lock that nobody releases."""
    with rote.open(tmp_path / "memory.db") as store:
        rote.Memory(store.space("agent")).put("ops", "k", "1", {"text": "alpha"})
    assert child("fork", tmp_path / "memory.db") == "ops/k/1"
