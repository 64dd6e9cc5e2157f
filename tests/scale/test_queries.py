"""Shapes that break code which recurses or holds everything: long chains, wide fans, many cycles."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.opening import open as open_store
from rote.query import filling
from rote.space import Space
from rote.values import depth_of
from rote.values.limits import DEPTH_MAX, MIB
from tests.lanes import examples

LENGTH = examples(3_000, 100_000)
CYCLES = examples(200, 1_000)
EVERYTHING = {"max_depth": 1_000_000, "max_entities": 1_000_000}


@pytest.fixture
def space() -> Iterator[Space]:
    with open_store(":memory:", durability="os") as store:
        yield store.space("shapes")


def id_of(number: int) -> str:
    return f"urn:e:{number:06}"


def link(number: int) -> dict[str, Any]:
    return {"/": {"link@1": {"id": id_of(number)}}}


def write(space: Space, values: dict[int, Any]) -> None:
    space.transact([{"op": "set", "id": id_of(n), "value": value} for n, value in values.items()])


def ask(space: Space, **limits: int) -> dict[str, Any]:
    return space.query({"select": {id_of(0): {"schema": True}}, **limits})


def test_a_chain_is_followed_to_its_end_or_cut(space: Space) -> None:
    write(space, {n: {"next": link(n + 1)} for n in range(LENGTH)})
    whole = ask(space, **EVERYTHING)
    assert list(whole["facts"]) == [id_of(n) for n in range(LENGTH)]
    assert (whole["missing"], whole["truncated"]) == ([id_of(LENGTH)], None)
    cut = ask(space, max_depth=LENGTH // 2, max_entities=1_000_000)
    assert len(cut["facts"]) == LENGTH // 2 + 1
    assert cut["truncated"] == {"reason": "max_depth", "at": id_of(LENGTH // 2 + 1)}


def test_a_fan_is_followed_to_every_end_or_cut_in_little_memory(space: Space) -> None:
    padding = "x" * 300
    write(space, {n: [n, padding] for n in range(1, LENGTH + 1)})
    write(space, {0: [link(n) for n in range(LENGTH, 0, -1)]})
    whole = ask(space, **EVERYTHING)
    assert len(whole["facts"]) == LENGTH + 1
    assert whole["truncated"] is None
    del whole
    some = {"items": {"anyOf": [{"type": "object"}]}}  # none matches, and each has to be looked at
    tracemalloc.start()
    try:
        cut = ask(space, max_entities=100)
        none = space.query({"select": {id_of(0): {"schema": some}}, "max_entities": 100})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(cut["facts"]) == [id_of(n) for n in range(100)]
    assert cut["truncated"] == {"reason": "max_entities", "at": id_of(100)}
    assert list(none["facts"]) == [id_of(0)]
    # The links themselves, and a page of their targets.
    assert peak < 12 * MIB + LENGTH * 2_000


def test_cycles_end(space: Space) -> None:
    everyone = [link(n) for n in range(CYCLES)]
    values: dict[int, Any] = {
        n: [link((n + 1) % CYCLES), link((n - 1) % CYCLES)] for n in range(CYCLES)
    }
    values[0] = everyone
    values[CYCLES - 1] = everyone
    write(space, values)
    whole = ask(space, **EVERYTHING)
    assert list(whole["facts"]) == [id_of(n) for n in range(CYCLES)]
    assert whole["truncated"] is None


def test_schemas_that_grow_along_a_cycle_end(space: Space) -> None:
    """Each link narrows with a schema of its own, so there are more places than entities."""
    values = {
        n: {"a": {"/": {"link@1": {"id": id_of((n + 1) % CYCLES),
                                   "schema": {"properties": {f"p{n}": True, "a": True}}}}}}
        for n in range(CYCLES)
    }  # fmt: skip
    write(space, values)
    result = ask(space, max_depth=3 * CYCLES)
    assert list(result["facts"]) == [id_of(n) for n in range(CYCLES)]


def test_a_path_that_grows_along_a_cycle_ends(space: Space) -> None:
    write(space, {0: {"x": {"/": {"link@1": {"id": id_of(0), "path": ["x", "x"]}}}}})
    result = space.query({"select": {id_of(0): {"path": ["x"], "schema": True}}, **EVERYTHING})
    assert result["truncated"] == {"reason": "max_entities", "at": id_of(0)}


def references(length: int, **beside: Any) -> dict[str, Any]:
    """Return a schema that refers to another, and that to the next; at the end everything is followed."""
    chain: dict[str, Any] = {
        f"d{n}": {**beside, "$ref": f"#/$defs/d{n + 1}"} for n in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{length}": True}}


def test_a_long_chain_of_references_is_followed_or_cut(space: Space) -> None:
    """Each step of a chain was once compared with each other one: minutes for a few kilobytes."""
    write(space, {0: {"a": link(1)}, 1: 1})
    asked = {"select": {id_of(0): {"schema": references(9_000)}}}
    assert list(space.query(asked)["facts"]) == [id_of(0), id_of(1)]
    for schema in (
        references(9_000, type="object"),
        {
            "$ref": "#/$defs/d0",
            "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(4_000)},
        },
    ):
        result = space.query({"select": {id_of(0): {"schema": schema}}})
        assert set(result["facts"]) <= {id_of(0), id_of(1)}


def test_a_large_value_under_a_large_schema_is_cut(space: Space) -> None:
    options = [{"type": "array", "title": str(number)} for number in range(5_000)]
    write(space, {0: [[] for _ in range(5_000)], 2: [link(1) for _ in range(5_000)]})
    for number in (0, 2):
        asked = {"select": {id_of(number): {"schema": {"items": {"anyOf": options}}}}}
        result = space.query(asked)
        assert result["truncated"] == {"reason": "max_entities", "at": id_of(number)}


def test_a_schema_document_of_too_many_schemas_is_refused_and_in_a_link_ignored(
    space: Space,
) -> None:
    many = {"properties": {f"p{number}": {"type": "null"} for number in range(10_001)}}
    with pytest.raises(InvalidInput) as refused:
        space.query({"select": {id_of(0): {"schema": many}}})
    assert refused.value.details["key"] == "schema"
    far = {"/": {"link@1": {"id": id_of(1), "schema": many}}}
    write(space, {0: far, 1: {"other": link(2)}, 2: 2})
    assert list(ask(space)["facts"]) == [id_of(0), id_of(1), id_of(2)]


def test_links_that_all_narrow_end_before_their_schemas_fill_the_memory(space: Space) -> None:
    values = {
        n: {
            "next": {
                "/": {
                    "link@1": {
                        "id": id_of(n + 1),
                        "schema": {
                            "title": str(n),
                            "$ref": "#/$defs/n",
                            "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}},
                        },
                    }
                }
            }
        }
        for n in range(LENGTH)
    }
    write(space, values)
    result = ask(space, **EVERYTHING)
    assert list(result["facts"]) == [id_of(n) for n in range(65)]
    assert result["truncated"] == {"reason": "max_entities", "at": id_of(64)}


def test_defaults_fill_no_memory_and_nest_no_deeper_than_a_value(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "FILLED_NODES_MAX", 10_000)
    write(space, {0: [{} for _ in range(1_000)]})
    items = {"properties": {f"p{number}": {"default": 1} for number in range(1_000)}}
    filled = space.values({"select": {id_of(0): {"schema": {"items": items}}}})
    assert filled["truncated"] == {"reason": "max_entities", "at": id_of(0)}
    assert sum(map(len, filled["values"][id_of(0)])) < 20_000

    deep: Any = 1
    nested: Any = 1
    for _ in range(40):
        deep, nested = {"a": deep}, [nested]
    node = {"properties": {"a": {"$ref": "#/$defs/n"}, "d": {"default": nested}}}
    write(space, {1: deep})
    schema = {"$ref": "#/$defs/n", "$defs": {"n": node}}
    filled = space.values({"select": {id_of(1): {"schema": schema}}})
    assert filled["truncated"] == {"reason": "max_depth", "at": id_of(1)}
    assert depth_of(filled["values"][id_of(1)]) == DEPTH_MAX


def test_a_chain_is_watched_and_let_go(space: Space) -> None:
    write(space, {n: {"next": link(n + 1)} for n in range(LENGTH)})
    query = {"select": {id_of(0): {"schema": True}}, **EVERYTHING}
    watch = space.watch(query, timeout=0)
    assert len(next(watch)["upserts"]) == LENGTH
    write(space, {1: 0})
    frame = next(watch)
    assert [upsert["id"] for upsert in frame["upserts"]] == [id_of(1)]
    assert frame["removes"] == [id_of(n) for n in range(2, LENGTH)]
