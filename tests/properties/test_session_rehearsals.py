"""A client rehearses operations as a commit would apply them."""

from random import Random
from typing import Any

import pytest

import rote
from rote.contract import Rehearsal, View
from rote.contract.commands import Rehearse
from rote.errors import RoteError
from rote.sessions import rehearsal
from rote.sessions.rehearsal import rehearse
from rote.space import Space
from rote.values import canonical
from tests.lanes import examples

IDS = ("urn:a", "urn:b", "urn:c")
NOW = 1_800_000_000_000_000
EXAMPLES = 400


def value(random: Random) -> Any:
    return random.choice([{"l": [1, 2], "n": 1}, {"l": []}, [1, [2]], "text", None, 1.5, {"n": {}}])


def patch(random: Random) -> dict[str, Any]:
    path = random.choice(["/l/0", "/l/-", "/n", "/n/x", "/0", "", "/1/0", "/at"])
    kind = random.choice(["add", "replace", "remove", "test", "splice", "move", "copy"])
    if kind == "splice":
        return {"op": kind, "path": "/l", "index": random.randint(0, 3), "remove": 1, "add": [7]}
    if kind in ("move", "copy"):
        return {"op": kind, "from": path, "path": random.choice(["/l/0", "/m"])}
    return {"op": kind, "path": path, **({} if kind == "remove" else {"value": value(random)})}


def operation(random: Random) -> dict[str, Any]:
    id = random.choice(IDS)
    kind = random.random()
    stamp: dict[str, Any] = {"stamp": ["/at"]} if random.random() < 0.3 else {}
    if kind < 0.3:
        return {"op": "set", "id": id, "value": value(random), **stamp}
    if kind < 0.45:
        return {"op": "delete", "id": id}
    ops = [patch(random) for _ in range(random.randint(0, 3))]
    made: dict[str, Any] = {"op": "patch", "id": id, "ops": ops, **stamp}
    if random.random() < 0.4:
        made["else"] = value(random)
        if random.random() < 0.3:
            made["else_stamp"] = ["/made"]
    return made


def outcome(rehearsed: Any) -> Any:
    try:
        made: tuple[Rehearsal, ...] = rehearsed()
    except RoteError as error:
        return error.code, error.details
    return [
        (each.op, each.parent, each.after.id, canonical(each.after.value), each.after.exists)
        for each in made
    ]


def compare(space: Space, seed: int) -> bool:
    """Compare both on random operations; return whether they apply."""
    random = Random(seed)
    operations = [operation(random) for _ in range(random.randint(1, 3))]
    states = {state.id: state for state in space.read_many(IDS)}
    command = Rehearse(operations, {}, NOW, View())
    expected = outcome(lambda: space._port.answer(space.did, command))
    assert outcome(lambda: rehearse(operations, states, NOW)) == expected, operations
    return type(expected) is list


def run() -> list[bool]:
    with rote.open(":memory:") as store:
        space = store.space("s")
        space.set(IDS[0], {"l": [1, 2], "n": 1})
        space.set(IDS[1], [1, [2]])
        space.delete(IDS[1])
        return [compare(space, seed) for seed in range(examples(EXAMPLES, 50_000))]


def test_a_rehearsal_says_what_a_commit_would_do() -> None:
    applied = run()
    assert EXAMPLES // 8 < sum(applied[:EXAMPLES]) < EXAMPLES


def test_a_stamp_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_stamped", lambda document, pointers, now: document)
    with pytest.raises(AssertionError):
        run()
