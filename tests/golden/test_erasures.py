"""The logs of fixed histories with erasures: formulas, golden files and stores agree.

To add a file for another history: add it to CALLS and run `python -m tests.golden.test_erasures NAME`.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.contract.commands import CopyOut
from rote.testing.postgres import database_url
from tests.golden.formulas import did_of, digest
from tests.golden.stories import FOLDER, ToldClock, ToldSalts

SEED = bytes(range(32))
A, B = "urn:note:a", "urn:note:b"
SALTS = [f"{number:032x}" for number in range(1, 4)]
ONE, SEVERAL = "erasures-1.json", "erasures-2.json"

# Branch, method, arguments.
CALLS_OF_ONE: list[tuple[str, str, dict[str, Any]]] = [
    ("main", "set", {"id": A, "value": {"text": "é"}, "key": "first"}),
    ("main", "set", {"id": B, "value": 2}),
    ("main", "create_branch", {"name": "topic"}),
    ("topic", "patch", {"id": A, "ops": [{"op": "add", "path": "/n", "value": 1}]}),
    ("main", "delete", {"id": A}),
    ("main", "erase", {"ids": A, "reason": "request 17", "key": "erase-1"}),
    ("topic", "set", {"id": A, "value": "new"}),
    ("main", "set", {"id": A, "value": "also new"}),
]
CALLS_OF_SEVERAL: list[tuple[str, str, dict[str, Any]]] = [
    ("main", "set", {"id": B, "value": {"text": "é"}, "key": "first"}),
    ("main", "create_branch", {"name": "topic"}),
    ("topic", "set", {"id": A, "value": 2}),
    ("main", "erase", {"ids": [B, A], "reason": "request 17", "key": "erase-1"}),
    ("main", "set", {"id": B, "value": "new"}),
    ("main", "erase", {"ids": {"prefix": "urn:note:"}, "reason": "request 18"}),
]
CALLS = {ONE: CALLS_OF_ONE, SEVERAL: CALLS_OF_SEVERAL}
# The bodies that were erased, by version.
ERASED: dict[int, bytes | None] = {
    1: '{"text":"é"}'.encode(),
    4: b'[{"op":"add","path":"/n","value":1}]',
    5: None,
}
ERASED_BY = 6


def tell(url: str, name: str) -> rote.Store:
    clock, salts = ToldClock(), ToldSalts(SALTS)
    store = rote.open(url, clock=clock, ids=salts, key=SEED, author="Ada")
    space = store.space("golden")
    for number, (branch, method, arguments) in enumerate(CALLS[name]):
        clock.moment = f"2026-05-01T10:00:{number:02d}.000000+00:00"
        getattr(space.on(branch), method)(**arguments)
    assert salts.left == 0
    return store


def told(store: rote.Store) -> dict[str, Any]:
    space = store.space("golden")
    page = store._port.answer(space.did, CopyOut(since=0, until=space.version))
    return {
        "commits": [commit.to_dict() for commit in page.commits],
        "remains": [
            {"body": kept.body, "value": kept.value, "version": kept.version}
            for kept in page.remains
        ],
        "keys": [{"key": row.key, "body": row.body} for row in page.keys],
    }


def load(name: str) -> dict[str, Any]:
    golden: dict[str, Any] = json.loads((FOLDER / name).read_text("utf-8"))
    return golden


def test_the_formulas_give_every_hash_of_an_erased_fact() -> None:
    golden = load(ONE)
    facts = [fact for commit in golden["commits"] for fact in commit["facts"]]
    erased = [fact for fact in facts if fact["erased"]]
    assert [fact["version"] for fact in erased] == list(ERASED)
    for fact, remains in zip(erased, golden["remains"], strict=True):
        body, salt = ERASED[fact["version"]], bytes.fromhex(SALTS[0])
        salted = None if body is None else sha256(salt + body).hexdigest()
        assert (remains["version"], remains["body"]) == (ERASED_BY, salted)
        hashed = {"kind": "fact/1", "id": A, "op": fact["op"], "parent": fact["parent"]}
        assert fact["hash"] == digest({**hashed, "body": salted})
        assert (fact["salt"], fact["body"]) == (None, None)
    # The snapshot of the patch, which was small.
    value = sha256(bytes.fromhex(SALTS[0]) + '{"n":1,"text":"é"}'.encode()).hexdigest()
    of_delete = sha256(bytes.fromhex(SALTS[0])).hexdigest()
    assert [kept["value"] for kept in golden["remains"]] == [None, value, of_delete]


@pytest.mark.parametrize("name", CALLS)
def test_the_formulas_give_every_hash_of_a_commit(name: str) -> None:
    for commit in load(name)["commits"]:
        hashed = {name: commit[name] for name in commit if name not in ("hash", "facts", "meta")}
        hashes = [fact["hash"] for fact in commit["facts"]]
        more = {"kind": "commit/1", "space": did_of(SEED), "facts": hashes, "meta": None}
        assert commit["hash"] == digest({**hashed, **more})


def test_the_key_of_what_was_erased_stands_for_nothing() -> None:
    first, _ = load(ONE)["keys"]
    assert first == {"key": "first", "body": {"payload": None, "version": 1}}


def test_the_event_names_one_entity_by_id_and_several_by_ids() -> None:
    events = [commit["event"] for commit in load(SEVERAL)["commits"] if commit["event"]]
    assert events[1:] == [
        {"type": "erase", "ids": [A, B], "reason": "request 17"},
        {"type": "erase", "id": B, "reason": "request 18"},
    ]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_store_reproduces_the_golden_file(engine: str, name: str, tmp_path: Path) -> None:
    url = database_url(tmp_path) if engine == "postgres" else str(tmp_path / "memory.db")
    with tell(url, name) as store, rote.open(str(tmp_path / "copy.db")) as target:
        assert told(store) == load(name)
        assert store.space("golden").verify().erased == len(ERASED)
        assert store.copy("golden", target).ok
        assert told(target) == load(name)


if __name__ == "__main__":
    path = FOLDER / sys.argv[1]
    assert not path.exists(), "golden files are added, never edited"
    with tell(":memory:", sys.argv[1]) as telling:
        golden = told(telling)
    path.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
