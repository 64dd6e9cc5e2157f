"""The rows of attempts in a fixed history are those of the golden file, digests by formula."""

import json
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.contract import all_sides
from rote.contract.commands import CreateBranch, MakeCommit
from rote.testing.postgres import database_url
from tests.golden.formulas import digest
from tests.golden.stories import FOLDER, ToldClock, ToldSalts

GOLDEN: dict[str, Any] = json.loads((FOLDER / "attempts-1.json").read_text("utf-8"))
SET = [{"op": "set", "id": "urn:note:a", "value": {"text": "é"}}]
ERASED = [{"op": "set", "id": "urn:note:b", "value": "1234"}]


def tell(url: str) -> list[dict[str, Any]]:
    clock, salts = ToldClock(), ToldSalts(["01" * 16, "02" * 16])
    clock.moment = "2026-05-01T10:00:00.000000+00:00"
    with rote.open(url, clock=clock, ids=salts, key=bytes(range(32))) as store:
        space = store.space("golden")
        store._port.answer(space.did, MakeCommit(SET, attempt="1" * 32))
        store._port.answer(space.did, CreateBranch("topic", attempt="2" * 32))
        store._port.answer(space.did, MakeCommit(ERASED, attempt="3" * 32))
        space.erase("urn:note:b", reason="request 17")
        clock.moment = "2026-05-01T10:00:01.500000+00:00"
        assert space.settle("4" * 32) is None
        rows = all_sides(store._port, space.did, "attempt")
        return [{"key": row.key, "fence": row.fence, "body": row.body} for row in rows]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_rows_of_attempts_are_those_of_the_golden_file(kind: str, tmp_path: Path) -> None:
    url = ":memory:" if kind == "sqlite" else database_url(tmp_path)
    assert tell(url) == GOLDEN["rows"]


def test_the_digests_of_the_golden_file_are_those_of_the_formulas() -> None:
    call = {"name": "create_branch", "branch": "topic", "parent": "main", "fork_version": None}
    assert [row["body"]["digest"] for row in GOLDEN["rows"]] == [
        digest({"kind": "commit_payload/1", "branch": "main", "operations": SET}),
        digest({"kind": "call_payload/1", "call": call}),
        None,
        None,
    ]
