"""Queries: selection, followed links, limits, and refused queries."""

from typing import Any

import pytest

from rote.errors import Compacted, InvalidInput, NotFound, RoteError, VersionNotFound
from rote.testing.query_graphs import Graphs, naive_pages, pages_of
from rote.testing.space_suite.ground import A, B, C, SpaceGround, put, remove

D, NEVER = "urn:d", "urn:never"


def link(id: str, **more: Any) -> dict[str, Any]:
    return {"/": {"link@1": {"id": id, **more}}}


class QueryTests(SpaceGround):
    def ask(self, id: str = A, **body: Any) -> list[str]:
        """Return the ids that a query from one entity finds."""
        return list(self.space.query({"select": {id: body}})["facts"])

    # -- selecting ---------------------------------------------------------------------------------

    def test_an_id_gives_its_fact_a_deleted_one_its_tombstone_and_no_other_is_missing(self) -> None:
        written = self.space.transact([put(A, 1), put(B, 2)])
        deleted = self.space.delete(B)
        result = self.space.query({"select": {A: {}, B: {}, NEVER: {}}})
        assert result == {
            "version": 2,
            "facts": {
                A: {"value": 1, "version": 1, "hash": written.facts[0].hash},
                B: {"deleted": True, "version": 2, "hash": deleted.facts[0].hash},
            },
            "missing": [NEVER],
            "truncated": None,
            "cursor": None,
        }

    def test_wildcards_select_what_exists_and_overlap_without_doubling(self) -> None:
        self.space.transact([put("urn:x:1", 1), put("urn:x:2", 1), put("urn:y", 1), put(A, 1)])
        self.space.delete("urn:x:2")
        select: dict[str, Any] = {"urn:x*": {}, "urn:x:*": {}, "urn:x:1": {}, "urn:y": {}}
        result = self.space.query({"select": select})
        assert list(result["facts"]) == ["urn:x:1", "urn:y"]
        assert list(self.space.query({"select": {"*": {}}})["facts"]) == [A, "urn:x:1", "urn:y"]

    def test_since_keeps_what_was_written_later_and_shows_its_tombstones(self) -> None:
        self.space.transact([put(A, link(B)), put(B, 1), put(C, 1), put(D, 1)])
        self.space.transact([put(A, link(B)), remove(D)])
        result = self.space.query({"select": {"*": {"schema": True}, C: {}}, "since": 1})
        assert {id: "deleted" in fact for id, fact in result["facts"].items()} == {
            A: False, B: False, C: False, D: True,
        }  # fmt: skip

    def test_since_shows_what_was_erased_later_as_a_tombstone(self) -> None:
        """An erasure is a write on every branch, so a query for what is new must report it."""
        self.space.set(A, {"name": "Ada"})
        self.space.set(B, 1)
        branch = self.space.create_branch("topic")
        since = self.space.version
        erased = self.space.erase(A, reason="asked to").commit.version
        for space in (self.space, branch):
            result = space.query({"select": {"*": {}}, "since": since})
            hash = space.read(A).hash
            assert result["facts"] == {A: {"deleted": True, "version": erased, "hash": hash}}
            assert space.query({"select": {"*": {}}, "since": erased})["facts"] == {}
            assert list(space.query({"select": {"*": {}}})["facts"]) == [B]

    def test_since_counts_what_a_branch_has_inherited_too(self) -> None:
        self.space.set(A, 1)
        self.space.set(B, 1)
        branch = self.space.create_branch("draft")
        branch.set(C, 1)
        assert list(branch.query({"select": {"*": {}}, "since": 1})["facts"]) == [B, C]

    def test_pages_are_of_one_state_and_lose_nothing(self) -> None:
        ids = [f"urn:{number:02}" for number in range(10)]
        self.space.transact([put(id, 0) for id in ids])
        query: dict[str, Any] = {"select": {"urn:0*": {}, NEVER: {}, ids[3]: {}}, "limit": 4}
        found: list[str] = []
        missing: list[str] = []
        cursor = None
        for _ in range(9):
            page = self.space.query({**query, "cursor": cursor})
            found += page["facts"]
            missing += page["missing"]
            cursor = page["cursor"]
            if cursor is None:
                break
            self.space.transact([put(ids[-1], 1), remove(ids[8])] if not found[4:] else [put(A, 1)])
        assert (found, missing, cursor) == (ids, [NEVER], None)

    def test_pages_that_are_cut_lose_no_selected_entity(self) -> None:
        ids = [f"urn:{number:02}" for number in range(10)]
        self.space.transact([put(id, link(ids[0])) for id in ids])
        self.space.delete(ids[4])
        query: dict[str, Any] = {"select": {"urn:*": {"schema": True}, ids[4]: {}, "urn:05a": {}}}
        cut = {**query, "limit": 7, "max_entities": 3}
        pages = pages_of(self.space, cut)
        assert [list(page["facts"]) for page in pages] == [
            ids[:3], ids[3:6], ids[6:9], [ids[0], ids[9]],
        ]  # fmt: skip
        assert [page["missing"] for page in pages] == [[], ["urn:05a"], [], []]
        assert [page["truncated"] for page in pages] == [
            *({"reason": "max_entities", "at": id} for id in (ids[3], ids[6], ids[9])), None,
        ]  # fmt: skip
        values: list[str] = []
        cursor = None
        for _ in pages:
            page = self.space.values({**cut, "cursor": cursor})
            values += page["values"]
            cursor = page["cursor"]
        assert (values, cursor) == ([id for id in ids if id != ids[4]], None)

    def test_an_id_asked_for_by_name_is_shown_as_deleted_on_every_page(self) -> None:
        self.space.transact([put(A, 1), put(B, link(A))])
        self.space.delete(A)
        pages = pages_of(self.space, {"select": {A: {}, B: {"schema": True}}, "limit": 1})
        assert [(list(page["facts"]), page["missing"]) for page in pages] == [
            ([A], []), ([A, B], []),
        ]  # fmt: skip

    def test_a_query_means_the_state_of_its_view_unless_it_names_another(self) -> None:
        self.space.set(A, 1)
        branch = self.space.create_branch("draft")
        branch.set(A, 2)
        first = next(self.space.log())
        select: dict[str, Any] = {"select": {A: {}}}

        def value(result: dict[str, Any]) -> Any:
            return result["version"], result["facts"].get(A, {}).get("value")

        assert value(self.space.query(select)) == (3, 1)
        assert value(branch.query(select)) == (3, 2)
        assert value(self.space.query({**select, "branch": "draft"})) == (3, 2)
        assert value(self.space.query({**select, "branch": "draft", "at": 2})) == (2, 1)
        assert value(self.space.query({**select, "at": 0})) == (0, None)
        assert value(self.space.query({**select, "at": first.at}))[1] == 1
        pinned = branch.at(2)
        assert value(pinned.query({**select, "branch": "draft", "at": 2})) == (2, 1)
        for other in ({"branch": "main"}, {"at": 1}):
            with pytest.raises(InvalidInput) as refused:
                pinned.query({**select, **other})
            assert refused.value.details["key"] in other

    # -- following ---------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("schema", "found"),
        [
            (False, [A]),
            (True, [A, B, C, D]),
            ({}, [A, B, C, D]),
            ({"type": "object"}, [A, B, C, D]),
            ({"type": ["object", "null"]}, [A, B, C, D]),
            ({"type": "array"}, [A]),
            ({"required": ["nothing"]}, [A]),
            ({"properties": {"one": True}}, [A, B]),
            ({"properties": {"one": False}}, [A]),
            ({"properties": {"one": True}, "additionalProperties": True}, [A, B, C, D]),
            ({"properties": {"one": True}, "additionalProperties": {"type": "array"}}, [A, B, C, D]),
            ({"properties": {"one": True}, "additionalProperties": {"type": "object"}}, [A, B]),
            ({"additionalProperties": False}, [A]),
            ({"properties": {"many": True}}, [A, C, D]),
            ({"properties": {"many": {"prefixItems": [True]}}}, [A, C]),
            ({"properties": {"many": {"prefixItems": [True], "items": True}}}, [A, C, D]),
            ({"properties": {"many": {"items": False}}}, [A]),
            ({"anyOf": [{"properties": {"one": True}}, {"type": "array"}]}, [A, B]),
            ({"oneOf": [{"properties": {"one": True}}, {"properties": {"many": True}}]}, [A, B, C, D]),
            ({"allOf": [{"properties": {"one": True}}, {"type": "array"}]}, [A]),
            ({"allOf": [{"properties": {"one": True}}, {"properties": {"many": {"items": True}}}]},
             [A, B, C, D]),
            ({"$ref": "#/$defs/s", "$defs": {"s": {"properties": {"one": True}}}}, [A, B]),
            ({"$ref": "#/$defs/t", "$defs": {"s": True}}, [A]),
            ({"$ref": "#/$defs/s", "$defs": {"s": {"$ref": "#/$defs/s"}}}, [A]),
            ({"properties": {"many": {"items": {"anyOf": [{"required": ["c"]}]}}}}, [A, C]),
            ({"properties": {"many": {"items": {"required": ["c"]}}}}, [A, C, D]),
            ({"properties": {"many": {"items": {"anyOf": [{"const": {"d": 1}}]}}}}, [A, D]),
            ({"properties": {"many": {"items": {"anyOf": [{"enum": [{"c": 1}, 5]}]}}}}, [A, C]),
            ({"properties": {"many": {"items": {"type": "object", "anyOf": [True]}}}}, [A, C, D]),
            ({"properties": {"many": {"items": {"type": "array", "anyOf": [True]}}}}, [A]),
        ],
        ids=str,
    )  # fmt: skip
    def test_the_schema_decides_which_links_are_followed(
        self, schema: Any, found: list[str]
    ) -> None:
        value = {"one": link(B), "many": [link(C), link(D)]}
        self.space.transact([put(A, value), put(B, {"b": 1}), put(C, {"c": 1}), put(D, {"d": 1})])
        assert self.ask(schema=schema) == found

    def test_a_recursive_schema_follows_a_list_to_its_end(self) -> None:
        self.space.transact([put(A, {"next": link(B), "see": link(D)}), put(B, {"next": link(C)}),
                             put(C, {"next": None}), put(D, 1)])  # fmt: skip
        schema = {
            "$ref": "#/$defs/s",
            "$defs": {"s": {"properties": {"next": {"$ref": "#/$defs/s"}}}},
        }
        assert self.ask(schema=schema) == [A, B, C]

    def test_a_path_is_walked_first_and_follows_every_link_on_it(self) -> None:
        self.space.transact([put(A, {"x": [0, link(B, path=["y"])]}), put(B, {"y": {"z": link(C)}}),
                             put(C, {"w": link(D)}), put(D, 1)])  # fmt: skip
        assert self.ask(path=["x", "1"]) == [A, B]
        assert self.ask(path=["x", "1", "z"]) == [A, B, C]
        assert self.ask(path=["x", "1", "z", "w"]) == [A, B, C, D]
        assert self.ask(path=["x", "1", "z"], schema=True) == [A, B, C, D]
        for path in (["x", "01"], ["x", "2"], ["x", "-1"], ["nothing"]):
            assert self.ask(path=path, schema=True) == [A]

    @pytest.mark.parametrize(
        ("own", "found"),
        [
            ({}, [A, B, C, D]),
            ({"schema": True}, [A, B, C, D]),
            ({"schema": False}, [A, B]),
            ({"schema": {"properties": {"c": True}}}, [A, B, C]),
            ({"schema": {"type": "array"}}, [A, B]),
            ({"schema": "no schema"}, [A, B, C, D]),
            ({"schema": {"type": "nonsense"}}, [A, B, C, D]),
            ({"path": ["c"], "schema": True}, [A, B, C]),
        ],
        ids=str,
    )
    def test_a_link_narrows_what_is_followed_behind_it(
        self, own: dict[str, Any], found: list[str]
    ) -> None:
        self.space.transact([put(A, link(B, **own)), put(B, {"c": link(C), "d": link(D)}),
                             put(C, 1), put(D, 1)])  # fmt: skip
        assert self.ask(schema=True) == found

    def test_properties_known_to_one_side_are_kept_and_disjoint_ones_are_false(self) -> None:
        own = {"properties": {"d": True, "both": {"type": "string"}}}
        self.space.transact([put(A, link(B, schema=own)),
                             put(B, {"c": link(C), "d": link(D), "both": link(NEVER)}),
                             put(C, 1), put(D, 1)])  # fmt: skip
        schema = {"properties": {"c": True, "both": {"type": "object"}}}
        result = self.space.query({"select": {A: {"schema": schema}}})
        assert (list(result["facts"]), result["missing"]) == ([A, B, C, D], [])

    @pytest.mark.parametrize(
        "value",
        [
            {"/": {"link@1": {"id": B}, "more": 1}},
            {"/": {"link@1": {"id": B, "more": 1}}},
            {"/": {"link@1": {"id": "no id"}}},
            {"/": {"link@1": {"id": B, "path": "a"}}},
            {"/": {"link@1": {"id": B, "path": [0]}}},
            {"/": {"link@2": {"id": B}}},
            {"/": {"link@1": B}},
            {**link(B), "beside": 1},
            {"$blob": B},
        ],
        ids=str,
    )
    def test_what_is_not_exactly_a_link_is_plain_data(self, value: Any) -> None:
        self.space.transact([put(A, value), put(B, 1)])
        assert self.ask(schema=True) == [A]

    def test_missing_and_deleted_targets_are_listed_and_match_only_true(self) -> None:
        self.space.transact([put(A, {"x": link(B), "y": link(NEVER)}), put(B, 1)])
        self.space.delete(B)
        for schema, missing in (
            (True, [B, NEVER]),
            ({"additionalProperties": {"anyOf": [{"type": "object"}]}}, []),
            ({"additionalProperties": {"anyOf": [{"type": "object"}, True]}}, [B, NEVER]),
        ):
            result = self.space.query({"select": {A: {"schema": schema}}})
            assert (list(result["facts"]), result["missing"]) == ([A], missing)
        shown = self.space.query({"select": {A: {"schema": True}, B: {}}})
        assert (list(shown["facts"]), shown["missing"]) == ([A, B], [NEVER])

    def test_random_graphs_are_followed_as_the_naive_query_does(self) -> None:
        for seed in range(12):
            graphs = Graphs(seed)
            space = self.store.space(f"graph-{seed}")
            graphs.write(space, 5)
            for _ in range(5):
                branch = graphs.random.choice(space.branches())
                view = space.on(branch.name).at(graphs.random.randint(0, space.version))
                query = graphs.paged_query()
                assert pages_of(view, query) == naive_pages(view, graphs.ids, query)

    # -- limits ------------------------------------------------------------------------------------

    def test_limits_cut_the_walk_at_the_same_place_every_time(self) -> None:
        self.space.transact(
            [put(A, [link(D), link(C)]), put(C, link(B)), put(D, 1), put(B, link(A))]
        )

        def ask(**limits: int) -> tuple[list[str], Any]:
            result = self.space.query({"select": {A: {"schema": True}}, **limits})
            return list(result["facts"]), result["truncated"]

        assert ask(max_depth=0) == ([A], {"reason": "max_depth", "at": C})
        assert ask(max_depth=1) == ([A, C, D], {"reason": "max_depth", "at": B})
        assert ask(max_depth=2) == ([A, B, C, D], None)
        assert ask(max_entities=1) == ([A], {"reason": "max_entities", "at": C})
        assert ask(max_entities=2) == ([A, C], {"reason": "max_entities", "at": D})
        assert ask(max_entities=3) == ([A, C, D], {"reason": "max_entities", "at": B})
        assert ask(max_entities=4) == ([A, B, C, D], None)

    def test_a_schema_whose_options_multiply_ends_truncated(self) -> None:
        schema: dict[str, Any] = {"title": "any"}
        for number in range(12):
            options = [{"properties": {f"{number}-{option}": True}} for option in range(3)]
            schema = {"allOf": [schema], "anyOf": options}
        self.space.transact([put(A, {"x": link(B)}), put(B, 1)])
        result = self.space.query({"select": {A: {"schema": schema}}})
        assert result["truncated"] == {"reason": "max_entities", "at": A}

    # -- values ------------------------------------------------------------------------------------

    def test_values_have_the_values_behind_followed_links_in_their_places(self) -> None:
        value = {"x": link(B), "y": [link(C, path=["deep", "0"])], "z": link(NEVER)}
        self.space.transact([put(A, value), put(B, {"name": "b", "see": link(C)})])
        self.space.set(C, {"deep": [{"c": 1}]})
        result = self.space.values({"select": {A: {"schema": True}}})
        assert result["values"] == {
            A: {"x": {"name": "b", "see": {"deep": [{"c": 1}]}}, "y": [{"c": 1}], "z": link(NEVER)}
        }
        assert (result["version"], result["truncated"], result["missing"]) == (2, None, [NEVER])
        shallow = self.space.values({"select": {A: {"schema": {"properties": {"x": False}}}}})
        assert shallow["values"][A]["x"] == link(B)
        assert self.space.values({"select": {A: {"path": ["x", "name"]}}})["values"] == {A: "b"}
        assert self.space.values({"select": {A: {"path": ["w"]}, NEVER: {}}})["values"] == {}

    def test_values_keep_the_link_of_a_cycle_and_of_what_would_nest_too_deep(self) -> None:
        self.space.transact([put(A, {"b": link(B)}), put(B, {"a": link(A)})])
        result = self.space.values({"select": {A: {"schema": True}}})
        assert result["values"] == {A: {"b": {"a": link(A)}}}
        assert result["truncated"] == {"reason": "cycle", "at": A}
        chain = [put(f"urn:c:{n:03}", {"n": link(f"urn:c:{n + 1:03}")}) for n in range(100)]
        self.space.transact([*chain, put("urn:c:100", 1)])
        deep = self.space.values({"select": {"urn:c:000": {"schema": True}}, "max_depth": 200})
        assert deep["truncated"]["reason"] == "max_depth"
        depth, value = 0, deep["values"]["urn:c:000"]
        while "n" in value:
            depth, value = depth + 1, value["n"]
        assert 55 < depth <= 64
        self.space.set("urn:copy", deep["values"]["urn:c:000"])  # it is a value like any other

    def test_values_fill_in_defaults_and_change_nothing_stored(self) -> None:
        self.space.transact([put(A, {"b": link(B), "kept": None}), put(B, {})])
        inner = {"properties": {"size": {"$ref": "#/$defs/size"}}}
        schema = {
            "properties": {"b": inner, "kept": {"default": 1}, "new": {"default": {"x": [1]}}},
            "$defs": {"size": {"type": "integer", "default": 3}},
        }
        asked = {"select": {A: {"schema": schema}, "*": {}}}
        assert self.space.values(asked)["values"] == {
            A: {"b": {"size": 3}, "kept": None, "new": {"x": [1]}},
            B: {},
        }
        assert self.space.get(A) == {"b": link(B), "kept": None}

    # -- bad queries -------------------------------------------------------------------------------

    def test_an_unknown_member_of_a_selector_is_named(self) -> None:
        with pytest.raises(InvalidInput, match=r"urn:a.* has no 'paths'; it has path, schema"):
            self.space.query({"select": {A: {"path": [], "paths": []}}})

    @pytest.mark.parametrize(
        ("change", "key", "kind"),
        [
            ({"selekt": {}}, "selekt", InvalidInput),
            ({"select": None}, "select", InvalidInput),
            ({"select": {"no id": {}}}, "select", InvalidInput),
            ({"select": {A: None}}, "select", InvalidInput),
            ({"select": {A: {"paths": []}}}, "select", InvalidInput),
            ({"select": {A: {"path": "x"}}}, "path", InvalidInput),
            ({"select": {A: {"path": [0]}}}, "path", InvalidInput),
            ({"select": {A: {"schema": None}}}, "schema", InvalidInput),
            ({"select": {A: {"schema": {"type": "text"}}}}, "schema", InvalidInput),
            ({"select": {A: {"schema": {"properties": {"a": 1}}}}}, "schema", InvalidInput),
            ({"select": {A: {"schema": {"anyOf": []}}}}, "schema", InvalidInput),
            ({"select": {A: {"schema": {"items": [True]}}}}, "schema", InvalidInput),
            ({"select": {A: {"schema": {"required": "a"}}}}, "schema", InvalidInput),
            ({"select": {A: {"schema": {"$ref": 1}}}}, "schema", InvalidInput),
            ({"select": {A: {"schema": {"$defs": {"x": 1}}}}}, "schema", InvalidInput),
            ({"branch": 1}, "branch", InvalidInput),
            ({"at": -1}, "at", InvalidInput),
            ({"at": "yesterday"}, "at", InvalidInput),
            ({"at": 9}, "at", VersionNotFound),
            ({"since": True}, "since", InvalidInput),
            ({"since": 9}, "since", VersionNotFound),
            ({"limit": 0}, "limit", InvalidInput),
            ({"limit": 10_001}, "limit", InvalidInput),
            ({"limit": 1.0}, "limit", InvalidInput),
            ({"max_depth": -1}, "max_depth", InvalidInput),
            ({"max_depth": 1_000_001}, "max_depth", InvalidInput),
            ({"max_entities": 0}, "max_entities", InvalidInput),
            ({"cursor": "abc"}, "cursor", InvalidInput),
            ({"cursor": 5}, "cursor", InvalidInput),
            ({"cursor": "W10="}, "cursor", InvalidInput),
            ({"cursor": "é"}, "cursor", InvalidInput),
            ({"cursor": ["W10="]}, "cursor", InvalidInput),
        ],
        ids=str,
    )
    def test_a_bad_query_is_told_by_its_key(
        self, change: dict[str, Any], key: str, kind: type[RoteError]
    ) -> None:
        self.space.set(A, 1)
        for call in (self.space.query, self.space.values):
            with pytest.raises(kind) as refused:
                call({"select": {A: {}}, **change})
            assert refused.value.details["key"] == key
            assert key in str(refused.value)

    def test_a_cursor_that_is_no_text_of_json_is_refused(self) -> None:
        for call in (self.space.query, self.space.values):
            with pytest.raises(InvalidInput):
                call({"select": {A: {}}, "cursor": "\ud800"})

    def test_a_query_needs_a_select_and_a_branch_that_is_there(self) -> None:
        bad_ones: tuple[Any, ...] = ({}, None, [])
        for bad in bad_ones:
            with pytest.raises(InvalidInput) as refused:
                self.space.query(bad)
            assert refused.value.details["key"] == "select"
        with pytest.raises(NotFound):
            self.space.query({"select": {}, "branch": "nowhere"})

    def test_a_cursor_belongs_to_its_query_its_branch_and_its_state(self) -> None:
        self.space.transact([put(A, 1), put(B, 1)])
        branch = self.space.create_branch("draft")
        query: dict[str, Any] = {"select": {"*": {}}, "limit": 1}
        cursor = self.space.query(query)["cursor"]
        assert list(self.space.query({**query, "cursor": cursor})["facts"]) == [B]
        for view, change in (
            (self.space, {"limit": 2}),
            (self.space, {"select": {A: {}}}),
            (self.space, {"at": 1}),
            (branch, {}),
            (self.space.at(1), {}),
        ):
            with pytest.raises(InvalidInput, match="cursor"):
                view.query({**query, **change, "cursor": cursor})

    def test_a_cursor_belongs_to_its_space_and_is_taken_as_it_is(self) -> None:
        other = self.store.space("other")
        for space in (self.space, other):
            space.transact([put(A, 1), put(B, 1)])
        query: dict[str, Any] = {"select": {"*": {}}, "limit": 1}
        cursor = self.space.query(query)["cursor"]
        for space, changed in (
            (other, cursor),
            (self.space, cursor.encode()),
            (self.space, f"!{cursor}"),
            (self.space, cursor[:-4]),
        ):
            with pytest.raises(InvalidInput, match="cursor"):
                space.query({**query, "cursor": changed})

    def test_a_state_that_was_compacted_away_is_not_even_empty(self) -> None:
        for number in range(3):
            self.space.set(A, number)
        self.space.compact(before=3)
        selects: list[dict[str, Any]] = [{}, {"*": {}}, {A: {}}]
        for call in (self.space.query, self.space.values):
            for select in selects:
                with pytest.raises(Compacted):
                    call({"select": select, "at": 2})

    def test_what_a_result_holds_is_the_callers_own(self) -> None:
        self.space.set(A, {"list": [1]})
        for call, part in ((self.space.query, "facts"), (self.space.values, "values")):
            first: Any = call({"select": {A: {}}})
            first[part].clear()
            again: Any = call({"select": {A: {}}})
            (again[part][A]["value"] if part == "facts" else again[part][A])["list"].append(2)
        assert self.space.get(A) == {"list": [1]}
