"""Strategies draw what they promise: values of the domain, ids that are accepted, operations that parse."""

from typing import Any

from hypothesis import given, settings

import rote
from rote.contract.operations import parse_operations
from rote.patch import normalize, parse_pointer
from rote.testing.strategies import (
    documents,
    entity_ids,
    json_values,
    operations,
    patches,
    pointers,
)
from rote.values import check_entity_id
from tests.lanes import examples

SOME = settings(max_examples=examples(100, 1_000))


@given(value=json_values())
@SOME
def test_json_values_have_a_canonical_form(value: Any) -> None:
    rote.canonical(value)


@given(value=documents())
@SOME
def test_documents_hold_an_array(value: Any) -> None:
    rote.canonical(value)
    assert isinstance(value["items"], list)


@given(id=entity_ids())
@SOME
def test_entity_ids_are_taken(id: str) -> None:
    check_entity_id(id)


@given(pointer=pointers())
@SOME
def test_pointers_are_well_formed(pointer: str) -> None:
    parse_pointer(pointer)


@given(ops=patches())
@SOME
def test_patches_are_well_formed(ops: list[dict[str, Any]]) -> None:
    assert len(normalize(ops)) == len(ops)


@given(sent=operations(entity_ids()))
@SOME
def test_operations_are_well_formed(sent: list[dict[str, Any]]) -> None:
    assert len(parse_operations(sent)) == len(sent)
