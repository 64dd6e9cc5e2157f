"""Forgetting a person: nothing is left in any answer, and in no byte of the store, of a new backup or of
a new copy, whatever is killed meanwhile."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rote
from rote.engines.postgres import scrubbing
from rote.errors import RunAborted
from rote.testing.faults import ChildProcess, run_until_killed
from rote.testing.postgres import schema_of, server_url, with_options
from tests.faults.children import NAME
from tests.faults.postgres_rig import ROOT, open_postgres
from tests.faults.test_erasures import relation_files, rows_of
from tests.lanes import examples

RECORDS, OF_ADA = examples(2_000, 100_000), examples(20, 1_000)
ADA = {"tags_any": ["ada"]}
# In every value of a record of hers, and nowhere else.
MARK = "4d616461-lovelace-and-her-engine"
MODES = ("off", "read_only", "buffered_write")


class Now:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self.moment += timedelta(milliseconds=1)
        return self.moment


def bytes_with_mark(folder: Path) -> list[str]:
    """Return the names of all files in a folder, and below it, that hold a part of the mark."""
    pieces = [MARK[start : start + 10].encode() for start in range(0, len(MARK) - 9, 5)]
    return [
        file.name
        for file in sorted(folder.rglob("*"))
        if file.is_file() and any(piece in file.read_bytes() for piece in pieces)
    ]


def write_people(space: rote.Space, clock: Now, *, records: int, of_ada: int) -> list[str]:
    """Write the records of many; return the ids of Ada's.

    Half of hers live, though their tag is only in the past of some. A quarter was deleted and a
    quarter pruned. Some are on another branch alone.
    """
    memory, side = rote.Memory(space), rote.Memory(space.create_branch("side"))
    others = [
        {
            "op": "set",
            "id": rote.Memory.entity_id("long_term", "fact", f"{number:06d}"),
            "value": {
                "namespace": "long_term", "record_kind": "fact", "record_id": f"{number:06d}",
                "created_at": "2026-01-01T00:00:00.000000Z", "ttl_seconds": None,
                "updated_at": "2026-01-01T00:00:00.000000Z",
                "payload": {"text": f"somebody else {number}"}, "metadata": {"tags": ["bob"]},
            },
        }
        for number in range(records - of_ada)
    ]  # fmt: skip
    for start in range(0, len(others), 10_000):
        space.transact(others[start : start + 10_000])
    ids = []
    for number in range(of_ada):
        id = f"{number * 997 % 1_000_000:06d}-{number}"
        ids.append(id)
        put: dict[str, Any] = {"metadata": {"tags": ["ada"]}}
        chosen = side if number % 8 == 7 else memory
        put |= {"ttl_seconds": 60} if number % 4 == 1 else {}
        chosen.put("long_term", "fact", id, {"text": f"{MARK} {number}"}, **put)
        if number % 4 == 0:
            chosen.delete("long_term", "fact", id)
        elif number % 4 == 2:  # the tag stays in its past alone
            chosen.put("long_term", "fact", id, {"text": f"{MARK} again"}, metadata=None)
    clock.moment += timedelta(seconds=61)
    assert memory.prune()["pruned"] >= of_ada // 8
    return sorted(ids)


def ask(store: rote.Store) -> list[str]:
    """Return what a retrieval of all of it returns."""
    budget = {"max_excerpt_tokens": 10_000, "max_items": 50}
    query = {"query": MARK, "budget": budget, "store_paths": [f"rote:{NAME}"]}
    package = rote.retrieve(query, store=store)
    return [item["excerpt"] for item in package["selection"]["selected"]]


def test_all_records_of_a_person_are_gone_from_every_answer_and_every_byte(tmp_path: Path) -> None:
    clock = Now()
    folder = tmp_path / "store"
    folder.mkdir()
    with rote.open(folder / "memory.db", clock=clock, traces=tmp_path / "traces") as store:
        space = store.space(NAME)
        ids = write_people(space, clock, records=RECORDS, of_ada=OF_ADA)
        memory, newest = rote.Memory(space), space.version
        entities = [rote.Memory.entity_id("long_term", "fact", id) for id in ids]
        watch = space.watch({"select": {id: {} for id in entities[:20]}}, timeout=0)
        assert MARK in str(next(watch))
        assert any(MARK in excerpt for excerpt in ask(store))
        assert bytes_with_mark(folder)
        result = memory.erase(filters=ADA, reason="request 17")
        assert sorted(key["record_id"] for key in result["erased"]) == ids
        assert (result["version"], space.version) == (newest + 1, newest + 1)
        # Every version on every branch, the index, retrievals and watches.
        for version in {0, newest // 2, newest - 1, newest, newest + 1}:
            for view in (space.at(version), space.at(version).on("side")):
                assert not any(view.read(entity).exists for entity in entities)
                assert rote.Memory(view).list("long_term", filters=ADA)["items"] == []
        assert all(fact.erased for entity in entities for fact in space.history(entity))
        assert not any(MARK in excerpt for excerpt in ask(store))
        (frame,) = watch
        assert frame["removes"] and MARK not in str(frame)
        assert len(memory.list("long_term")["items"]) == RECORDS - OF_ADA
        report = space.verify()
        assert report.ok, report.faults
        assert report.erased >= OF_ADA
        assert bytes_with_mark(folder) == []
        # A new backup, and a new copy.
        (tmp_path / "elsewhere").mkdir()
        store.backup(tmp_path / "elsewhere" / "backup.db")
        with rote.open(tmp_path / "elsewhere" / "copy.db") as target:
            assert store.copy(NAME, target).ok
        assert bytes_with_mark(tmp_path / "elsewhere") == []
    assert bytes_with_mark(folder) == []


def argv_of(what: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.faults.forgetting_children", what, *map(str, arguments)]


def test_what_a_kill_has_left_goes_when_the_call_is_made_again(tmp_path: Path) -> None:
    """The process is killed after the commit, before the file is written anew."""
    path = tmp_path / "memory.db"
    clock = Now()
    with rote.open(path, clock=clock) as store:
        write_people(store.space(NAME), clock, records=80, of_ada=16)
    run_until_killed(argv_of("erase", path, "ada"), acknowledgements=1, cwd=ROOT)
    assert bytes_with_mark(tmp_path)
    with rote.open(path) as store:
        space = store.space(NAME)
        assert space.verify().ok
        result = rote.Memory(space).erase(filters=ADA, reason="request 17")
        assert result == {"ok": True, "erased": [], "version": None}
        assert bytes_with_mark(tmp_path) == []
        assert space.gc().erasures == 0


@pytest.mark.parametrize("ids", [["urn:p:1", "urn:p:2"], {"prefix": "urn:p:"}], ids=str)
def test_what_a_stop_has_left_of_several_goes_when_they_are_erased_again(
    tmp_path: Path, ids: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rote.open(tmp_path / "memory.db") as store:
        space = store.space(NAME)
        hash = space.put_blob(MARK.encode())
        for id in ("urn:p:1", "urn:p:2"):
            space.set(id, {"text": MARK})
        space.delete(f"urn:blob-meta:{hash}")
        assert space.gc(grace_seconds=0).blobs == 1
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(
                "rote.engines.sqlite.engine._rewrite",
                lambda connection: (_ for _ in ()).throw(KeyboardInterrupt()),
            )
            space.erase(ids, reason="r")
        again = space.erase(ids, reason="r")
        assert (again.facts, again.commit.version) == (0, space.version)
        assert bytes_with_mark(tmp_path) == []


# -- what attacks on erasure have found ------------------------------------------------------------


@pytest.mark.parametrize("how", ["by id", "by prefix", "with others"])
def test_a_run_that_is_open_while_its_entity_is_erased_writes_none_of_its_buffer(
    tmp_path: Path, how: str
) -> None:
    """The run was aborted, and yet had written its buffered value into the write-ahead log."""
    ids: Any = {
        "by id": "urn:p:1", "by prefix": {"prefix": "urn:p"}, "with others": ["urn:p:1", "urn:q"],
    }[how]  # fmt: skip
    with rote.open(tmp_path / "memory.db", modes=MODES, traces=tmp_path / "traces") as store:
        space = store.space(NAME)
        space.set("urn:p:1", 1)
        space.set("urn:q", 1)
        with (
            pytest.raises(RunAborted) as caught,
            space.run(workflow_id="w", model=None, policy_set_id="p", mode="buffered_write") as run,
        ):
            run.set("urn:p:1", {"text": MARK})
            run.set("urn:other", 1)
            space.erase(ids, reason="asked to")
        assert caught.value.reason_code == "validation_failed"
        assert [conflict.id for conflict in caught.value.conflicts] == ["urn:p:1"]
        (record,) = store.runs()
        assert (record.state, record.reason_code) == ("commit_aborted", "validation_failed")
        assert bytes_with_mark(tmp_path) == []
        assert space.get("urn:other") is None
        assert space.verify().ok


def test_a_backup_that_was_killed_leaves_nothing_once_another_was_made(tmp_path: Path) -> None:
    path, target = tmp_path / "memory.db", tmp_path / "elsewhere" / "backup.db"
    target.parent.mkdir()
    with rote.open(path) as store:
        store.space(NAME).set("urn:p:1", {"text": MARK})
        with ChildProcess(argv_of("back_up", path, target), cwd=ROOT) as child:
            child.read_until(1)
            # A backup that goes on is left alone by others.
            assert bytes_with_mark(target.parent)
            store.backup(target.with_name("beside.db"))
            assert len(bytes_with_mark(target.parent)) == 2
            child.kill()
        assert not target.exists()
        store.backup(target.with_name("next.db"))
    assert bytes_with_mark(target.parent) == ["beside.db", "next.db"]
    assert {file.name for file in target.parent.iterdir()} == {"beside.db", "next.db"}


def test_a_backup_that_was_killed_beside_its_store_goes_with_a_collection(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    mine = tmp_path / ".mine.part"
    mine.write_text("not of Rote")
    with rote.open(path) as store:
        space = store.space(NAME)
        space.set("urn:p:1", {"text": MARK})
        run_until_killed(
            argv_of("back_up", path, tmp_path / "backup.db"), acknowledgements=1, cwd=ROOT
        )
        space.erase("urn:p:1", reason="asked to")
        assert [name for name in bytes_with_mark(tmp_path) if name.endswith(".part")]
        space.gc()
        assert bytes_with_mark(tmp_path) == []
    assert mine.read_text() == "not of Rote"


def test_a_user_of_postgres_who_owns_no_table_is_told_and_the_owner_finishes(
    tmp_path: Path,
) -> None:
    """PostgreSQL skips tables of another owner; nothing shrank, and nobody came back to it."""
    schema, role = schema_of(tmp_path), f"guest_{schema_of(tmp_path)}"
    with open_postgres(tmp_path) as store:
        space = store.space(NAME)
        for number in range(5):
            space.set("urn:p:1", {"text": MARK, "number": number})
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(
            f"create role {role} login; grant usage on schema {schema} to {role};"
            f" grant select, insert, update, delete on all tables in schema {schema} to {role}"
            .encode()
        )  # fmt: skip
    with open_postgres(tmp_path, url=with_options(server_url(), user=role)) as guests:
        space = guests.space(NAME)
        assert not space.compact(keep=2).is_shrunk
        erasure = space.erase("urn:p:1", reason="asked to")
        left = set(erasure.remaining) - set(scrubbing.OUT_OF_REACH)
        assert any("facts" in place and "owner" in place for place in left)
        report = space.gc()
        assert (report.is_shrunk, report.erasures) == (False, 0)
        # His own second call says so too.
        assert set(space.erase("urn:p:1", reason="asked to").remaining) == set(erasure.remaining)
    assert any(MARK.encode() in data for data in relation_files(schema).values())
    with open_postgres(tmp_path) as store:
        space = store.space(NAME)
        report = space.gc()
        assert (report.is_shrunk, report.erasures) == (True, 1)
        assert not space.gc().is_shrunk
        assert space.verify().ok
    found = {**relation_files(schema), **rows_of(schema)}
    assert [name for name, data in found.items() if MARK.encode() in data] == []
