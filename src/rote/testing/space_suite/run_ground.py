"""The ground of the tests of runs: a space in which every mode is enabled."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rote.contract.commands import GetSide
from rote.errors import RunAborted
from rote.runs.ledger import RunRecord
from rote.runs.run import Run
from rote.runs.run_rows import RUN, RunBody, run_in
from rote.space import Space, Store
from rote.testing.space_suite.ground import SpaceGround, port_of

ALL_MODES = ("off", "read_only", "buffered_write", "live_read_write")
VAULT = {"query": "vault keys", "budget": {"max_excerpt_tokens": 100, "max_items": 1}}


class RunGround(SpaceGround):
    """A space in which every mode is enabled, and short ways to run."""

    agents: Store
    notes: Space

    @pytest.fixture
    def agency(self) -> None:
        self.agents = self.open(modes=ALL_MODES)
        self.notes = self.agents.space("notes")

    def begin(self, mode: str = "buffered_write", space: Space | None = None, **more: Any) -> Run:
        asked = {"workflow_id": "w", "model": None, "policy_set_id": "p", "mode": mode, **more}
        return (space or self.notes).run(**asked)

    def record_of(self, run: Run) -> RunRecord:
        return next(each for each in self.agents.runs() if each.run_id == run.run_id)

    def entry_of(self, run: Run) -> RunBody:
        row = port_of(self.agents).answer(self.notes.did, GetSide(RUN, run.run_id))
        assert row is not None
        return run_in(row)

    @contextmanager
    def aborts(self, reason_code: str) -> "Iterator[list[RunAborted]]":
        """Yield in a block that a run must leave as aborted, with nothing applied."""
        before, caught = self.notes.version, list[RunAborted]()
        with pytest.raises(RunAborted) as error:
            yield caught
        caught.append(error.value)
        assert error.value.reason_code == reason_code
        assert self.notes.version >= before
