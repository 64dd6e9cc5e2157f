"""Hypothesis strategies for the input of a store: values, ids, patches, operations.

Values are small and alike on purpose: patches should meet members that exist, and writes should
meet each other. The tests of `values` draw from wide ranges. Strategies without arguments of their
own are built once: building one costs more than drawing from it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rote.testing.naive_patch import DoesNotApply, apply_naively
from rote.values import Json
from rote.values.limits import INTEGER_MAX, INTEGER_MIN

NAMES = ("a", "b", "items", "0", "-", "", "m~n", "s/t")

Operation = dict[str, Any]
_Place = tuple[tuple[str, ...], Json]


@cache
def scalars() -> SearchStrategy[Json]:
    """Return a strategy for values that hold no other."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(INTEGER_MIN, INTEGER_MAX),
        st.integers(-3, 3),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    )


@cache
def json_values(*, leaves_max: int = 8) -> SearchStrategy[Json]:
    """Return a strategy for all values of the value domain."""
    return st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names(), inner, max_size=4),
        max_leaves=leaves_max,
    )


@cache
def documents() -> SearchStrategy[Json]:
    """Return a strategy for objects with an array in them, small or large enough to be stored differently."""
    return st.fixed_dictionaries(
        {"items": st.lists(json_values(leaves_max=3), max_size=4)},
        optional={
            "a": json_values(leaves_max=4),
            "b": json_values(leaves_max=4),
            "pad": st.sampled_from([500, 1_100, 2_500, 6_000]).map(lambda size: "x" * size),
        },
    )


@cache
def entity_ids() -> SearchStrategy[str]:
    """Return a strategy for absolute URIs, in any script."""
    allowed = st.characters(
        exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="*"
    )
    return st.builds(
        "{}:{}".format,
        st.sampled_from(["urn", "a", "x-y.z+1"]),
        st.text(allowed, min_size=1, max_size=12),
    )


@cache
def pointers() -> SearchStrategy[str]:
    """Return a strategy for JSON pointers that may or may not lead somewhere."""
    return st.lists(_names() | st.sampled_from(["0", "1", "2", "-"]), max_size=3).map(format_tokens)


@cache
def patches(*, size_max: int = 3) -> SearchStrategy[list[Operation]]:
    """Return a strategy for well formed patches that may or may not apply."""
    path, value = pointers(), json_values(leaves_max=3)
    counts = st.integers(0, 3)
    return st.lists(
        st.one_of(
            st.fixed_dictionaries(
                {"op": st.sampled_from(["add", "replace", "test"]), "path": path, "value": value}
            ),
            st.fixed_dictionaries({"op": st.just("remove"), "path": path}),
            st.fixed_dictionaries(
                {"op": st.sampled_from(["move", "copy"]), "from": path, "path": path}
            ),
            st.fixed_dictionaries(
                {
                    "op": st.just("splice"),
                    "path": path,
                    "index": counts,
                    "remove": counts,
                    "add": st.lists(value, max_size=2),
                }
            ),
        ),
        max_size=size_max,
    )


def pointers_into(value: Json) -> SearchStrategy[str]:
    """Return a strategy for JSON pointers to values in `value`, itself included."""
    return st.sampled_from([format_tokens(path) for path, _ in _places(value)])


@st.composite
def patches_for(
    draw: st.DrawFn, value: Json, *, size_max: int = 3, size_min: int = 1
) -> list[Operation]:
    """Draw patches that apply to `value`."""
    operations: list[Operation] = []
    for _ in range(draw(st.integers(size_min, size_max))):
        operation = _draw_operation(draw, _places(value))
        try:
            value = apply_naively(value, [operation])
        except DoesNotApply:
            # A test of the whole value always applies.
            operation = {"op": "test", "path": "", "value": value}
        operations.append(operation)
    return operations


def _draw_operation(draw: st.DrawFn, places: list[_Place]) -> Operation:
    """Draw an operation that is likely to apply to a value with these places."""
    name = draw(_operation_names())
    containers = [place for place in places if isinstance(place[1], dict | list)]
    arrays = [place for place in places if isinstance(place[1], list)]
    path = format_tokens(draw(st.sampled_from(places))[0])
    if name == "splice" and arrays:
        array = draw(st.sampled_from(arrays))
        return {"op": name, "path": format_tokens(array[0]), **draw(_splices())}
    if name in ("add", "move", "copy") and containers:
        target, container = draw(st.sampled_from(containers))
        last = draw(_indexes() if isinstance(container, list) else _names())
        target_path = format_tokens((*target, last))
        if name == "add":
            return {"op": name, "path": target_path, "value": draw(json_values(leaves_max=3))}
        return {"op": name, "from": path, "path": target_path}
    if name == "remove":
        return {"op": name, "path": path}
    return {"op": "replace", "path": path, "value": draw(json_values(leaves_max=3))}


@cache
def _operation_names() -> SearchStrategy[str]:
    return st.sampled_from(["add", "replace", "remove", "move", "copy", "splice"])


@cache
def _indexes() -> SearchStrategy[str]:
    return st.sampled_from(["0", "1", "-"])


@cache
def _splices() -> SearchStrategy[Operation]:
    return st.fixed_dictionaries(
        {
            "index": st.integers(0, 1),
            "remove": st.integers(0, 2),
            "add": st.lists(json_values(leaves_max=3), max_size=2),
        }
    )


@cache
def operations(
    ids: tuple[str, ...] | SearchStrategy[str], *, size_max: int = 4
) -> SearchStrategy[list[Operation]]:
    """Return a strategy for the operations of a commit; patches and deletes may meet nothing, and
    patches may not apply."""
    id = ids if isinstance(ids, SearchStrategy) else st.sampled_from(ids)
    stamp = {"stamp": st.sampled_from([[], [], ["/at"], ["/items/0", "/at"]])}
    put = st.fixed_dictionaries(
        {"op": st.just("set"), "id": id, "value": documents() | json_values()}
    )
    stamped = st.fixed_dictionaries(
        {"op": st.just("set"), "id": id, "value": documents()}, optional=stamp
    )
    change = st.fixed_dictionaries(
        {"op": st.just("patch"), "id": id, "ops": patches()},
        optional={"else": documents(), **stamp},
    )
    change_or_make = st.fixed_dictionaries(
        {"op": st.just("patch"), "id": id, "ops": patches(), "else": documents()},
        optional={**stamp, "else_stamp": st.sampled_from([[], ["/made"]])},
    )
    remove = st.fixed_dictionaries({"op": st.just("delete"), "id": id})
    # Sets come first and often: without them there is nothing to patch or delete.
    kinds = st.one_of(put, stamped, put, change, change_or_make, remove)
    return st.lists(kinds, min_size=1, max_size=size_max)


def format_tokens(tokens: Sequence[str]) -> str:
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


@cache
def _names() -> SearchStrategy[str]:
    return st.sampled_from(NAMES)


def _places(value: Json) -> list[_Place]:
    """Return every value inside a value, itself included, with its path."""
    found: list[_Place] = []
    waiting: list[_Place] = [((), value)]
    while waiting:
        path, node = waiting.pop()
        found.append((path, node))
        if isinstance(node, dict):
            waiting += [((*path, name), member) for name, member in node.items()]
        elif isinstance(node, list):
            waiting += [((*path, str(index)), item) for index, item in enumerate(node)]
    return sorted(found, key=lambda place: place[0])
