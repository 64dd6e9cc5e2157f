"""The cache: what a get finds, what leaves, and its file."""

import fcntl
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import Busy, Corrupt, LimitExceeded, Unavailable
from rote.testing.clocks import FixedClock
from rote.tiers import cache_file

MISS = {"found": False, "value": None}


def host_of(clock: FixedClock | None = None, **options: Any) -> rote.Host:
    return rote.Host("compute-and-store", cache=options, clock=clock)


def keys_in(host: rote.Host, keys: str) -> str:
    """Return those of the keys that are there, without a use of them: nothing is evicted here."""
    return "".join(key for key in keys if host.cache.get("n", key)["found"])


def test_a_miss_has_the_default_and_a_stored_null_is_found() -> None:
    host = host_of()
    assert host.cache.get("n", "k") == MISS
    assert host.cache.get("n", "k", [1]) == {"found": False, "value": [1]}
    assert host.cache.set("n", "k", None) == {"ok": True}
    assert host.cache.get("n", "k", 5) == {"found": True, "value": None}
    assert host.cache.get("other", "k") == MISS
    assert host.cache.delete("n", "k") == {"ok": True, "deleted": True}
    assert host.cache.delete("n", "k") == {"ok": True, "deleted": False}
    assert host.cache.get("n", "k") == MISS


def test_an_entry_expires_after_its_time_and_not_at_it() -> None:
    clock = FixedClock()
    host = host_of(clock)
    host.cache.set("n", "k", 1, 10)
    clock.move(seconds=10)
    assert host.cache.get("n", "k")["found"]
    clock.move(seconds=0.000001)
    assert host.cache.get("n", "k") == MISS
    assert host.cache.delete("n", "k") == {"ok": True, "deleted": False}
    host.cache.set("n", "k", 1, 0.5)
    clock.move(seconds=0.5)
    assert host.cache.get("n", "k")["found"]
    clock.move(seconds=0.1)
    assert host.cache.get("n", "k") == MISS


def test_a_get_renews_nothing_and_a_set_begins_anew() -> None:
    clock = FixedClock()
    host = host_of(clock)
    host.cache.set("n", "got", 1, 10)
    host.cache.set("n", "set", 1, 10)
    clock.move(seconds=9)
    assert host.cache.get("n", "got")["found"]
    host.cache.set("n", "set", 2, 10)
    clock.move(seconds=9)
    assert host.cache.get("n", "got") == MISS
    assert host.cache.get("n", "set") == {"found": True, "value": 2}
    host.cache.set("n", "set", 3)
    clock.move(seconds=10**9)
    assert host.cache.get("n", "set") == {"found": True, "value": 3}


def test_a_set_without_a_time_ends_the_time_before() -> None:
    clock = FixedClock()
    host = host_of(clock, max_entries=2)
    host.cache.set("n", "a", 1, 1)
    host.cache.set("n", "a", 2)
    clock.move(seconds=5)
    host.cache.set("n", "b", 1)
    host.cache.set("n", "a", 3)
    host.cache.set("n", "c", 1)  # b is the least recently used; nothing has expired
    assert keys_in(host, "abc") == "ac"


def test_a_pinned_view_has_the_time_of_the_store() -> None:
    clock = FixedClock()
    with rote.open(":memory:", clock=clock) as store:
        space = store.space("notes")
        space.set("urn:a:1", 1)
        host = rote.Host("compute-and-store", space=space.at(1))
        host.cache.set("n", "k", 1, 5)
        clock.move(seconds=6)
        assert host.cache.get("n", "k") == MISS


def test_past_the_number_of_entries_the_least_recently_used_leaves() -> None:
    host = host_of(max_entries=3)
    for key in "abc":
        host.cache.set("n", key, key)
    host.cache.get("n", "a")
    host.cache.set("n", "b", "again")
    host.cache.set("n", "d", 1)  # uses in order: c a b d
    assert keys_in(host, "abcd") == "abd"


def test_the_expired_leave_before_the_least_recently_used() -> None:
    clock = FixedClock()
    host = host_of(clock, max_entries=3)
    host.cache.set("n", "a", 1)
    host.cache.set("n", "b", 1, 5)
    host.cache.set("n", "c", 1, 50)
    clock.move(seconds=6)
    host.cache.set("n", "d", 1)
    assert keys_in(host, "abcd") == "acd"


def test_bytes_are_those_of_namespace_key_and_value() -> None:
    size = len(rote.canonical(["n", "a", "x" * 10]))
    host = host_of(max_bytes=3 * size)
    for key in "abc":
        host.cache.set("n", key, "x" * 10)
    assert keys_in(host, "abc") == "abc"
    host.cache.set("n", "a", "x" * 11)  # one byte more: b leaves, the least recently used
    assert keys_in(host, "abc") == "ac"


def test_an_entry_that_never_fits_is_refused_and_changes_nothing() -> None:
    size = len(rote.canonical(["n", "a", "x" * 10]))
    host = host_of(max_bytes=size)
    host.cache.set("n", "a", "x" * 10)
    for key, value in (("a", "x" * 11), ("b", "x" * 11)):
        with pytest.raises(LimitExceeded) as refused:
            host.cache.set("n", key, value)
        assert "max_bytes" in str(refused.value)
    assert host.cache.get("n", "a")["value"] == "x" * 10
    with pytest.raises(LimitExceeded) as refused:
        host_of(max_entries=0).cache.set("n", "a", 1)
    assert "max_entries" in str(refused.value)


def test_overwriting_many_times_keeps_no_memory_of_old_times() -> None:
    clock = FixedClock()
    host = host_of(clock, max_entries=2)
    for _ in range(1_000):
        host.cache.set("n", "a", 1, 1_000)
    clock.move(seconds=10)
    host.cache.set("n", "b", 1)
    host.cache.set("n", "a", 1, 1_000)
    clock.move(seconds=995)  # the old times of a are over, its last is not
    host.cache.set("n", "c", 1)
    assert keys_in(host, "abc") == "ac"


# -- the file --------------------------------------------------------------------------------------


def test_a_file_outlives_its_host_with_times_going_on(tmp_path: Path) -> None:
    clock, path = FixedClock(), str(tmp_path / "warm.cache")
    with host_of(clock, path=path) as host:
        host.cache.set("n", "kept", {"é": [1, 2.5, None]})
        host.cache.set("n", "timed", 1, 10)
        host.cache.set("n", "gone", 1)
        host.cache.delete("n", "gone")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    clock.move(seconds=10)
    with host_of(clock, path=path) as host:
        assert host.cache.get("n", "kept") == {"found": True, "value": {"é": [1, 2.5, None]}}
        assert host.cache.get("n", "timed")["found"]
        assert host.cache.get("n", "gone") == MISS
        clock.move(seconds=1)
        assert host.cache.get("n", "timed") == MISS


def test_one_host_at_a_time_has_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "warm.cache")
    with host_of(path=path) as host:
        with pytest.raises(Busy):
            host_of(path=path)
        with host.scope() as flow:
            flow.cache.set("n", "k", 1)
    with host_of(path=path) as host:
        assert host.cache.get("n", "k")["found"]


def test_a_fork_keeps_no_file_from_the_next_host(tmp_path: Path) -> None:
    path = str(tmp_path / "warm.cache")
    host = host_of(path=path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        del host  # it ends nothing of its parent
        os._exit(0)
    os.close(read)
    with pytest.raises(Busy):
        host_of(path=path)
    host.close()
    with host_of(path=path) as again:
        os.close(write)
        os.waitpid(child, 0)
        with pytest.raises(Busy):
            host_of(path=path)
        again.cache.set("n", "k", 1)


def test_entries_that_left_stay_away_and_smaller_bounds_hold(tmp_path: Path) -> None:
    path = str(tmp_path / "warm.cache")
    with host_of(path=path, max_entries=3) as host:
        for key in "abcde":
            host.cache.set("n", key, key)
    with host_of(path=path, max_entries=10) as host:
        assert keys_in(host, "abcde") == "cde"
    with host_of(path=path, max_entries=1) as host:
        assert keys_in(host, "abcde") == "e"
    with host_of(path=path) as host:
        assert keys_in(host, "abcde") == "e"


FOREIGN = {
    "text": b"remember the milk",
    "a line": b"rote-cache/2\n",
    "zeros": bytes(100),
    "sqlite": b"SQLite format 3\0" + bytes(84),
    "changed": b'rote-cache/1\n00000000 ["delete","n","k"]\n00000000 ["delete","n","k"]\n',
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_that_is_no_cache_is_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "warm.cache"
    path.write_bytes(FOREIGN[kind])
    for _ in range(2):
        with pytest.raises(Corrupt):
            host_of(path=str(path))
    assert path.read_bytes() == FOREIGN[kind]


def whole_lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def test_a_changed_byte_is_told_wherever_it_is_but_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "warm.cache"
    with host_of(path=str(path)) as host:
        for key in "abc":
            host.cache.set("n", key, key)
    data = path.read_bytes()
    for place in range(len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 0x01
        path.write_bytes(changed)
        with pytest.raises(Corrupt):
            host_of(path=str(path))
        assert path.read_bytes() == changed


def test_a_file_cut_anywhere_has_all_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "warm.cache"
    with host_of(path=str(path)) as host:
        for key in "abc":
            host.cache.set("n", key, key * 3)
    data = path.read_bytes()
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        with host_of(path=str(path)) as host:
            whole = sum(line.endswith(b"\n") for line in whole_lines(data[:end])) - 1
            assert keys_in(host, "abc") == "abc"[: max(whole, 0)]
            host.cache.set("n", "d", 1)
        with host_of(path=str(path)) as host:
            assert keys_in(host, "abcd") == "abc"[: max(whole, 0)] + "d"


def test_a_line_that_says_something_else_is_no_line_of_a_cache(tmp_path: Path) -> None:
    from zlib import crc32  # noqa: PLC0415

    path = tmp_path / "warm.cache"
    for body in (
        b'["take","n","k"]', b'["delete","n"]', b"{}", b"7", b'["set","n","k",1,"now",null]',
        b'["set",1,"k",1,5,null]', b'["set","n","k",1,5,-1]', b'["set","n","k",1,5,"x"]', b"[]",
    ):  # fmt: skip
        line = b"%08x %b\n" % (crc32(body), body)
        path.write_bytes(b"rote-cache/1\n" + line)
        with pytest.raises(Corrupt):
            host_of(path=str(path))


def test_a_file_stays_small_however_often_an_entry_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_file, "CACHE_FILE_BYTES_SPARE", 2_000)
    path = tmp_path / "warm.cache"
    (tmp_path / ".warm.cache.draft").write_bytes(b"left by a killed process")
    with host_of(path=str(path)) as host:
        host.cache.set("n", "first", "x" * 100)
        for number in range(500):
            host.cache.set("n", "again", number)
            assert path.stat().st_size < 4_000
        with pytest.raises(Busy):  # the new file is held as the first one was
            host_of(path=str(path))
        host.cache.set("n", "last", 1)
    assert not (tmp_path / ".warm.cache.draft").exists()
    with host_of(path=str(path)) as host:
        assert host.cache.get("n", "first")["value"] == "x" * 100
        assert host.cache.get("n", "again")["value"] == 499
        assert host.cache.get("n", "last")["found"]


def test_a_full_disk_is_told_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "warm.cache"
    write = os.pwrite

    def fails_halfway(descriptor: int, data: Any, place: int) -> int:
        if len(data) > 10:
            return write(descriptor, bytes(data)[:10], place)
        raise OSError(28, "No space left on device")

    with host_of(path=str(path)) as host:
        host.cache.set("n", "a", 1)
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", fails_halfway)
            calls: list[tuple[str, list[Any]]] = [
                ("set", ["n", "a", 2]), ("set", ["n", "b", 2]), ("delete", ["n", "a"]),
            ]  # fmt: skip
            for verb, args in calls:
                with pytest.raises(Unavailable) as refused:
                    host.call("cache", verb, args)
                assert refused.value.code == "disk_full"
        assert path.read_bytes() == before
        assert host.cache.get("n", "a")["value"] == 1
        assert host.cache.get("n", "b") == MISS
        host.cache.set("n", "b", 3)
    with host_of(path=str(path)) as host:
        assert host.cache.get("n", "b")["value"] == 3


def test_a_fifo_is_no_cache(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Corrupt):
        host_of(path=str(tmp_path / "pipe"))


def test_a_file_that_is_replaced_before_it_is_held_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host wrote its file anew between this host's open and its lock."""
    path, hold = tmp_path / "warm.cache", fcntl.flock
    replaced: list[Path] = []
    with host_of(path=str(path)) as host:
        host.cache.set("n", "k", "old")
    with host_of(path=str(tmp_path / "new")) as host:
        host.cache.set("n", "k", "new")

    def replace_first(descriptor: int, operation: int) -> None:
        if not replaced:
            replaced.append((tmp_path / "new").replace(path))
        hold(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", replace_first)
    with host_of(path=str(path)) as host:
        assert host.cache.get("n", "k")["value"] == "new"
