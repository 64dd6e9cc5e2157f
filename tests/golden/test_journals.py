"""A journal of earlier days is read as it was. `python -m tests.golden.test_journals FILE` makes one."""

import shutil
import sys
from pathlib import Path
from typing import Any

import rote
from rote.sessions.journal import Journal
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds

GOLDEN = Path(__file__).parent / "journal-1.journal"
WATCHES: Any = {
    "plans": {"select": {"urn:plan:*": {}}},
    "cut": {"select": {"*": {}}, "max_entities": 1},
}


def make(path: Path) -> None:
    with rote.open(":memory:", clock=FixedClock(), ids=SeededIds()) as store:
        space = store.space("s")
        space.set("urn:plan:1", {"é": [1, 2.5, None]})
        with space.session(watch=WATCHES, journal=path, timeout=1) as session:
            session.pause()
            session.set("urn:plan:2", {"n": 1})
            with session.transaction(key="k", meta={"m": 1}) as tx:
                tx.patch(
                    "urn:plan:2", [{"op": "replace", "path": "/n", "value": tx.get("urn:plan:2")}]
                )
            session.delete("urn:plan:1").cancel()


def test_a_golden_journal_is_read(tmp_path: Path) -> None:
    path = tmp_path / "session.journal"
    shutil.copy(GOLDEN, path)
    journal = Journal(path, {"server": ":memory:", "principal": None})
    known = journal.read(WATCHES)
    journal.close()
    assert (known.decided, known.is_watched, known.ended) == (0, True, None)
    assert (len(known.session or ""), len(known.token or "")) == (32, 43)
    assert known.head is not None
    assert known.head.version == 1
    state = known.held.state("main", "urn:plan:1")
    assert state is not None
    assert (state.value, state.version) == ({"é": [1, 2.5, None]}, 1)
    assert [known.held.watches[name].is_whole for name in ("plans", "cut")] == [True, True]
    first, second, third = [layer for layer, _ in known.commits]
    assert first.sent.operations == [{"op": "set", "id": "urn:plan:2", "value": {"n": 1}}]
    assert (second.names, second.sent.key, second.sent.meta) == ((1,), "k", {"m": 1})
    assert second.sent.reads == [{"id": "urn:plan:2", "version": 1, "layers": [1]}]
    assert [layer.is_dead for layer in (first, second, third)] == [False, False, True]


if __name__ == "__main__":
    make(Path(sys.argv[1]))
