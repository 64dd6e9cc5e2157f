"""Every change of stored content is found: each byte of each column of each row, changed once.

Verify alone cannot find a change to another whole store. A checkpoint that someone kept reveals it.
"""

import copy
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random

import apsw
import pytest

import rote
from rote.contract.commands import Verify
from rote.errors import InvalidInput
from tests.faults.tampering import (
    SEED,
    Cell,
    Row,
    Sample,
    is_found,
    make_sample,
    open_port,
    raw,
    read_everything,
    tables,
)
from tests.lanes import SLOW, examples

# Columns that cannot change an answer, each with the reason.
EXEMPT = {
    ("commits", "attempt"): "tells one try from another while it is under way; nothing reads it",
    ("facts", "number"): "a row's place in the file; nothing refers to it",
    ("chunks", "number"): "the same",
}
TABLES = (
    "blobs", "branches", "chunks", "commits", "derived", "derived_state", "entities", "facts",
    "sides", "spaces", "tombstones",
)  # fmt: skip
# No rows are in these, because the sample has no packed index and no vectors.
EMPTY = ("postings", "segments", "vectors")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return make_sample(tmp_path_factory.mktemp("sample") / "memory.db")


@pytest.fixture
def rows(sample: Sample, tmp_path: Path) -> dict[str, list[Row]]:
    sample.restore(tmp_path / "rows.db")
    return tables(tmp_path / "rows.db")


def other_cells(cell: Cell, random: Random) -> Iterator[Cell | tuple[bytes]]:
    """Yield the cell with one of its bytes changed: each byte once, or in the quick lane one of them."""
    if cell is None:
        return
    if isinstance(cell, int):
        content = cell.to_bytes(8, "big", signed=True)
    else:
        content = cell.encode() if isinstance(cell, str) else cell
    positions = range(len(content)) if SLOW else random.sample(range(len(content)), 1)
    for position in positions if content else ():
        changed = bytearray(content)
        changed[position] ^= random.randrange(1, 128 if isinstance(cell, str) else 256)
        if isinstance(cell, int):
            yield int.from_bytes(changed, "big", signed=True)
        elif isinstance(cell, bytes):
            yield bytes(changed)
        else:
            yield (bytes(changed),)
            changed[position] = 0xFF  # not a byte of UTF-8
            yield (bytes(changed),)


def changes_of(rows: list[Row], random: Random) -> Iterator[tuple[Row, str, Cell | tuple[bytes]]]:
    """Yield every change of every cell, or in the quick lane one of each cell, another in each row."""
    for number, row in enumerate(rows):
        for place, (column, cell) in enumerate(row.cells.items()):
            others: list[Cell | tuple[bytes]] = list(other_cells(cell, random))
            # The value is removed, or appears where there was none.
            if cell is not None:
                others.append(None)
            else:
                same = next((r.cells[column] for r in rows if r.cells[column] is not None), None)
                others.append(1 if same is None else same)
            for other in others if SLOW else [others[(number + place) % len(others)]]:
                yield row, column, other


def test_the_sample_holds_every_kind_of_row(sample: Sample, rows: dict[str, list[Row]]) -> None:
    assert tuple(rows) == tuple(sorted((*TABLES, *EMPTY)))
    assert [table for table in rows if not rows[table]] == list(EMPTY)
    facts = [row.cells for row in rows["facts"] if row.cells["space"] == 1]
    assert 25 <= sample.version <= 50
    erased = [fact for fact in facts if fact["salt"] is None]
    assert {fact["op"] for fact in erased} == {1, 2, 3}
    assert {fact["op"] for fact in facts} == {1, 2, 3}
    patches = [fact for fact in facts if fact["op"] == 2]
    assert any(fact["value"] is None for fact in patches)
    assert any(len(bytes(str(fact["value"]), "utf-8")) > 1_500 for fact in patches)
    assert {row.cells["kind"] for row in rows["sides"]} == {"key", "checkpoint", "note"}
    assert [row.cells["hash"] for row in rows["blobs"]].count(None) == 1
    assert len(rows["chunks"]) > len(rows["blobs"])


def test_an_untouched_store_verifies(sample: Sample, store_path: Path) -> None:
    sample.restore(store_path)
    assert not is_found(store_path, sample.dids)


class Verdicts:
    """The verdicts on changed stores; a store whose change was not found, or that crashed, is kept."""

    def __init__(self, sample: Sample, path: Path) -> None:
        self._sample = sample
        self._path = path
        self.changes = 0
        self.missed: dict[str, str] = {}

    def judge(self, what: str, place: object, *, exempt: bool = False) -> None:
        """Check the store in its present state; `what` was changed, at `place`."""
        self.changes += 1
        try:
            if not is_found(self._path, self._sample.dids) and not exempt:
                self.missed.setdefault(f"{what}: not found", repr(place)[:300])
            # The quick lane reads few of the changed stores; test_damage.py reads all of its own.
            if self.changes % examples(20, 1) == 0:
                read_everything(self._path, self._sample.dids, self._sample.version)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{what}: {type(error).__name__} in {Path(where.filename).name}:{where.name}"
            self.missed.setdefault(kind, f"{error} {place!r}"[:300])

    def check(self, changes_min: int) -> None:
        assert self.changes >= changes_min
        shown = "\n".join(f"{what} ({place})" for what, place in sorted(self.missed.items()))
        assert not self.missed, f"of {self.changes} changes:\n{shown}"


@pytest.fixture
def verdicts(sample: Sample, store_path: Path) -> Verdicts:
    return Verdicts(sample, store_path)


@pytest.mark.parametrize("table", TABLES)
def test_every_changed_byte_is_found(
    sample: Sample, rows: dict[str, list[Row]], store_path: Path, verdicts: Verdicts, table: str
) -> None:
    for row, column, cell in changes_of(rows[table], Random(table)):
        sample.restore(store_path)
        with raw(store_path) as connection:
            try:
                row.put(connection, column, cell)
            except (apsw.ConstraintError, apsw.MismatchError):
                continue  # the file itself refuses it
        exempt = (table, column) in EXEMPT or is_no_change(row, column, cell)
        verdicts.judge(column, (row.cells, cell), exempt=exempt)
    verdicts.check(len(rows[table]))


def is_no_change(row: Row, column: str, cell: Cell | tuple[bytes]) -> bool:
    """Whether the change alters no answer.

    A missing snapshot does not, unless a compaction has left nothing else. Nor does the digest of
    an erased snapshot. A row that moves to a space that does not exist counts as deleted.
    """
    if (row.table, column) == ("facts", "value"):
        if row.cells["salt"] is None:
            return is_other_snapshot(row.cells["value"], cell)
        return cell is None and row.cells["body"] is not None
    if is_given_up(row):
        return True
    return comes_and_goes(row) and column == "space" and cell not in (1, 2)


def is_other_snapshot(before: Cell, after: Cell | tuple[bytes]) -> bool:
    """Whether two remains differ in the digest of the snapshot alone; before a compaction nothing
    is compared with it."""
    shown = [re.sub(rb'"value":"[0-9a-f]{64}"', b"", data) for data in (before, after)
             if isinstance(data, bytes)]  # fmt: skip
    return len(shown) == 2 and shown[0] == shown[1]


def comes_and_goes(row: Row) -> bool:
    """Whether a missing row proves nothing: side rows other than keys and compactions come and go.

    A checkpoint proves something only where someone else keeps it.
    """
    stays = ("key", "compaction")
    return is_given_up(row) or (row.table == "sides" and row.cells["kind"] not in stays)


def is_given_up(row: Row) -> bool:
    """Whether it is a chunk of an upload that was never finished, which no answer uses."""
    return row.table == "chunks" and row.cells["upload"] == b"given up"


@pytest.mark.parametrize("table", TABLES)
def test_every_missing_row_is_found(
    sample: Sample, rows: dict[str, list[Row]], store_path: Path, verdicts: Verdicts, table: str
) -> None:
    for row in rows[table]:
        sample.restore(store_path)
        with raw(store_path) as connection:
            row.delete(connection)
        verdicts.judge("row", row.cells, exempt=comes_and_goes(row))
    verdicts.check(len(rows[table]))


@pytest.mark.parametrize("table", TABLES)
def test_every_table_that_was_emptied_is_found(
    sample: Sample, store_path: Path, verdicts: Verdicts, table: str
) -> None:
    sample.restore(store_path)
    with raw(store_path) as connection:
        connection.execute(f"delete from {table}")
    verdicts.judge("table", table)
    read_everything(store_path, sample.dids, sample.version)
    verdicts.check(1)


# The columns that identify a row; the rest is its content.
PLACES = {
    "facts": ("number", "space", "version", "position", "branch"),
    "derived": ("space", "name", "id", "branch", "start"),
    "chunks": ("number", "space", "upload", "until"),
    "spaces": ("number",),
    "branches": ("space", "branch", "name"),
}


def swapped(first: Row, second: Row) -> tuple[Row, Row] | None:
    """Return the two rows, each with the other's content; None when that changes nothing."""
    place = PLACES.get(first.table, first.keys)

    def mixed(here: Row, there: Row) -> Row:
        cells = {name: (here if name in place else there).cells[name] for name in here.cells}
        return Row(here.table, cells, here.keys)

    pair = mixed(first, second), mixed(second, first)
    return None if pair[0].cells == first.cells else pair


@pytest.mark.parametrize("table", TABLES)
def test_two_rows_that_changed_places_are_found(
    sample: Sample, rows: dict[str, list[Row]], store_path: Path, verdicts: Verdicts, table: str
) -> None:
    for index, first in enumerate(rows[table]):
        for second in rows[table][index + 1 :][: examples(1, 100)]:
            pair = swapped(first, second)
            if pair is None:
                continue
            sample.restore(store_path)
            with raw(store_path) as connection:
                for row in (first, second):
                    row.delete(connection)
                for row in pair:
                    row.insert(connection)
            exempt = is_given_up(first) and is_given_up(second)
            verdicts.judge("pair", (first.cells, second.cells), exempt=exempt)
    verdicts.check(0)


def forged(row: Row, random: Random) -> Row:
    """Return a copy of a row in a new place."""
    cells = dict(row.cells)
    column = [name for name in row.keys if name != "space"][-1]
    cell = cells[column]
    if isinstance(cell, bytes):
        cells[column] = cell + b"-"
    else:
        cells[column] = (
            cell + 1_000 if isinstance(cell, int) else f"{cell!s}-{random.randrange(10)}"
        )
    if row.table == "blobs":
        cells["hash"] = random.randbytes(32)
    if row.table == "chunks":
        cells["until"] = random.randrange(100, 1_000)
    if row.table == "spaces":
        cells["did"], cells["name"] = f"{cells['did']!s}x", "forged"
    if row.table == "branches":
        cells["name"] = "forged"
    if row.table == "facts":
        cells["version"] = random.randrange(1, 10)
        cells["position"] = 7
    return Row(row.table, cells, row.keys)


@pytest.mark.parametrize("table", TABLES)
def test_every_forged_row_is_found(
    sample: Sample, rows: dict[str, list[Row]], store_path: Path, verdicts: Verdicts, table: str
) -> None:
    random = Random(table)
    for row in rows[table]:
        sample.restore(store_path)
        with raw(store_path) as connection:
            forged(row, random).insert(connection)
        # Verify reports nothing about a space or an index that nobody asked for.
        exempt = table in ("spaces", "derived_state") or is_given_up(row)
        verdicts.judge("row", row.cells, exempt=exempt)
    verdicts.check(len(rows[table]))


# -- what only a checkpoint finds ------------------------------------------------------------------

TRUNCATE = """
    delete from commits where space = 1 and version > :version;
    delete from facts where space = 1 and version > :version;
    delete from entities where space = 1;
    delete from tombstones where space = 1;
    insert into entities select space, branch, id, version, position from newest
        where op <> 3 and salt is not null;
    insert into tombstones select space, branch, id, version, position from newest
        where op = 3 or salt is null;
    delete from sides where space = 1 and kind = 'key'
        and key not in (select key from commits where space = 1 and key is not null);
    delete from sides where space = 1 and kind = 'checkpoint' and cast(key as int) > :version;
    delete from derived where space = 1;
    delete from derived_state where space = 1;
"""
NEWEST = """
    create temp view newest as
    select *, max(version * 1000 + position) from main.facts where space = 1 group by branch, id
"""


def truncate(path: Path, version: int) -> None:
    """Cut the first space off above a version, and repair everything that would reveal it."""
    with raw(path) as connection:
        connection.execute(NEWEST)
        connection.execute(TRUNCATE, {"version": version})


def verifies(path: Path, did: str, against: dict[str, object] | None = None) -> bool:
    port = open_port(path)
    try:
        return port.begin(did, Verify(against=against)).result().ok
    finally:
        port.close()


def test_a_store_extends_the_checkpoints_that_were_made_of_it(
    sample: Sample, store_path: Path
) -> None:
    sample.restore(store_path)
    assert sample.checkpoint["version"] < sample.version
    assert verifies(store_path, sample.dids[0], sample.checkpoint)
    assert verifies(store_path, sample.dids[0], sample.checkpoint_at_head)
    assert not verifies(store_path, sample.dids[1], sample.checkpoint)


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_log_that_was_cut_off_consistently_is_found_only_against_a_checkpoint(
    sample: Sample, store_path: Path, cut: int
) -> None:
    sample.restore(store_path)
    truncate(store_path, sample.version - cut)
    did = sample.dids[0]
    assert verifies(store_path, did)
    assert not verifies(store_path, did, sample.checkpoint_at_head)
    # The older checkpoint still holds as long as the cut is above it.
    above = sample.version - cut >= sample.checkpoint["version"]
    assert verifies(store_path, did, sample.checkpoint) == above


def test_a_log_that_was_cut_off_and_grew_again_is_found_only_against_a_checkpoint(
    sample: Sample, store_path: Path
) -> None:
    sample.restore(store_path)
    truncate(store_path, sample.version - 5)
    with rote.open(store_path) as store:
        space = store.space(sample.dids[0])
        for number in range(10):
            space.set("urn:entity:other", number)
        assert space.verify().ok
        assert not space.verify(against=sample.checkpoint).ok
        assert not space.verify(against=sample.checkpoint_at_head).ok


def test_a_log_that_was_rewritten_is_found_only_against_a_checkpoint(
    sample: Sample, store_path: Path
) -> None:
    """Anyone who has the key of the space can make it anew, with another past."""
    with rote.open(store_path, key=SEED) as store:
        space = store.space("agent")
        assert space.did == sample.dids[0]
        for number in range(sample.version + 3):
            space.set("urn:entity:a", number)
        assert space.verify().ok
        assert space.verify(against=space.checkpoint()).ok
        assert not space.verify(against=sample.checkpoint).ok
        assert not space.verify(against=sample.checkpoint_at_head).ok


def test_a_checkpoint_that_was_changed_is_refused(sample: Sample, store_path: Path) -> None:
    sample.restore(store_path)
    random = Random(1)
    for member, value in sample.checkpoint.items():
        checkpoint = copy.deepcopy(sample.checkpoint)
        if isinstance(value, str):
            position = random.randrange(len(value))
            checkpoint[member] = f"{value[:position]}!{value[position + 1 :]}"
        else:
            checkpoint[member] = 1 if value is None else value - 1
        try:
            assert not verifies(store_path, sample.dids[0], checkpoint), member
        except InvalidInput:
            pass
