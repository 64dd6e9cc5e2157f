"""Orders of lists: by id and by time, both ways, and what the last ones of many cost."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from rote.contract.commands import Command
from rote.contract.port import PortLayer
from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.space import Space
from rote.testing.space_suite.ground import Unchanged, port_of
from rote.testing.space_suite.records import RecordGround

ORDERS = ("id", "created", "updated")


class CountingPort(PortLayer):
    """Counts what answers show."""

    shown = 0

    def answer(self, space: str, command: Command[Any], /) -> Any:
        answer = self._port.answer(space, command)
        parts = getattr(answer, "states", answer)
        self.shown += len(parts) if isinstance(parts, tuple) else 0
        return answer


class RecordOrderTests(RecordGround):
    def _turns(self, count: int) -> None:
        """Put records of two kinds; the later half was made before the first, and changed after it."""
        for number in (*range(count // 2, count), *range(count // 2)):
            self.memory.put("session", f"k{number % 2}", f"{number:03d}", {"n": number})
            self.clock.move(seconds=number % 3)
        for number in range(count // 2, count):
            self.memory.update("session", f"k{number % 2}", f"{number:03d}", ttl_seconds=10_000)
            self.clock.move(seconds=number % 2)

    def _expected(self, space: Space, order: str, descending: bool) -> Iterator[tuple[str, str]]:
        items: list[Any] = [state.value for state in space.scan("record:session!!")]
        members = {"id": (), "created": ("created_at",), "updated": ("updated_at",)}[order]
        key = (*members, "record_kind", "record_id")
        items.sort(key=lambda item: tuple(item[name] for name in key), reverse=descending)
        return ((item["record_kind"], item["record_id"]) for item in items)

    def test_a_list_has_the_order_that_is_asked_for(self) -> None:
        self._turns(12)
        branch = self.space.create_branch("b")
        Memory(branch).put("session", "k1", "007", {"n": "again"})
        Memory(branch).delete("session", "k0", "004")
        for space, order, descending in product((self.space, branch), ORDERS, (False, True)):
            expected = list(self._expected(space, order, descending))
            memory = Memory(space)

            def listed(memory: Memory = memory, **more: Any) -> list[tuple[str, str]]:
                items = memory.list("session", **more)["items"]
                return [(item["record_kind"], item["record_id"]) for item in items]

            way: dict[str, Any] = {"order": order, "descending": descending}
            assert listed(**way) == expected
            page = {"limit": 4, "offset": 3}
            assert listed(filters=page, **way) == expected[3:7]
            assert listed(kind="k1", **way) == [key for key in expected if key[0] == "k1"]
            assert listed(id_prefix="00", kind="k0", **way) == [
                key for key in expected if key[0] == "k0" and key[1].startswith("00")
            ]
            assert listed(id_prefix="01", **way) == [key for key in expected if key[1] > "01"]
            assert listed(at=space.version - 1, **way) == list(
                self._expected(space.at(space.version - 1), order, descending)
            )

    def test_filters_and_orders_go_together(self) -> None:
        for number in range(9):
            tags = {"tags": ["even" if number % 2 == 0 else "odd"], "source": f"s{number % 3}"}
            self.memory.put("session", "k", str(number), {}, None if number else 1, tags)
            self.clock.move(seconds=1)
        start = self.memory.get("session", "k", "2")["record"]["created_at"]
        for filters, found in (
            ({"tags_all": ["even"]}, "2468"), ({"tags_any": ["odd"]}, "1357"),
            ({"source": "s1"}, "147"), ({"created_after": start}, "2345678"),
            ({"updated_before": start}, "12"), ({"created_after": start, "source": "s0"}, "36"),
        ):  # fmt: skip
            for order in ORDERS:
                assert self.listed("session", filters=filters, order=order) == list(found)
                back = self.listed("session", filters=filters, order=order, descending=True)
                assert back == list(found[::-1])

    def test_the_last_twenty_of_many_cost_twenty(self) -> None:
        records: list[dict[str, Any]] = [
            {
                "namespace": "session",
                "record_kind": kind,
                "record_id": f"{number:04d}",
                "payload": {},
            }
            for number in range(600)
            for kind in ("k", "z")
        ]
        for start in range(0, len(records), 100):
            self.memory.put_many(records[start : start + 100])
            self.clock.move(seconds=1)
        self.space.reindex()
        port = CountingPort(port_of(self.store))
        space = Space(port, self.space._info, turns=self.space._turns)
        for order, kind in product(ORDERS, (None, "k", "z")):
            port.shown = 0
            items = Memory(space).list(
                "session", kind, filters={"limit": 20}, order=order, descending=True
            )["items"]
            assert (items[0]["record_id"], len(items)) == ("0599", 20)
            # The first page of hits, and the first records that are read.
            assert port.shown <= 200

    def test_a_bad_order_is_refused(self) -> None:
        orders: list[Any] = ["", "ID", "size", None, 5, ["id"]]
        for order in orders:
            with Unchanged(self, InvalidInput):
                self.memory.list("ops", order=order)
        ways: list[Any] = [None, 1, "true"]
        for descending in ways:
            with pytest.raises(InvalidInput):
                self.memory.list("ops", descending=descending)
