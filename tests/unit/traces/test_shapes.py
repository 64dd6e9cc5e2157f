"""Output shapes: the golden vectors, and the parts that a form leaves out."""

from collections.abc import Iterator
from typing import Any

import pytest

from rote.errors import InvalidInput, InvalidValue
from rote.traces import output_shape_hash, register_shape, shapes, structural_form

# SHA-256 of the canonical bytes, made with sha256sum. Frozen.
GOLDEN: list[tuple[dict[str, Any], str]] = [
    (
        {"type": "text", "sections": ["intro", "body", "conclusion"]},
        "0406a740426b3e3f6dd5c35fa96dab2a51bf0faa4a548b4104f1bbe9ccefd5c1",
    ),
    (
        {
            "type": "plan",
            "steps": [{"id": 1, "action": "analyze"}, {"id": 2, "action": "generate"}],
        },
        "0875ccdf0d11fca3c0ce58164d7332456fd03bbeb3e3ef1d9ebf20328610a491",
    ),
    (
        {"type": "code_patch", "files": [{"path": "foo.py", "changes": []}]},
        "d3537c7d26340666cf4eda5b08b3ea77657b5adf1d52d0efeda64f730c384b4e",
    ),
    ({"type": "none"}, "ff0f08b1aa6194023a4e4fadb848e1a977cb9f23c42b5d9cda8ea2552d9d1f73"),
    ({"type": "error"}, "6320ac68bd22b44fdcc4619eb1bb6166e15ab5fc8e78dbf2401aeda8f9e49a1d"),
    (
        {"type": "error", "error": "ValueError"},
        "ae08506a131f6fc8bcabe0f56dbf5d327e66f1cfe8b8b993f09089ed373d5fd8",
    ),
]


@pytest.fixture
def _own_shapes() -> Iterator[None]:
    """Remove the shapes that a test registers after it."""
    before = dict(shapes._registered)
    yield
    shapes._registered.clear()
    shapes._registered.update(before)


@pytest.mark.parametrize(("output", "expected"), GOLDEN, ids=["-".join(out) for out, _ in GOLDEN])
def test_a_golden_shape_has_its_hash(output: dict[str, Any], expected: str) -> None:
    assert structural_form(output) == output
    assert output_shape_hash(output) == expected


def test_words_are_left_out_of_a_form() -> None:
    plan = {
        "type": "plan",
        "title": "Today",
        "steps": ({"id": 1, "action": "analyze", "why": "because"},),
    }
    assert structural_form(plan) == {"type": "plan", "steps": [{"id": 1, "action": "analyze"}]}
    text = {"type": "text", "sections": ["a"], "text": "A long text."}
    assert structural_form(text) == {"type": "text", "sections": ["a"]}
    patch = {"type": "code_patch", "files": [{"path": "a", "changes": [{"line": 1}], "x": 1}]}
    assert structural_form(patch)["files"] == [{"path": "a", "changes": [{"line": 1}]}]
    assert structural_form({"type": "error", "message": "no"}) == {"type": "error"}
    # The name of a class counts; what a program may have kept under the same name never did.
    assert structural_form({"type": "error", "error": {"code": 5}}) == {"type": "error"}


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "a text",
        {},
        {"type": None},
        {"type": "unknown"},
        {"type": "text"},
        {"type": "text", "sections": "intro"},
        {"type": "text", "sections": [1]},
        {"type": "plan", "steps": [{"id": 1}]},
        {"type": "plan", "steps": ["analyze"]},
        {"type": "code_patch", "files": [{"path": "a"}]},
    ],
    ids=str,
)
def test_what_has_no_form_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        output_shape_hash(wrong)


def test_an_output_that_is_no_value_is_refused_also_where_its_form_leaves_it_out() -> None:
    with pytest.raises(InvalidValue):
        output_shape_hash({"type": "none", "extra": float("nan")})


@pytest.mark.usefixtures("_own_shapes")
def test_another_type_of_output_can_be_registered_once() -> None:
    def table(output: dict[str, Any]) -> dict[str, Any]:
        return {"columns": sorted(output["columns"])}

    register_shape("table", table)
    register_shape("table", table)
    assert structural_form({"type": "table", "columns": ["b", "a"], "rows": []}) == {
        "type": "table",
        "columns": ["a", "b"],
    }
    with pytest.raises(InvalidInput, match="already"):
        register_shape("table", lambda output: {})
    with pytest.raises(InvalidInput, match="already"):
        register_shape("text", table)
    register_shape("list", lambda output: [])  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInput, match="object"):
        structural_form({"type": "list"})
