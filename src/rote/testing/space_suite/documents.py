"""Documents: every value of the domain comes back, at any size and after any number of patches."""

from typing import Any

import pytest

from rote.errors import InvalidValue, LimitExceeded
from rote.testing.space_suite.ground import A, SpaceGround, Unchanged, add, change, put
from rote.values.limits import DEPTH_MAX, VALUE_BYTES_MAX

VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    2**63 - 1,
    0.1,
    1e-7,
    5e-324,
    1.7976931348623157e308,
    "",
    "\0\x1f\x7f\u2028",
    "é e\u0301 \U0001f600 \ufb33",
    [],
    {},
    [[], [[]], {}],
    {"": {"": None}, "\0": 1, "\U0001f600": 1, "\ufb33": 2, "a/b~c": [1]},
]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


class DocumentTests(SpaceGround):
    @pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:30])
    def test_a_value_comes_back_as_it_went_in(self, value: Any) -> None:
        self.space.set(A, value)
        assert self.space.get(A, "missing") == value
        assert type(self.space.get(A, "missing")) is type(value)

    def test_whole_floats_come_back_as_the_integers_they_are(self) -> None:
        self.space.set(A, [1.0, -0.0, 1e16])
        assert [repr(number) for number in self.space.get(A)] == ["1", "0", "10000000000000000"]

    def test_tuples_come_back_as_lists(self) -> None:
        self.space.set(A, (1, (2,)))
        assert self.space.get(A) == [1, [2]]

    def test_a_value_of_the_largest_size_works_and_one_byte_more_is_refused(self) -> None:
        largest = "x" * (VALUE_BYTES_MAX - 2)
        self.space.set(A, largest)
        assert self.space.get(A) == largest
        with Unchanged(self, LimitExceeded):
            self.space.set(A, largest + "x")

    def test_a_patch_or_stamp_cannot_push_a_value_over_the_largest_size(self) -> None:
        largest = {"a": "x" * (VALUE_BYTES_MAX - 8)}
        self.space.set(A, largest)
        for operation in (
            change(A, add("/b", 1)),
            put(A, largest, stamp=["/at"]),
            change("urn:new", add("/b", 1), stamp=["/at"], **{"else": largest}),
        ):
            with pytest.raises(LimitExceeded):
                self.space.transact([operation])
        assert self.space.version == 1

    def test_a_copying_patch_cannot_push_a_value_over_the_largest_size(self) -> None:
        self.space.set(A, {"a": "x" * (VALUE_BYTES_MAX // 2)})
        with Unchanged(self, LimitExceeded):
            self.space.patch(A, [{"op": "copy", "from": "/a", "path": "/b"}])

    def test_the_deepest_value_works_and_one_level_more_is_refused(self) -> None:
        self.space.set(A, nested(DEPTH_MAX))
        assert self.space.get(A) == nested(DEPTH_MAX)
        with Unchanged(self, InvalidValue):
            self.space.set(A, nested(DEPTH_MAX + 1))

    @pytest.mark.parametrize("padding", [0, 5_000], ids=["small", "large"])
    def test_a_patch_cannot_push_a_value_below_the_deepest_level(self, padding: int) -> None:
        self.space.set(A, {"deep": nested(DEPTH_MAX - 1), "pad": "x" * padding, "to": {}})
        with Unchanged(self, InvalidValue):
            self.space.patch(A, [add("/to/a", nested(DEPTH_MAX - 1))])
        with Unchanged(self, InvalidValue):
            self.space.patch(A, [{"op": "move", "from": "/deep", "path": "/to/a"}])
        with Unchanged(self, InvalidValue):
            self.space.patch(A, [{"op": "copy", "from": "/deep", "path": "/to/a"}])
        self.space.patch(A, [add("/to/a", nested(DEPTH_MAX - 2))])
        assert self.space.get(A)["to"] == {"a": nested(DEPTH_MAX - 2)}

    @pytest.mark.parametrize("padding", [0, 900, 3_000], ids=["small", "middle", "large"])
    def test_every_version_of_a_much_patched_document_is_right(self, padding: int) -> None:
        """The sizes cross, in both directions, the limit up to which whole values are kept beside patches."""
        expected: list[Any] = [{"items": [], "pad": "x" * padding}]
        self.space.set(A, expected[0])
        for number in range(1, 60):
            items = [*expected[-1]["items"], {"number": number, "text": "y" * (number % 7) * 40}]
            expected.append({"items": items[-20:], "pad": "x" * padding})
            dropped = len(items) - len(items[-20:])
            operations = [add("/items/-", items[-1])]
            operations += [{"op": "remove", "path": "/items/0"}] * dropped
            self.space.patch(A, operations)
        for version, value in enumerate(expected, start=1):
            assert self.space.at(version).get(A) == value
        assert self.space.verify().ok

    # -- nothing is shared -------------------------------------------------------------------------

    def test_changing_a_value_after_it_was_passed_in_changes_nothing(self) -> None:
        value: dict[str, list[int]] = {"items": []}
        self.space.set(A, value)
        value["items"].append(1)
        assert self.space.get(A) == {"items": []}

    def test_changing_a_patch_after_it_was_passed_in_changes_nothing(self) -> None:
        self.space.set(A, {"pad": "x" * 5_000})
        inserted = [1]
        commit = self.space.patch(A, [add("/items", inserted)])
        inserted.append(2)
        assert self.space.get(A)["items"] == [1]
        assert commit.facts[0].body == [add("/items", [1])]

    @pytest.mark.parametrize("padding", [0, 5_000], ids=["small", "large"])
    def test_changing_a_returned_value_changes_no_later_answer(self, padding: int) -> None:
        self.space.set(A, {"items": [], "pad": "x" * padding})
        self.space.patch(A, [add("/items/-", [1])])
        expected = {"items": [[1]], "pad": "x" * padding}
        pinned = self.space.at(2)
        for _ in range(2):
            for value in (
                self.space.get(A),
                self.space.read(A).value,
                pinned.get(A),
                next(self.space.scan()).value,
                next(pinned.scan()).value,
            ):
                assert value == expected
                value["items"][0].append(2)
                value["new"] = 1
        self.space.patch(A, [add("/items/-", 3)])
        assert self.space.get(A) == {"items": [[1], 3], "pad": "x" * padding}

    def test_changing_a_returned_body_or_meta_changes_no_later_answer(self) -> None:
        commit = self.space.transact([put(A, {"n": [1]})], meta={"m": [1]})
        for _ in range(2):
            for found in (commit, next(self.space.log())):
                assert found.meta == {"m": [1]}
                assert found.facts[0].body == {"n": [1]}
                found.meta["m"].append(2)
                found.facts[0].body["n"].append(2)
        assert self.space.history(A)[0].body == {"n": [1]}

    def test_the_value_an_update_function_gets_is_its_own(self) -> None:
        self.space.set(A, {"items": []})

        def grow(value: Any) -> Any:
            value["items"].append(1)
            return value

        self.space.update(A, grow)
        assert self.space.at(1).get(A) == {"items": []}
        assert self.space.get(A) == {"items": [1]}
