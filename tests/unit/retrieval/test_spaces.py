"""Records of a space, written as lines of a file."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rote
from rote.bridges import write_export
from rote.questions import NormalTimes
from rote.records.memory import Memory
from rote.retrieval import memory_line
from rote.retrieval.spaces import memory_of
from rote.testing.retrieval_histories import renamed
from rote.values import parse_time

AFTER = {"valid_at_after": "2025-12-31T23:00:00Z"}
SMALL = ["2026-01-01t00:00:00z", "2026-01-01T00:00:00z", "2026-01-01t01:00:00.0000009+01:00"]
USUAL = [
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "2026-01-01 00:00:00Z",
    "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.5Z",
]  # fmt: skip


def record_of(valid_at: str) -> Any:
    return {
        "namespace": "ops", "record_kind": "k", "record_id": "1", "payload": {"text": "keys"},
        "metadata": {"valid_at": valid_at}, "updated_at": "2026-06-01T00:00:00.000000Z",
    }  # fmt: skip


def request_for(path: str) -> dict[str, Any]:
    return {
        "query": "keys", "store_paths": [path], "budget": {"max_excerpt_tokens": 50},
        "scoring": {"enable_recency_weight": True}, "now_utc": "2026-01-01T00:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize("written", SMALL)
def test_a_time_in_small_letters_is_one_wherever_it_is_asked_for(
    tmp_path: Path, written: str
) -> None:
    """Lists found the record by its time, but retrieval treated it as one without any."""
    with rote.open(":memory:") as store:
        memory = Memory(store.space("notes"))
        memory.put("ops", "k", "1", {"text": "keys"}, None, {"valid_at": written})
        assert len(memory.list("ops", filters=AFTER)["items"]) == 1
        package, [reasons] = rote.retrieval.explain(request_for("rote:notes"), store=store)
        assert reasons.recency == 1
        with (tmp_path / "s.jsonl").open("wb") as file:
            write_export(memory, file, format="retrieval")
        exported = rote.retrieve(request_for("s.jsonl"), root=tmp_path)
        assert dict(package) == renamed(dict(exported), "rote:notes", was="s.jsonl")


@pytest.mark.parametrize("written", SMALL)
def test_a_time_in_small_letters_is_written_as_we_write_times(written: str) -> None:
    assert memory_of(record_of(written)).ts_utc == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("written", [*USUAL, "tuesday", "z", "2026-13-01t00:00:00z"])
def test_any_other_text_stays_as_it_is(written: str) -> None:
    """Exported lines are kept and compared, also those with times that nobody checked."""
    assert memory_of(record_of(written)).ts_utc == written
    assert f'"ts_utc":"{written}"'.encode() in memory_line(record_of(written))


@given(
    moment=st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1)),
    between=st.sampled_from("Tt "),
    zone=st.sampled_from(["Z", "z", "+00:00", "-00:00", "+05:30", "-23:59"]),
)
def test_every_time_that_a_record_may_have_is_read_as_its_instant(
    moment: datetime, between: str, zone: str
) -> None:
    written = moment.isoformat(between) + zone
    instant, _ = NormalTimes()[memory_of(record_of(written)).ts_utc]
    assert instant == parse_time(written)
