"""Parts of a store that are loaded when they are first used."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

import rote
from rote.engines.sqlite.checksums import checked
from rote.errors import Corrupt
from rote.values.limits import INDEX_BATCH_COMMITS

TERMS: Any = {"workflow_id": "w", "model": None, "policy_set_id": "p", "mode": "buffered_write"}


def test_a_damaged_lease_does_not_keep_a_store_from_opening(store_path: Path) -> None:
    with rote.open(store_path, modes=("buffered_write",)) as store:
        space = store.space("notes")
        space.set("urn:a", 1)
        with space.run(**TERMS) as run:
            run.set("urn:b", 1)
            database = apsw.Connection(str(store_path), vfs=checked())
            database.execute("update sides set body = x'7b7b' where kind = 'lease'")
            database.close()
            with rote.open(store_path) as other:
                assert other.space("notes").get("urn:a") == 1
                with pytest.raises(Corrupt):
                    other.recover()


def test_first_runs_of_many_threads_share_one_lease(store_path: Path) -> None:
    with rote.open(store_path, modes=("buffered_write",)) as store:
        space, barrier = store.space("notes"), threading.Barrier(8)

        def work(number: int) -> str:
            barrier.wait()
            with space.run(**TERMS) as run:
                run.set(f"urn:n:{number}", number)
            return run.state

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(work, range(8))) == {"commit_applied"}
        renewing = [thread for thread in threading.enumerate() if thread.name == "rote-leases"]
        assert len(renewing) == 1


def test_commits_without_memories_do_not_load_the_index_of_words(store_path: Path) -> None:
    """The commit that moved an empty index on loaded all of retrieval, while it held the lock."""
    program = f"""
import sys, rote
with rote.open({str(store_path)!r}, durability="os") as store:
    space = store.space("notes")
    for number in range({INDEX_BATCH_COMMITS + 1}):
        space.set("urn:a", number)
    assert store.space("notes").version > {INDEX_BATCH_COMMITS}
print("rote.retrieval" in sys.modules)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == ["False"]
