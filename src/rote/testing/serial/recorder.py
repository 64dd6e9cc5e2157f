"""Runs transactions on a space and records what each saw, wrote and was answered."""

import time
from collections.abc import Callable

from msgspec import structs

from rote.errors import Busy, Conflict, RunAborted, Unavailable
from rote.runs.run import Run
from rote.space import Space, Transaction
from rote.testing.serial.records import Outcome, Read, Record, Scan, Step, Write


class Recording:
    """A transaction in progress; every step is recorded."""

    def __init__(self, transaction: Transaction | Run, name: str) -> None:
        self._transaction = transaction
        self._name = name
        self._written: set[str] = set()
        self.steps: list[Step] = []

    def read(self, id: str) -> str | None:
        state = self._transaction.read(id)
        value: str | None = state.value
        # A transaction does not yet know the version of its own write.
        version = None if id in self._written else state.version
        self.steps.append(Read(id, value, version))
        return value

    def scan(self, prefix: str) -> dict[str, str]:
        found = {state.id: state.value for state in self._transaction.scan(prefix)}
        self.steps.append(Scan(prefix, found))
        return found

    def write(self, id: str) -> str:
        """Set an entity to a value that nobody else ever writes; return that value."""
        value = f"{self._name}#{len(self.steps)}"
        self._transaction.set(id, value)
        self._written.add(id)
        self.steps.append(Write(id, value))
        return value


class Recorder:
    """One client. Its name must be unique, because its values contain it.

    `sink` gets every record. For a transaction that writes, it also gets one before the commit,
    with the outcome unknown. So even a client that is killed has told what it may have committed.
    """

    def __init__(
        self,
        space: Space,
        client: str,
        *,
        sink: Callable[[Record], None] | None = None,
        # One clock for all processes of a machine.
        now: Callable[[], int] = time.monotonic_ns,
        begin: Callable[[], Transaction | Run] | None = None,
    ) -> None:
        """Record what `begin` begins: a transaction when left out, or a run.

        A run does not see its own writes, so work that is recorded must read first.
        """
        self._begin = space.transaction if begin is None else begin
        self._client = client
        self._now = now
        self._runs = 0
        self.records: list[Record] = []
        self._sink = self.records.append if sink is None else sink

    def run(self, work: Callable[[Recording], object]) -> Record:
        """Run `work` as one transaction, once; a conflict is an outcome, not an error."""
        self._runs += 1
        number, began = self._runs, self._now()
        steps: list[Step] = []

        def draft() -> Record:
            """Return the record as known before the answer."""
            return Record(
                client=self._client,
                number=number,
                steps=tuple(steps),
                outcome="unknown",
                began=began,
            )

        outcome: Outcome = "committed"
        commit_version: int | None = None
        try:
            with self._begin() as transaction:
                recording = Recording(transaction, f"{self._client}/{number}")
                steps = recording.steps
                work(recording)
                if any(isinstance(step, Write) for step in steps):
                    self._sink(draft())
            if transaction.commit is not None:
                commit_version = transaction.commit.version
        except (Conflict, RunAborted):
            outcome = "failed"
        except Unavailable as error:
            is_known = isinstance(error, Busy) or error.details.get("outcome") == "not_written"
            outcome = "failed" if is_known else "unknown"
        ended = self._now()
        record = structs.replace(draft(), outcome=outcome, version=commit_version, ended=ended)
        self._sink(record)
        return record
