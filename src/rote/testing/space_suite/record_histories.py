"""Histories of records: every change with its time, its author and the record after it."""

from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.testing.space_suite.ground import add, change, put
from rote.testing.space_suite.records import AT, KEY, LATER, RecordGround
from rote.values.limits import HISTORY_LIMIT_MAX

ENTITY = Memory.entity_id(*KEY)


class RecordHistoryTests(RecordGround):
    def items(self, **options: Any) -> list[Any]:
        found = self.memory.history(*KEY, **options)
        assert found.keys() == {"items"}
        items: list[Any] = found["items"]
        return items

    def payloads(self, **options: Any) -> list[Any]:
        return [item["record"] and item["record"]["payload"] for item in self.items(**options)]

    def write_record(self) -> None:
        """Write a record in every way that there is."""
        self.memory.append(*KEY, {"n": 1})
        self.memory.append(*KEY, {"n": 2})
        self.memory.touch(*KEY)
        self.memory.delete(*KEY)
        self.memory.put(*KEY, {"n": 3})

    def test_a_history_tells_every_change_with_the_record_after_it(self) -> None:
        memory = Memory(self.open_fresh("planner", author="planner").space("notes"))
        memory.put(*KEY, {"n": 1})
        first = self.record(memory)
        self.clock.move(seconds=60)
        memory.put(*KEY, {"n": 2})
        second = self.record(memory)
        memory.delete(*KEY)
        assert memory.history(*KEY)["items"] == [
            {"version": 3, "at": LATER, "author": "planner", "op": "delete", "record": None},
            {"version": 2, "at": LATER, "author": "planner", "op": "set", "record": second},
            {"version": 1, "at": AT, "author": "planner", "op": "set", "record": first},
        ]

    def test_the_record_after_each_change_is_what_could_be_read_then(self) -> None:
        self.write_record()
        for item in self.items():
            assert self.memory.get(*KEY, at=item["version"])["record"] == item["record"]
        assert [item["op"] for item in self.items()] == ["set", "delete", "patch", "patch", "set"]

    def test_a_record_with_more_changes_than_the_limit_shows_the_newest(self) -> None:
        self.write_record()
        whole = self.items()
        for limit in range(7):
            assert self.items(limit=limit) == whole[:limit]
        for number in range(20):
            self.memory.put(*KEY, {"n": number})
        assert self.payloads() == [{"n": number} for number in range(19, -1, -1)]

    def test_several_changes_in_one_commit_are_told_one_by_one(self) -> None:
        self.memory.put(*KEY, {"n": 1})
        ops = [change(ENTITY, add("/payload/n", number)) for number in (2, 3, 4)]
        self.space.transact([*ops, put("urn:other", 1)])
        for limit in range(1, 5):
            expected = [{"n": 4}, {"n": 3}, {"n": 2}, {"n": 1}][:limit]
            assert self.payloads(limit=limit) == expected

    def test_the_history_of_a_view_ends_with_it_and_that_of_a_branch_begins_before_it(self) -> None:
        self.write_record()
        branch = self.space.create_branch("topic")
        Memory(branch).put(*KEY, {"n": 9})
        versions = [item["version"] for item in Memory(branch).history(*KEY)["items"]]
        assert versions == [7, 5, 4, 3, 2, 1]
        assert len(self.items()) == 5
        past = Memory(self.space.at(2)).history(*KEY)["items"]
        assert [item["version"] for item in past] == [2, 1]

    def test_no_record_has_no_history(self) -> None:
        assert self.items() == []

    def test_expired_records_are_in_the_history(self) -> None:
        self.memory.put(*KEY, {"n": 1}, 1)
        self.clock.move(seconds=60)
        assert not self.memory.get(*KEY)["found"]
        assert self.payloads() == [{"n": 1}]

    def test_what_was_erased_is_told_without_its_content(self) -> None:
        self.write_record()
        self.space.erase(ENTITY, reason="r")
        self.memory.put(*KEY, {"n": 4})
        assert self.payloads() == [{"n": 4}, None, None, None, None, None]

    @pytest.mark.parametrize("before", range(2, 8))
    def test_what_a_compaction_has_left_is_told(self, before: int) -> None:
        self.write_record()
        self.memory.append("ops", "k", "i", {"n": 1})
        self.memory.append("ops", "k", "i", {"n": 2})
        expected = {item["version"]: item["record"] for item in self.items()}
        self.space.compact(before=before)
        items = self.items()
        assert items
        assert [item["version"] for item in items] == sorted(
            {item["version"] for item in items}, reverse=True
        )
        for item in items:
            assert item["record"] == expected[item["version"]]

    def test_records_of_a_history_share_no_parts(self) -> None:
        self.memory.append(*KEY, {"n": [1]})
        self.memory.touch(*KEY)
        newest, oldest = self.items()
        newest["record"]["payload"]["entries"][0]["n"].append(2)
        assert oldest["record"]["payload"]["entries"] == [{"n": [1]}]

    @pytest.mark.parametrize("limit", [-1, True, "3", 1.5, None, HISTORY_LIMIT_MAX + 1])
    def test_a_limit_is_a_number(self, limit: Any) -> None:
        with pytest.raises(InvalidInput, match="limit"):
            self.memory.history(*KEY, limit=limit)

    @pytest.mark.parametrize("key", [("unknown", "k", "i"), ("ops", "", "i"), ("ops", "k", 1)])
    def test_what_is_no_record_is_refused(self, key: Any) -> None:
        with pytest.raises(InvalidInput):
            self.memory.history(*key)
