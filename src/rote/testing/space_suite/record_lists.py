"""Lists of memory records: order, prefixes, filters, pages, versions and branches."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import pytest

from rote.contract import State, View
from rote.contract.commands import Find
from rote.errors import Compacted, InvalidInput
from rote.records.filters import Filters
from rote.records.index import NAME, RECORDS
from rote.records.listing import find_namespaces, of_newest, skip_records
from rote.records.memory import Memory
from rote.space import Space
from rote.testing.space_suite.ground import Unchanged, port_of
from rote.testing.space_suite.records import AT, LATER, RecordGround
from rote.values import micros_of

# One instant, written in three ways.
TEN = ("2026-03-20T10:00:00Z", "2026-03-20T10:00:00+00:00", "2026-03-20T12:00:00.0+02:00")
BEFORE_TEN, AFTER_TEN = "2026-03-20T09:59:59.999999Z", "2026-03-20T10:00:00.000001Z"


PREFIXES: list[Any] = [
    ("", ["%", "A_b", "a!", "a%b", "a_b", "aXb"]),
    ("a", ["a!", "a%b", "a_b", "aXb"]), ("A", ["A_b"]), ("a%", ["a%b"]), ("%", ["%"]),
    ("a_", ["a_b"]), ("a!", ["a!"]), ("ab", []), ("a_b", ["a_b"]), ("a_bc", []),
    ("!", []), ("\0", []), ("\u00a0", []), ("x" * 5000, []),
]  # fmt: skip


TAGS_AND_SOURCES: list[Any] = [
    ({"tags_any": ["a"]}, "1"), ({"tags_any": ["a", "c", "a"]}, "12"),
    ({"tags_any": ["b"]}, "12"), ({"tags_any": ["z"]}, ""),
    ({"tags_all": ["b"]}, "12"), ({"tags_all": ["b", "c"]}, "2"),
    ({"tags_all": ["a", "c"]}, ""), ({"tags_any": ["a", "B"], "tags_all": ["b"]}, "1"),
    ({"source": "x"}, "14"), ({"source": "X"}, "2"), ({"source": "y"}, ""),
    ({"source": "x", "tags_any": ["a"]}, "1"),
    ({}, "12345"), (None, "12345"), ({"tags_any": [], "tags_all": []}, "12345"),
    ({"tags_any": None, "source": None, "limit": None, "created_after": None}, "12345"),
]  # fmt: skip


BAD_FILTERS: list[Any] = [
    ("tag", ["a"]), ("", 1), ("tags_any", "a"), ("tags_any", [1]), ("tags_all", [""]),
    ("tags_all", ["\ud800"]), ("tags_any", ["a"] * 101), ("source", 1), ("source", ""),
    ("source", "\ud800"), ("created_after", "2026-01-01"), ("updated_before", 5),
    ("valid_at_after", "2026-01-01T00:00:00"), ("since_last_accessed", "now"),
    ("limit", -1), ("limit", 10_001), ("limit", True), ("limit", 1.0), ("limit", "5"),
    ("offset", -1), ("offset", []), ("offset", 2**63),
]  # fmt: skip


PAGES: list[Any] = [
    (2, 0, "01", 2), (2, 2, "23", 4), (2, 4, "4", None), (5, 0, "01234", None),
    (4, 0, "0123", 4), (9, 1, "1234", None), (2, 9, "", None), (0, 0, "", None),
    (0, 3, "", None), (None, 3, "34", None), (10_000, 0, "01234", None),
    (1, 2**63 - 1, "", None), (10_000, 2**63 - 2, "", None), (None, 2**63 - 1, "", None),
]  # fmt: skip


class Counting:
    """The scans of a space, with a count of the states they gave."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.states = 0

    def scan(self, prefix: str, **more: Any) -> Iterator[State]:
        for state in self._space.scan(prefix, **more):
            self.states += 1
            yield state


class RecordListTests(RecordGround):
    def test_the_namespaces_that_hold_records_are_found_without_reading_all(self) -> None:
        space = self.open_fresh("old", content_rules=()).space("notes")
        memory = Memory(space, namespaces=["a", "a-b", "ab", "none", "z"])
        for namespace, id in product(["z", "ab", "a", "a-b"], "12345"):
            memory.put(namespace, "kind", id, {})
        for odd in ("record:a", "record:Big!!k!!i!!", "record:!!k!!i!!", "recorded:x!!k!!i!!"):
            space.set(odd, 1)
        memory.put("none", "kind", "1", {})
        memory.delete("none", "kind", "1")
        scans = Counting(space)
        assert find_namespaces(scans) == ["a", "a-b", "ab", "z"]  # type: ignore[arg-type]
        assert scans.states == 4 + 3

    def _put_all(self, ids: Iterable[str], **more: Any) -> None:
        for id in ids:
            self.memory.put("ops", "k", id, {"text": id}, **more)

    def test_items_are_ordered_by_kind_and_id_by_code_point(self) -> None:
        kinds = ["k", "k!", "k ", "k\0", "k~", "kk", "K", "ké", "k\U0001f600", "k\ufb33"]
        keys = [(kind, id) for kind in kinds for id in ("b", "a", "a!", "a b", "aa", "B", "ä")]
        for kind, id in keys:
            self.memory.put("ops", kind, id, {})
        listed = self.memory.list("ops")["items"]
        assert [(item["record_kind"], item["record_id"]) for item in listed] == sorted(keys)
        assert [item["record_id"] for item in self.memory.list("ops", "k!")["items"]] == sorted(
            {id for _, id in keys}
        )

    def test_an_item_has_what_is_asked_for(self) -> None:
        self.memory.put("ops", "k", "i", {"x": 1}, 60, {"tags": ["a"]})
        plain = {
            "record_kind": "k", "record_id": "i", "created_at": AT, "updated_at": AT,
            "ttl_seconds": 60,
        }  # fmt: skip
        assert self.memory.list("ops") == {"items": [plain]}
        assert self.memory.list("ops", include=["payload", "metadata"])["items"] == [
            {**plain, "payload": {"x": 1}, "metadata": {"tags": ["a"]}}
        ]
        refused: list[Any] = ["payload", ["ttl"], 5, [[]]]
        for include in refused:
            with pytest.raises(InvalidInput):
                self.memory.list("ops", include=include)

    def test_a_prefix_is_taken_as_it_is(self) -> None:
        self._put_all(["a%b", "a_b", "aXb", "A_b", "a!", "%"])
        self.memory.put("ops", "other", "zzz", {})
        for prefix, found in PREFIXES:
            assert self.listed("ops", "k", prefix) == sorted(found)
            more = [] if prefix else ["zzz"]
            assert self.listed("ops", None, prefix) == sorted(found) + more

    def test_namespaces_and_kinds_do_not_see_each_other(self) -> None:
        memory = Memory(self.space, namespaces=["a", "a-b", "a_", "aa"])
        for namespace in ("a", "a-b", "a_", "aa"):
            for kind in ("k", "k!", "kk"):
                memory.put(namespace, kind, f"{namespace}.{kind}", {}, None, {"tags": ["t"]})
        for filters in (None, {"tags_all": ["t"]}, {"created_after": AT}):
            items = memory.list("a", None, None, None, filters)["items"]
            assert [item["record_id"] for item in items] == ["a.k", "a.k!", "a.kk"]
            assert memory.list("a", "k", "a", None, filters)["items"] == items[:1]

    # -- filters -----------------------------------------------------------------------------------

    def _tagged(self) -> None:
        self.memory.put("ops", "k", "1", {}, None, {"tags": ["a", "b"], "source": "x"})
        self.memory.put("ops", "k", "2", {}, None, {"tags": ["b", "c"], "source": "X"})
        self.memory.put("ops", "k", "3", {}, None, {"tags": ["B"], "source": None})
        self.memory.put("ops", "k", "4", {}, None, {"tags": [], "source": "x"})
        self.memory.put("ops", "k", "5", {})

    def test_tags_and_source_are_exact(self) -> None:
        self._tagged()
        for filters, found in TAGS_AND_SOURCES:
            assert self.listed("ops", filters=filters) == list(found), filters

    def test_one_instant_in_any_writing_is_one_time(self) -> None:
        for written, asked in product(TEN, TEN):
            self._compare(written, asked)

    def _compare(self, written: str, asked: str) -> None:
        meta = {"valid_at": written, "last_accessed": written}
        self.memory.put("ops", "k", "1", {}, None, meta)
        self.memory.put("ops", "k", "2", {})
        for name in ("valid_at_after", "valid_at_before", "since_last_accessed"):
            assert self.listed("ops", filters={name: asked}) == ["1"]
        assert self.listed("ops", filters={"valid_at_after": AFTER_TEN}) == []
        assert self.listed("ops", filters={"since_last_accessed": AFTER_TEN}) == []
        assert self.listed("ops", filters={"valid_at_before": BEFORE_TEN}) == []
        between = {"valid_at_after": BEFORE_TEN, "valid_at_before": AFTER_TEN}
        assert self.listed("ops", filters=between) == ["1"]
        assert self.memory.get("ops", "k", "1")["record"]["metadata"] == meta

    def test_one_instant_in_any_writing_is_one_time_of_creation_and_change_too(self) -> None:
        self.memory.put("ops", "k", "1", {})
        entity = Memory.entity_id("ops", "k", "1")
        record: Any = self.space.get(entity)
        for written, asked in product(TEN, TEN):
            # As an import writes it, with times of its own.
            self.space.set(entity, {**record, "created_at": written, "updated_at": written})
            for name in ("created", "updated"):
                for filters, found in (
                    ({f"{name}_after": asked, f"{name}_before": asked}, ["1"]),
                    ({f"{name}_after": AFTER_TEN}, []),
                    ({f"{name}_before": BEFORE_TEN}, []),
                ):
                    assert self.listed("ops", filters=filters) == found
            assert self.listed("ops", None, None, asked) == ["1"]
            assert self.listed("ops", None, None, AFTER_TEN) == []

    def test_times_of_creation_and_change_are_inclusive(self) -> None:
        self._put_all(["early", "changed"])
        self.clock.move(seconds=60)
        self._put_all(["changed", "late"])
        for name, asked, found in (
            ("created_after", LATER, ["late"]),
            ("created_before", AT, ["changed", "early"]),
            ("updated_after", LATER, ["changed", "late"]),
            ("updated_before", AT, ["early"]),
            ("updated_after", "0001-01-01T00:00:00Z", ["changed", "early", "late"]),
            ("updated_before", "9999-12-31T23:59:59Z", ["changed", "early", "late"]),
        ):
            assert self.listed("ops", filters={name: asked}) == found
        assert self.listed("ops", None, None, LATER) == ["changed", "late"]
        both = self.listed("ops", None, None, AT, {"updated_after": LATER, "created_before": AT})
        assert both == ["changed"]

    def test_a_bad_filter_is_refused_by_name(self) -> None:
        for name, value in BAD_FILTERS:
            with Unchanged(self, InvalidInput) as raised:
                self.memory.list("ops", filters={name: value})
            assert name in str(raised.value)

    # -- pages -------------------------------------------------------------------------------------

    def test_a_page_says_where_the_next_one_begins(self) -> None:
        self._put_all("01234", metadata={"tags": ["t"]})
        for more in ({}, {"tags_all": ["t"]}, {"updated_after": AT}):
            for limit, offset, found, next_offset in PAGES:
                filters = {"limit": limit, "offset": offset, **more}
                listed = self.memory.list("ops", filters=filters)
                assert [item["record_id"] for item in listed["items"]] == list(found)
                assert listed.get("next_offset", "none") == (next_offset or "none")

    def test_pages_at_a_version_do_not_mind_what_comes_later(self) -> None:
        ids = [f"{number:02}" for number in range(13)]
        self._put_all(ids, metadata={"tags": ["t"]})
        at = self.space.version
        filtered: list[dict[str, Any]] = [{}, {"tags_any": ["t"]}, {"created_after": AT}]
        for size, more in product((1, 5, 12, 13, 14), filtered):
            found: list[str] = []
            offset: int | None = 0
            while offset is not None:
                filters = {"limit": size, "offset": offset, **more}
                page = self.memory.list("ops", filters=filters, at=at)
                found += [item["record_id"] for item in page["items"]]
                offset = page.get("next_offset")
            self.memory.put("ops", "k", f"0-{size}", {}, None, {"tags": ["t"]})
            self.memory.delete("ops", "k", ids[size % 13])
            assert found == ids

    def test_an_offset_passes_what_is_no_living_record_of_the_list(self) -> None:
        """Offsets are skipped by counting ids, of which some are not listed."""
        own = self.open_fresh("old", content_rules=()).space("notes")
        memory = Memory(own)
        for number in range(40):
            ttl = 1 if number % 3 == 0 else None
            memory.put("ops", "kj"[number % 2], f"{number:02}", {}, ttl)
        memory.put("long_term", "k", "another namespace", {})
        for id in (
            "record:ops!!j!!05!!x",
            "record:ops!!k",
            "record:ops!!k!!",
            "record:ops!!z!!1!!",
        ):
            own.set(id, {"a": "stray"})
        memory.delete("ops", "k", "02")
        self.clock.move(seconds=2)
        memory.put("ops", "k", "04", {})
        branch = own.create_branch("draft")
        Memory(branch).delete("ops", "j", "07")
        at = own.version
        memory.delete("ops", "j", "11")
        for space, then in ((own, None), (own, at), (branch, None)):
            for kind, prefix in (
                (None, None),
                ("j", None),
                ("k", None),
                ("k", "1"),
                (None, "1"),
                ("none", None),
            ):
                asked: Any = {"kind": kind, "id_prefix": prefix, "at": then}
                whole = Memory(space).list("ops", **asked)["items"]
                for offset in range(len(whole) + 3):
                    filters = {"offset": offset, "limit": 3}
                    page = Memory(space).list("ops", **asked, filters=filters)["items"]
                    assert page == whole[offset : offset + 3]

    def test_an_offset_goes_with_a_prefix_that_ends_in_a_star(self) -> None:
        """The prefix was looked up as if it were an id, and no id ends so."""
        self._put_all(["a", "a*1", "a*2", "a*3"])
        assert self.listed("ops", "k", "a*", filters={"offset": 1}) == ["a*2", "a*3"]

    def test_an_offset_is_counted_and_not_read(self) -> None:
        self._put_all([f"{number:02}" for number in range(40)], ttl_seconds=60)
        self._put_all([f"{number:02}" for number in range(0, 40, 2)], ttl_seconds=1)
        self.clock.move(seconds=2)
        place: Any = {
            "namespace": "ops",
            "kind": None,
            "id_prefix": "",
            "now": micros_of(self.space.now),
        }
        view = self.space.at(self.space.version)
        after, rest = skip_records(view, Filters(offset=15), **place)
        assert (after, rest.offset) == (Memory.entity_id("ops", "k", "29"), 0)
        assert skip_records(view, Filters(offset=41), **place) == (None, Filters(offset=41))

    # -- versions, branches and the index ----------------------------------------------------------

    def test_a_branch_and_a_past_version_have_lists_of_their_own(self) -> None:
        tagged = {"tags": ["t"]}
        self._put_all(["a", "b", "c"], metadata=tagged)
        branch = self.space.create_branch("draft")
        draft = Memory(branch)
        self.memory.put("ops", "k", "a", {}, None, {"tags": ["other"]})
        draft.delete("ops", "k", "b")
        draft.put("ops", "k", "d", {}, None, tagged)
        for filters in ({"tags_all": ["t"]}, {"tags_any": ["t", "none"], "created_after": AT}):
            assert self.listed("ops", filters=filters) == ["b", "c"]
            listed = draft.list("ops", filters=filters)["items"]
            assert [item["record_id"] for item in listed] == ["a", "c", "d"]
            assert self.listed("ops", filters=filters, at=2) == ["a", "b"]
            assert self.listed("ops", filters=filters, at=0) == []
        assert self.space.verify().ok

    def test_what_is_compacted_away_while_it_is_read_is_read_anew(self) -> None:
        versions: list[int] = []

        def read(view: Space) -> int:
            versions.append(view.version)
            if len(versions) == 1:
                self._put_all("b")
                self.space.compact(before=self.space.version)
            return len(list(view.scan()))

        self._put_all("a")
        assert of_newest(self.space, read) == 2
        assert versions == [1, 3]
        self._put_all("c")
        pinned = self.space.at(3)
        self.space.compact(before=4)
        with pytest.raises(Compacted):
            of_newest(pinned, lambda view: list(view.scan()))
        with pytest.raises(Compacted):
            Memory(pinned).list("ops")

    def test_an_index_is_built_for_what_was_there_before_it(self) -> None:
        plain = self.open_fresh("plain", indexes=())
        memory = Memory(plain.space("x"))
        for number in range(9):
            memory.put("ops", "k", str(number), {}, None, {"tags": ["t" if number % 2 else "u"]})
            plain.space("x").set("urn:other", number)
        for number in (1, 2):
            memory.delete("ops", "k", str(number))
        target = self.open_fresh("indexed")
        plain.copy("x", target)
        listed = Memory(target.space("x")).list("ops", filters={"tags_any": ["t"]})["items"]
        assert [item["record_id"] for item in listed] == ["3", "5", "7"]
        assert target.space("x").verify().ok

    def test_reindexing_changes_no_list(self) -> None:
        self._tagged()
        self.memory.delete("ops", "k", "1")
        before = self.listed("ops", filters={"tags_any": ["a", "b"]})
        told: list[tuple[int, int]] = []
        self.space.reindex(progress=lambda done, total: told.append((done, total)))
        assert self.listed("ops", filters={"tags_any": ["a", "b"]}) == before == ["2"]
        assert set(told) == {(0, 6)}
        assert self.space.verify().ok

    def test_writes_beside_the_records_do_not_hide_them(self) -> None:
        """Commits that do not concern the index leave it alone, and it stays complete."""
        for round in range(3):
            self.memory.put("ops", "k", str(round), {}, None, {"tags": ["t"]})
            for number in range(130):
                self.space.set("urn:other", number)
            assert self.listed("ops", filters={"tags_any": ["t"]}) == [
                str(n) for n in range(round + 1)
            ]
        assert self.space.verify().ok

    def test_a_long_history_on_two_branches_leaves_one_open_row_for_each_term(self) -> None:
        """The value that a commit replaces tells which rows were open before it."""
        for number in range(4):
            self.clock.move(seconds=1)
            self.memory.put("ops", "k", "i", {}, None, {"tags": ["t", f"t{number % 2}"]})
        draft = Memory(self.space.create_branch("draft"))
        for number in range(3):
            self.clock.move(seconds=1)
            draft.put("ops", "k", "i", {}, None, {"tags": [f"d{number}"]})
            self.memory.append("ops", "k", f"log-{number}", {}, None, {"tags": ["t"]})
            self.memory.append("ops", "k", f"log-{number}", {})
        assert self.listed("ops", filters={"tags_any": ["t1"]}) == ["i"]
        assert self.listed("ops", filters={"tags_any": ["t0", "d2"]}) == []
        assert len(draft.list("ops", filters={"tags_any": ["d2"]})["items"]) == 1
        assert draft.list("ops", filters={"tags_any": ["t", "d1"]})["items"] == []
        assert self.space.verify().ok

    def test_the_index_names_records_only(self) -> None:
        self.space.set("urn:note", {"metadata": {"tags": ["t"]}})
        self.memory.put("ops", "k", "i", {}, 5, {"tags": ["t"], "source": "s", "valid_at": TEN[0]})
        hits = port_of(self.store).answer(
            self.did, Find(NAME, start="", end=None, after=None, limit=99, view=View())
        )
        assert {hit.id for hit in hits} == {Memory.entity_id("ops", "k", "i")}
        assert sorted(hit.term.split()[0] for hit in hits) == [
            "created", "expires", "source", "tag", "updated", "valid_at",
        ]  # fmt: skip
        assert len(hits) == len(set(RECORDS.terms(hits[0].id, self.space.get(hits[0].id), 0, 0)))


class SharedRecordTests(RecordGround):
    def test_records_that_a_program_without_the_index_has_put_are_listed(self) -> None:
        self.memory.put("ops", "k", "1", {}, None, {"tags": ["t"]})
        assert self.listed("ops", filters={"tags_any": ["t"]}) == ["1"]
        without = Memory(self.open(indexes=()).space("notes"))
        without.put("ops", "k", "2", {}, None, {"tags": ["t"]})
        without.delete("ops", "k", "1")
        # The index is behind now, and must not be continued over commits that it has not seen.
        self.memory.put("ops", "k", "3", {}, None, {"tags": ["t"]})
        assert self.listed("ops", filters={"tags_any": ["t"]}) == ["2", "3"]
        assert self.space.verify().ok

    def test_two_stores_with_the_index_keep_it_together(self) -> None:
        others = self.open().space("notes")
        for number in range(4):
            memory = Memory(others if number % 2 else self.space)
            memory.put("ops", "k", str(number), {}, None, {"tags": ["t"]})
            others.set("urn:other", number)
            for space in (self.space, others):
                items = Memory(space).list("ops", filters={"tags_any": ["t"]})["items"]
                assert [item["record_id"] for item in items] == [str(n) for n in range(number + 1)]
        assert self.space.verify().ok
