"""A cache file of earlier days is read as it was, and written as it was."""

from datetime import UTC, datetime
from pathlib import Path

import rote
from rote.testing.clocks import FixedClock

GOLDEN = Path(__file__).parent / "cache-1.cache"
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def written(path: Path) -> bytes:
    clock = FixedClock(START)
    with rote.Host("compute-and-store", cache={"path": str(path)}, clock=clock) as host:
        host.cache.set("monitors", "last_run", {"at": "2026-01-01", "é": [1, 2.5, None]})
        clock.move(seconds=1.5)
        host.cache.set("monitors", "timed", True, 60)
        host.cache.set("monitors", "gone", "x", 0.25)
        host.cache.delete("monitors", "gone")
    return path.read_bytes()


def test_a_golden_cache_is_written_again_by_this_rote(tmp_path: Path) -> None:
    assert written(tmp_path / "warm") == GOLDEN.read_bytes()


def test_a_golden_cache_is_read(tmp_path: Path) -> None:
    path = tmp_path / "warm"
    path.write_bytes(GOLDEN.read_bytes())
    clock = FixedClock(START)
    with rote.Host("compute-and-store", cache={"path": str(path)}, clock=clock) as host:
        assert host.cache.get("monitors", "last_run") == {
            "found": True,
            "value": {"at": "2026-01-01", "é": [1, 2.5, None]},
        }
        clock.move(seconds=61.5)
        assert host.cache.get("monitors", "timed")["value"] is True
        clock.move(seconds=0.000001)
        assert host.cache.get("monitors", "timed")["found"] is False
        assert host.cache.get("monitors", "gone")["found"] is False
