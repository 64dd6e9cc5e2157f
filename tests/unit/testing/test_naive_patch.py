"""The slow way of patching against the fast one, on patches that apply and on those that do not."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.errors import PatchFailed
from rote.patch import apply
from rote.testing.naive_patch import DoesNotApply, apply_naively
from rote.testing.strategies import documents, patches, patches_for
from rote.values import canonical
from tests.lanes import examples


@given(value=documents(), ops=patches())
@settings(max_examples=examples(300, 3_000))
def test_both_ways_agree_on_any_patch(value: Any, ops: list[dict[str, Any]]) -> None:
    try:
        expected = apply_naively(value, ops)
    except DoesNotApply:
        with pytest.raises(PatchFailed):
            apply(value, ops)
    else:
        assert canonical(apply(value, ops)) == canonical(expected)


@given(data=st.data(), value=documents())
@settings(max_examples=examples(200, 2_000))
def test_patches_for_a_value_apply_to_it_in_both_ways(data: st.DataObject, value: Any) -> None:
    ops = data.draw(patches_for(value))
    assert canonical(apply(value, ops)) == canonical(apply_naively(value, ops))


def test_the_slow_way_changes_neither_value_nor_operations() -> None:
    value: dict[str, Any] = {"items": [[1]], "n": {}}
    ops: list[dict[str, Any]] = [
        {"op": "add", "path": "/n/x", "value": []},
        {"op": "copy", "from": "/items/0", "path": "/n/x/-"},
        {"op": "splice", "path": "/items", "index": 0, "remove": 1, "add": [{}]},
    ]
    before = copy.deepcopy((value, ops))
    result = apply_naively(value, ops)
    assert result == {"items": [{}], "n": {"x": [[1]]}}
    result["items"][0]["new"] = 1
    assert (value, ops) == before
