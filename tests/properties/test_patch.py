"""Patches: Rote's apply agrees with the reference, replay is repeated apply, diff undoes itself."""

import copy
from itertools import pairwise
from typing import Any

import jsonpatch
import jsonpointer
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.errors import PatchFailed
from rote.patch import (
    apply,
    diff,
    format_pointer,
    normalize,
    overlaps,
    parse_pointer,
    replay,
    written_paths,
)
from rote.patch.diff import twin
from rote.values import canonical
from tests.draws import Draws, check_drawn, places
from tests.lanes import examples

KEYS = st.sampled_from(["a", "b", "0", "1", "-", "", "~", "/", "a/b"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.5, 1.0, "x", ""])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=10,
)
DOCUMENTS = st.one_of(st.lists(VALUES, max_size=4), st.dictionaries(KEYS, VALUES, max_size=4))


@st.composite
def operations(draw: st.DrawFn, value: Any, *, splice: bool = True) -> dict[str, Any]:
    names = ["add", "remove", "replace", "move", "copy", "test"] + (["splice"] if splice else [])
    name = draw(st.sampled_from(names))
    paths = st.sampled_from([format_pointer(path) for path in places(value)])
    operation: dict[str, Any] = {"op": name, "path": draw(paths)}
    if name in ("add", "replace", "test"):
        operation["value"] = draw(VALUES)
    elif name in ("move", "copy"):
        operation["from"] = draw(paths)
    elif name == "splice":
        operation["index"] = draw(st.integers(0, 4))
        operation["remove"] = draw(st.integers(0, 3))
        operation["add"] = draw(st.lists(VALUES, max_size=3))
    return operation


@st.composite
def patches(draw: st.DrawFn, count: int = 6, *, splice: bool = True) -> tuple[Any, list[Any]]:
    """Draw a document and operations of which most apply, each drawn for the value it meets."""
    document = value = draw(DOCUMENTS)
    chosen: list[Any] = []
    for _ in range(draw(st.integers(0, count))):
        operation = draw(operations(value, splice=splice))
        try:
            value = apply(value, [operation])
        except PatchFailed:
            # A patch ends at its first failure, so failing ones are kept only now and then.
            if draw(st.integers(0, 9)):
                continue
        chosen.append(operation)
    return document, chosen


def outcome(call: Any, *arguments: Any) -> Any:
    try:
        return canonical(call(*arguments))
    except PatchFailed as error:
        return error.details


def differs_by_design(operation: dict[str, Any]) -> bool:
    """Whether the jsonpatch package is laxer here than RFC 6902 or than our contract.

    Its `test` finds True equal to 1; it lets `-` name an element in `remove` and `replace`, removes
    the whole document, and does not refuse every move into an own child.
    """
    name, path = operation["op"], operation["path"]
    if name == "test" or (name != "add" and path.endswith("/-")):
        return True
    if name == "move":
        source = parse_pointer(operation["from"])
        return parse_pointer(path)[: len(source)] == source or operation["from"].endswith("/-")
    return bool(name == "remove" and path == "")


@settings(max_examples=examples(200, 3_000))
@given(patches(count=4, splice=False))
def test_apply_agrees_with_the_jsonpatch_package(case: tuple[Any, list[Any]]) -> None:
    check_apply(*case)


def test_apply_agrees_with_the_jsonpatch_package_very_often() -> None:
    names = ("add", "remove", "replace", "move", "copy")
    count, compared = examples(2_000, 100_000), 0

    def check(case: tuple[Any, list[Any]]) -> None:
        nonlocal compared
        compared += check_apply(*case)

    check_drawn(count, lambda draws: draws.patch(names, 4), check)
    assert compared > count


def check_apply(value: Any, chosen: list[Any]) -> int:
    """Return the number of operations that were compared."""
    compared = 0
    for operation in chosen:
        if differs_by_design(operation):
            return compared
        try:
            expected = canonical(jsonpatch.apply_patch(copy.deepcopy(value), [operation]))
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
            expected = None
        try:
            value = apply(value, [operation])
        except PatchFailed:
            assert expected is None
            return compared + 1
        assert canonical(value) == expected
        compared += 1
    return compared


@settings(max_examples=examples(200, 2_000))
@given(patches(count=8))
def test_a_patch_is_its_operations_one_by_one(case: tuple[Any, list[Any]]) -> None:
    document, chosen = case
    before = copy.deepcopy(case)

    def one_by_one() -> Any:
        value = document
        for index, operation in enumerate(chosen):
            try:
                # A deep copy of each step shows that sharing inside `apply` changes no answer.
                value = copy.deepcopy(apply(value, [copy.deepcopy(operation)]))
            except PatchFailed as error:
                raise PatchFailed(
                    error.details["reason"], index=index, pointer=error.details["pointer"]
                ) from None
        return value

    assert outcome(apply, document, chosen) == outcome(one_by_one)
    assert case == before


@settings(max_examples=examples(200, 2_000))
@given(patches(count=8), st.data())
def test_replay_is_repeated_apply_and_mutates_nothing(
    case: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    document, chosen = case
    cuts = sorted(data.draw(st.lists(st.integers(0, len(chosen)), max_size=3)))
    edges = [0, *cuts, len(chosen)]
    lists = [normalize(chosen[start:end]) for start, end in pairwise(edges)]
    # The same list again: its values are then in two places.
    lists += data.draw(st.lists(st.sampled_from(lists), max_size=2))
    before = copy.deepcopy((document, lists))

    def repeated() -> Any:
        value = document
        for operations_of_one in lists:
            value = copy.deepcopy(apply(value, copy.deepcopy(operations_of_one)))
        return value

    assert outcome(replay, document, lists) == outcome(repeated)
    assert (document, lists) == before


@settings(max_examples=examples(200, 2_000))
@given(VALUES, VALUES)
def test_a_difference_turns_one_value_into_the_other(before: Any, after: Any) -> None:
    kept = copy.deepcopy((before, after))
    operations_found = diff(before, after)
    assert canonical(apply(before, operations_found)) == canonical(after)
    assert normalize(operations_found) == operations_found
    assert (operations_found == []) == (canonical(before) == canonical(after))
    assert (before, after) == kept


@settings(max_examples=examples(200, 2_000))
@given(patches(count=4))
def test_a_difference_of_a_small_change_holds_too(case: tuple[Any, list[Any]]) -> None:
    document, chosen = case
    value = document
    for operation in chosen:
        try:
            value = apply(value, [operation])
        except PatchFailed:
            break
    found = diff(document, value)
    assert canonical(apply(document, found)) == canonical(value)
    assert found == diff(copy.deepcopy(document), copy.deepcopy(value))


def test_a_difference_of_large_arrays_turns_one_into_the_other() -> None:
    def draw(draws: Draws) -> tuple[Any, Any]:
        before = draws.small_array(120)
        return {"rows": before}, {"rows": draws.edited(before, draws.number(40))}

    def check(case: tuple[Any, Any]) -> None:
        before, after = case
        kept = copy.deepcopy(case)
        found = diff(before, after)
        assert canonical(apply(before, found)) == canonical(after)
        assert normalize(found) == found == diff(*copy.deepcopy(case))
        assert case == kept

    check_drawn(examples(300, 10_000), draw, check)


@given(st.lists(st.sampled_from([0, 1, True, False, 0.0, -0.0, 1.0, None, "true"]), max_size=6))
def test_booleans_and_numbers_are_different_and_numbers_of_one_value_are_not(
    after: list[Any],
) -> None:
    """In Python True is 1; a difference must not take one for the other."""
    for before in ([1, 0, 1], [True, False], [[True]], [1.0, 0.0, True]):
        assert canonical(apply(before, diff(before, after))) == canonical(after)
        assert (diff(before, after) == []) == (canonical(before) == canonical(after))
        assert canonical(apply([before], diff([before], [after]))) == canonical([after])


@settings(max_examples=examples(200, 2_000))
@given(VALUES, VALUES)
def test_twins_are_equal_exactly_when_the_canonical_bytes_are(one: Any, other: Any) -> None:
    same = canonical(one) == canonical(other)
    assert (twin(canonical(one)) == twin(canonical(other))) == same


def at(value: Any, path: tuple[str, ...]) -> bytes | None:
    """Return the canonical bytes at a path, None when there is nothing."""
    try:
        return canonical(
            apply({"": value}, [{"op": "move", "from": format_pointer(("", *path)), "path": ""}])
        )
    except PatchFailed:
        return None


@settings(max_examples=examples(200, 2_000))
@given(patches(count=3))
def test_a_read_that_no_operation_overlaps_still_holds(case: tuple[Any, list[Any]]) -> None:
    document, chosen = case
    try:
        after = apply(document, chosen)
    except PatchFailed:
        return
    normal = normalize(chosen)
    for path in places(document):
        if not overlaps(normal, path):
            assert at(document, path) == at(after, path)
        for written in written_paths(normal):
            if written == path:
                assert overlaps(normal, path)


@settings(max_examples=examples(300, 3_000))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_pointers_and_tokens_are_inverse(tokens: list[str]) -> None:
    assert parse_pointer(format_pointer(tokens)) == tuple(tokens)
