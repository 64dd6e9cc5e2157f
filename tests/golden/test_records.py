"""Records that were once stored or exported are read, and written, in the same way for ever."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.bridges import import_records, validate, write_export
from rote.bridges.daily_logs import parse_log, render_log
from rote.bridges.pages import parse_page
from rote.records.envelope import read_record
from rote.records.keys import NAMESPACES
from rote.testing.clocks import FixedClock
from rote.values import canonical, decode, parse_time

HERE = Path(__file__).parent
CARRIED = HERE / "daily-log-1-carried.md"


def read(name: str) -> list[Any]:
    data = (HERE / name).read_bytes()
    if name.endswith(".json"):
        values: Any = decode(data)
        return list(values)
    return [decode(line) for line in data.splitlines()]


def empty(store: rote.Store, name: str) -> rote.Memory:
    return rote.Memory(store.space(name))


def exported(memory: rote.Memory) -> bytes:
    stream = BytesIO()
    write_export(memory, stream)
    return stream.getvalue()


@pytest.fixture
def store() -> Iterator[rote.Store]:
    with rote.open(":memory:", clock=FixedClock()) as opened:  # before anything expires
        yield opened


def test_an_entity_is_its_record_and_a_record_its_entity(store: rote.Store) -> None:
    golden = read("records-1.jsonl")
    lines = b"".join(canonical(entity["value"]) + b"\n" for entity in golden)
    memory = empty(store, "x")
    assert import_records(memory, BytesIO(lines)).written == len(golden)
    for entity in golden:
        id, value = entity["id"], entity["value"]
        assert read_record(id, value) is not None
        key = value["namespace"], value["record_kind"], value["record_id"]
        assert rote.Memory.entity_id(*key) == id
        assert memory.space.get(id) == value
        assert memory.get(*key) == {"found": True, "record": value}
    assert exported(memory) == lines


@pytest.mark.parametrize(
    "more",
    [{"flags": []}, {"flags": None}, {"provenance": "me"}, {"other": {}}, {"payload": []}],
)
def test_other_members_make_no_record(more: dict[str, Any]) -> None:
    for entity in read("records-1.jsonl"):
        assert read_record(entity["id"], {**entity["value"], **more}) is None


def test_a_daily_log_keeps_what_it_carries() -> None:
    data = CARRIED.read_bytes()
    record = parse_log(parse_page("2026-03-21.md", data))
    assert render_log(record).encode() == data
    assert record["flags"] == {"curated": True}
    assert record["provenance"]["note"] == "two\u2028lines"
    assert validate(record, namespaces=NAMESPACES) == []


@pytest.mark.parametrize("name", ["ainl-export-1.json", "ainl-export-1.jsonl"])
def test_an_export_of_ainl_comes_in_goes_out_and_comes_in_without_a_difference(
    store: rote.Store, name: str
) -> None:
    first, second = empty(store, "first"), empty(store, "second")
    data = (HERE / name).read_bytes()
    given = read(name)
    report = import_records(first, BytesIO(data))
    assert (report.counts.new, report.counts.expired, report.commits) == (6, 0, 1)
    sent = exported(first)
    assert import_records(second, BytesIO(sent)).counts.new == 6
    assert exported(second) == sent
    assert import_records(second, BytesIO(data)).written == 0
    assert import_records(first, BytesIO(sent)).written == 0

    def key(record: dict[str, Any]) -> tuple[str, str, str]:
        return record["namespace"], record["record_kind"], record["record_id"]

    out: list[Any] = [decode(line) for line in sent.splitlines()]
    found = {key(record): record for record in out}
    assert found.keys() == {key(record) for record in given}
    for record in given:
        kept = found[key(record)]
        for member in ("payload", "ttl_seconds", "provenance", "flags"):
            assert kept[member] == record[member]
        for member in ("created_at", "updated_at"):
            assert parse_time(kept[member]) == parse_time(record[member])
        assert kept["metadata"] == record.get("metadata", kept["metadata"])
    session = found["session", "session.context", "s-7"]["metadata"]
    assert (session["tags"], session["access_count"]) == (["tea"], 3)
    assert found["workflow", "workflow.checkpoint", "cp-42"]["metadata"]["confidence"] == 0.95
