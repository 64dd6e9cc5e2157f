"""The frame: dotted paths, sizes and refusals."""

from typing import Any

import pytest

import rote
from rote.errors import InvalidInput, LimitExceeded

VALUES: dict[str, Any] = {
    "a": {"b": [10, {"c": None}], "": 1, "0": "zero"},
    "n": None,
    "s": "text",
    "list": [],
}


@pytest.fixture
def host() -> rote.Host:
    return rote.Host("minimal").scope(frame=VALUES)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", VALUES), ("a.b", [10, {"c": None}]), ("a.b.0", 10), ("a.b.1.c", None), ("a.0", "zero"),
        ("n", None), ("s", "text"), ("list", []),
    ],
)  # fmt: skip
def test_a_path_leads_to_a_value(host: rote.Host, path: str, value: Any) -> None:
    assert host.frame.get(path, "default") == value


@pytest.mark.parametrize(
    "path",
    [
        "b", "a.c", "a.b.2", "a.b.-1", "a.b.01", "a.b.+1", "a.b.1.d", "a.b.x", "s.0", "s.length", "n.x",
        "a.b.1.c.d", "list.0", "a.b.٠", "a.b.99999999999999999999999", ".".join("a" * 65)],
)  # fmt: skip
def test_a_missing_step_gives_the_default_and_never_walks_into_it(
    host: rote.Host, path: str
) -> None:
    default = dict.fromkeys(path.split("."), 1)
    assert host.frame.get(path, default) == default
    assert host.frame.get(path) is None
    assert host.frame.delete(path) == {"ok": True, "deleted": False}
    assert host.frame.get() == VALUES


@pytest.mark.parametrize("verb", ["get", "set", "delete"])
@pytest.mark.parametrize("path", [".", "a.", ".a", "a..b", ".."])
def test_a_path_with_an_empty_step_is_refused(host: rote.Host, verb: str, path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        host.call("frame", verb, [path, 1] if verb == "set" else [path])
    assert refused.value.code == "bad_path"
    assert host.frame.get() == VALUES


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("x", {"x": 5}), ("x.y.z", {"x": {"y": {"z": 5}}}), ("x.0", {"x": {"0": 5}}),
    ],
)  # fmt: skip
def test_missing_steps_become_objects(path: str, whole: dict[str, Any]) -> None:
    host = rote.Host("minimal")
    told = host.frame.set(path, 5)
    assert host.frame.get() == whole
    assert told == {"ok": True, "bytes": len(rote.canonical(whole))}


@pytest.mark.parametrize(
    ("path", "elements"),
    [
        ("list.0", ["new", 2]), ("list.1", [1, "new"]), ("list.2", [1, 2, "new"]),
        ("list.2.a.b", [1, 2, {"a": {"b": "new"}}]),
    ],
)  # fmt: skip
def test_a_list_takes_indexes_up_to_its_length(path: str, elements: list[Any]) -> None:
    host = rote.Host("minimal").scope(frame={"list": [1, 2]})
    host.frame.set(path, "new")
    assert host.frame.get("list") == elements


@pytest.mark.parametrize(
    "path",
    ["list.3", "list.-1", "list.01", "list.x", "list.1.y", "s.x", "n.x", "n.x.y", "list.3.x"],
)
def test_a_set_that_cannot_go_on_is_refused_and_changes_nothing(path: str) -> None:
    values = {"list": [1, 2], "s": "text", "n": None}
    host = rote.Host("minimal").scope(frame=values)
    with pytest.raises(InvalidInput) as refused:
        host.frame.set(path, 1)
    assert refused.value.code == "bad_path"
    assert host.frame.get() == values


@pytest.mark.parametrize("value", [None, 1, "a", [1], True])
def test_the_whole_frame_is_an_object(host: rote.Host, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        host.frame.set("", value)
    assert refused.value.code == "bad_arguments"
    assert host.frame.set("", {"a": 1}) == {"ok": True, "bytes": 7}
    assert host.frame.get() == {"a": 1}


def test_deleting_takes_members_elements_and_the_whole(host: rote.Host) -> None:
    assert host.frame.delete("a.b.0") == {"ok": True, "deleted": True}
    assert host.frame.get("a.b") == [{"c": None}]
    assert host.frame.delete("n") == {"ok": True, "deleted": True}
    assert "n" not in host.frame.get()
    assert host.frame.delete("") == {"ok": True, "deleted": True}
    assert host.frame.delete("") == {"ok": True, "deleted": False}
    assert host.frame.get() == {}


def test_a_frame_over_its_limit_is_refused_and_stays_as_it_was() -> None:
    host = rote.Host("minimal", limits={"max_frame_bytes": 20})
    assert host.frame.set("a", "x" * 12) == {"ok": True, "bytes": 20}
    for path, value in (("a", "x" * 13), ("b", 1), ("", {"a": "x" * 13}), ("c.d", 1)):
        with pytest.raises(LimitExceeded) as refused:
            host.frame.set(path, value)
        assert "max_frame_bytes" in str(refused.value)
    assert host.frame.get() == {"a": "x" * 12}
    assert host.frame.set("a", "y" * 12) == {"ok": True, "bytes": 20}
    assert host.frame.set("", {}) == {"ok": True, "bytes": 2}


def test_a_frame_nests_as_deep_as_any_value(host: rote.Host) -> None:
    deep: Any = {}
    for _ in range(60):
        deep = [deep]
    host.frame.set("x.y.z", deep)  # 61 levels of it below 3
    for path in ("x.y.z.0.0", "w.x.y.z", ".".join("a" * 65)):
        with pytest.raises(InvalidInput):
            host.frame.set(path, deep)
    assert rote.canonical(host.frame.get())
