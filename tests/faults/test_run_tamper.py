"""Rows of the ledger that were changed behind Rote's back: no store follows them."""

from pathlib import Path
from typing import Any

import apsw
import pytest

import rote
from rote.contract.commands import GetSide, MakeCommit
from rote.engines.sqlite.checksums import checked
from rote.errors import Corrupt
from rote.runs.run_rows import RUN, run_in
from rote.testing import FixedClock
from rote.testing.intercepting import intercept
from tests.faults.children import LEFT, NAME, RIGHT
from tests.faults.run_children import MODES, OTHER, begin, port_of


class Gone(BaseException):
    """Stands for a process that ends."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"urn:entity:other", b"urn:entity:otter"),  # an entity it has read
        (b"one", b"two"),  # a value it writes
        (b"main", b"mine"),  # its branch
        (b'"now":', b'"not":'),
    ],
)
def test_a_pending_run_that_was_changed_is_not_applied_and_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, after: bytes
) -> None:
    path, clock = tmp_path / "memory.db", FixedClock()
    with rote.open(path, modes=MODES, clock=clock, durability="os") as store:
        space, port = store.space(NAME), port_of(store)
        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, _go)
            for run_id, id in (("one", LEFT), ("two", RIGHT)):
                with pytest.raises(Gone), begin(space, run_id) as run:
                    run.get(OTHER)
                    run.set(id, run_id)
        space.set(OTHER, 1)
    connection = apsw.Connection(str(path), vfs=checked())
    query = "SELECT body FROM sides WHERE kind = 'run' AND key = 'one'"
    body = next(iter(connection.execute(query)))[0]
    assert before in body
    changed = body.replace(before, after)
    connection.execute("UPDATE sides SET body = ? WHERE kind = 'run' AND key = 'one'", (changed,))
    connection.close()
    clock.move(seconds=3_600)
    with rote.open(
        path, clock=clock, durability="os"
    ) as store:  # opening must not fail because of it
        space = store.space(NAME)
        assert space.get(LEFT) is None
        row = port_of(store).answer(space.did, GetSide(RUN, "two"))
        assert row is not None
        assert run_in(row).state == "commit_aborted"
        with pytest.raises(Corrupt, match="one"):
            store.recover()


def _go(*_: Any, **__: Any) -> Any:
    raise Gone
