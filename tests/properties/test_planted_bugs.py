"""The machine finds bugs: with one planted in the library it fails, without one it does not.

Each plant is a mistake that someone could make. `test_model.py` is the control: the same machine,
the same kinds of steps, no plant, no failure.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test

from rote.contract import reads
from rote.engines.rows import Batch, SideRecord
from rote.engines.sqlite.reader import SqliteReader
from rote.engines.sqlite.writer import SqliteWriter
from rote.errors import RoteError
from rote.kernel.committing import committer, jobs, plans, read_checks
from rote.kernel.committing.documents import Patched
from rote.kernel.committing.drafts import Draft
from rote.kernel.log import branches
from rote.kernel.log.entries import ABSENT, Entry
from rote.kernel.state.space_reader import SpaceReader
from rote.patch import overlap
from rote.space.transaction_port import TransactionPort
from rote.testing.machine import make_machine
from tests.lanes import SLOW
from tests.properties.test_model import open_file

# No shrinking: it is enough that the bug is found.
SEARCH = settings(
    max_examples=400,
    stateful_step_count=30,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

Plant = Callable[[pytest.MonkeyPatch], None]


def skip_the_read_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "find_conflicts", lambda draft, reads, **more: ())


def drop_a_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchanged(before: Entry, data: bytes, pointers: Any, at: Any) -> Patched:
        value = before.canonical_value()
        size = len(value)
        return Patched(
            Entry(0, None, None, True, value, snapshot_bytes=size, size_bound=size), data, value
        )

    monkeypatch.setattr(plans, "patched", unchanged)


def reuse_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number a commit like the one before it, and overwrite that one."""

    def overwrite(self: SqliteWriter, space: int, batch: Batch) -> None:
        version = batch.commits[0].version
        for table in ("commits", "facts"):
            self.connection.execute(
                f"delete from {table} where space = ? and version >= ?", (space, version)
            )
        append(self, space, batch)

    def behind(*arguments: Any) -> Draft:
        draft = Draft(*arguments)
        if draft.version == 3:
            draft.version = 2
        return draft

    append = SqliteWriter.append
    monkeypatch.setattr(SqliteWriter, "append", overwrite)
    monkeypatch.setattr(committer, "Draft", behind)


def forget_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    put_side = SqliteWriter.put_side

    def forgetful(self: SqliteWriter, space: int, row: SideRecord) -> None:
        if row.kind != "key":
            put_side(self, space, row)

    monkeypatch.setattr(SqliteWriter, "put_side", forgetful)


def take_any_payload_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "payload_digest", lambda branch, operations: "same")


def keep_stale_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpaceReader, "_changed", lambda self, version: set())


def ignore_that_array_elements_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_written", lambda path: path)


def miss_overlaps_below_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_at_or_below(operations: Any, path: Any) -> bool:
        return any(
            written[: len(path)] == tuple(path) for written in overlap.written_paths(operations)
        )

    monkeypatch.setattr(read_checks, "overlaps", only_at_or_below)


def end_a_prefix_one_character_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "prefix_end", lambda prefix: prefix + "\0" if prefix else None)


def follow_a_clock_that_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # Shadows the builtin in that module: `at` becomes the clock's time.
    monkeypatch.setattr(plans, "max", lambda now, before: now, raising=False)


def forget_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SqliteWriter.append

    def only_live(self: SqliteWriter, space: int, batch: Batch) -> None:
        batch.entities = [entity for entity in batch.entities if entity.live]
        append(self, space, batch)

    monkeypatch.setattr(SqliteWriter, "append", only_live)


def scan_the_past_without_what_was_deleted_since(monkeypatch: pytest.MonkeyPatch) -> None:
    entities = SqliteReader.entities

    def as_of_now(self: SqliteReader, *arguments: Any, **bounds: Any) -> list[str]:
        space, line = arguments
        now = tuple((branch, 2**62) for branch, _ in line)
        return entities(self, space, now, **bounds)

    monkeypatch.setattr(SqliteReader, "entities", as_of_now)


def forget_what_a_transaction_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionPort, "_begin_scan", lambda self, start: [start, start])


def let_children_see_what_the_parent_writes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "min", lambda cap, other: cap, raising=False)


def write_to_deleted_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "writable", lambda branches, name: branches.find(name))


def start_a_childs_entity_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = Draft.look_up

    def own(self: Draft, branch: str, ids: Any, **how: bool) -> dict[str, Entry]:
        found = look_up(self, branch, ids, **how)
        created = self.space.branches.find(branch).created_version
        return {id: entry if entry.version > created else ABSENT for id, entry in found.items()}

    monkeypatch.setattr(Draft, "look_up", own)


def miss_a_branch_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteReader, "events", lambda self, space, *, after, limit: [])


def scan_only_what_a_branch_wrote_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    entities = SqliteReader.entities

    def own(self: SqliteReader, space: int, line: Any, **bounds: Any) -> list[str]:
        return entities(self, space, line[:1], **bounds)

    monkeypatch.setattr(SqliteReader, "entities", own)


PLANTS: list[Plant] = [
    let_children_see_what_the_parent_writes_later,
    write_to_deleted_branches,
    miss_a_branch_of_another_process,
    scan_only_what_a_branch_wrote_itself,
    skip_the_read_check,
    drop_a_patch,
    reuse_a_version,
    forget_the_key,
    take_any_payload_for_a_key,
    keep_stale_entries,
    miss_overlaps_below_the_path,
    follow_a_clock_that_steps_back,
    forget_tombstones,
    forget_what_a_transaction_scanned,
]

# Bugs that a machine of all steps finds only with luck in the time that the quick lane has; there
# it takes these steps alone.
QUICK_STEPS: dict[Plant, tuple[str, ...]] = {
    take_any_payload_for_a_key: (
        "write_with_key", "erase", "create_branch", "delete_branch", "merge",
    ),
    forget_what_a_transaction_scanned: ("run_transaction", "write", "create_branch"),
}  # fmt: skip

# Bugs that the machine finds only after many histories.
RARE: list[Plant] = [
    start_a_childs_entity_from_nothing,
    ignore_that_array_elements_move,
    end_a_prefix_one_character_early,
    scan_the_past_without_what_was_deleted_since,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_machine_finds_a_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    _find(plant, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("plant", RARE, ids=lambda plant: plant.__name__)
def test_the_machine_finds_a_bug_that_rarely_shows(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    _find(plant, monkeypatch)


def _find(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    machine = make_machine({"file": open_file})
    steps = {name for name in dir(machine) if hasattr(getattr(machine, name), RULE_MARKER)}
    wanted = steps if SLOW else set(QUICK_STEPS.get(plant, steps))
    assert wanted <= steps
    for name in steps - wanted:
        setattr(machine, name, None)
    with pytest.raises((AssertionError, RoteError)):
        run_state_machine_as_test(machine, settings=SEARCH)
