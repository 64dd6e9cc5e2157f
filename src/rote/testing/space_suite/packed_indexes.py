"""Packed indexes through the port: exact at every version and branch, with little work in a commit."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rote.contract import View
from rote.contract.commands import Postings
from rote.errors import Conflict, InvalidInput, NotFound
from rote.kernel.committing import committer
from rote.kernel.log import entries
from rote.kernel.reading import index_upkeep, packed_indexes, segment_building, segments
from rote.kernel.reading.segments import in_order
from rote.space import Space
from rote.space import space as space_module
from rote.testing.marks import each_test_uses
from rote.testing.packed_words import MANY, MERGED, SMALL, WAITING, PackedWords
from rote.testing.space_suite.ground import A, B, C, add, put
from rote.testing.space_suite.packed_ground import (
    PackedGround,
    engine_of,
    finder_of,
    segments_of,
    stored,
    text,
    write_history,
)


@each_test_uses("bounds")
class PackedIndexTests(PackedGround):
    def test_a_packed_index_is_exact_on_every_branch_and_version(
        self, packed: Space, index: PackedWords
    ) -> None:
        finder = finder_of(packed)
        for seed in range(4):
            write_history(packed, Random(seed), 25) if seed == 0 else None
            for number in range(12):
                packed.set(f"urn:{number % 5}", text(Random(seed * 100 + number)))
            self.exact(packed, finder)
        self.exact_in_the_past(packed)
        assert max(row.size for row in segments_of(packed)) >= SMALL
        assert index.merged
        assert packed.verify().ok
        packed.reindex()
        self.exact_in_the_past(packed)
        assert packed.verify().ok

    def test_a_branch_that_writes_what_it_inherits_changes_nothing(self, packed: Space) -> None:
        """Only the newest row counts, so a row that is missing would show the parent's."""
        packed.set(A, {"text": "red"})
        topic = packed.create_branch("topic")
        packed.set(A, {"text": "blue"})
        topic.set(A, {"text": "red"})
        topic.set(A, {"text": "blue"})
        for number in range(2 * WAITING):
            packed.set(f"urn:{number}", {"text": "odd"})
        self.exact_in_the_past(packed)
        packed.reindex()
        self.exact_in_the_past(packed)
        assert packed.verify().ok

    def test_bodies_that_are_known_are_not_sent_again(self, packed: Space) -> None:
        for number in range(3 * WAITING):
            packed.set(f"urn:{number}", {"text": "red"})
        finder = finder_of(packed)
        finder.find("red")
        assert finder.bodies.keys() == {row.number for row in segments_of(packed)}
        finder.find("red")
        assert finder.found is not None
        assert {segment.body for segment in finder.found.segments} == {None}

    def test_a_caller_may_have_more_bodies_than_a_question_names(
        self, packed: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The bodies that are not named come again, and the question is not refused."""
        packed.transact([put(f"urn:{number}", {"text": "red"}) for number in range(99)])
        have = [row.number for row in in_order(segments_of(packed))]
        found = packed.postings("packed-words/1", ["red"], known=[*have, *range(20_000)])
        assert found is not None
        assert [each.body is None for each in found.segments] == [True, True]
        for module in (space_module, packed_indexes):
            monkeypatch.setattr(module, "SEGMENTS_KNOWN_MAX", 1)
        found = packed.postings("packed-words/1", ["red"], known=have)
        assert found is not None
        assert sorted(each.body is None for each in found.segments) == [False, True]
        with pytest.raises(InvalidInput, match="`known` is a list of at most 1 "):
            packed._port.answer(packed.did, Postings("packed-words/1", ("red",), (1, 2)))

    def test_a_long_answer_comes_in_parts(
        self, packed: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(packed_indexes, "SEGMENT_ANSWER_BYTES_MAX", 1)
        monkeypatch.setattr(packed_indexes, "SEGMENTS_READ_AT_ONCE", 1)
        packed.transact([put(f"urn:{number}", {"text": "red"}) for number in range(99)])
        packed.transact([put(f"urn:{number}", {"text": "blue"}) for number in range(40)])
        first = packed._port.answer(packed.did, Postings("packed-words/1", ("red",)))
        assert first is not None
        assert [segment.body is None for segment in first.segments] == [False, True, True]
        assert first.postings == ()
        self.exact(packed)

    def test_only_the_postings_of_the_terms_are_read(self, packed: Space) -> None:
        packed.transact([put(f"urn:{number}", {"text": f"red w{number}"}) for number in range(9)])
        finder = finder_of(packed)
        finder.find("w3", "w3", "none")
        assert finder.found is not None
        assert [term for _, term, _ in finder.found.postings] == ["w3"]

    def test_what_is_pending_comes_as_notes_of_what_changed(
        self, packed: Space, index: PackedWords
    ) -> None:
        packed.transact([put(A, {"text": "red"}), put("other:a", 1)])
        topic = packed.create_branch("topic")
        topic.set(A, {"text": "blue"})
        topic.set(A, {"text": "blue", "n": 1})
        packed.delete(A)
        finder = finder_of(packed)
        finder.find("red")
        assert finder.found is not None
        told = [(each.version, each.id, each.rows) for each in finder.found.pending]
        assert told == [(1, A, (b'["red"]',)), (3, A, (b'["blue"]',)), (5, A, (b"null",))]
        noted = index.noted
        finder.find("red")
        assert index.noted == noted

    @pytest.mark.parametrize(
        ("wrong", "kind"),
        [
            ({"index": "packed-words/2"}, InvalidInput),
            ({"index": None}, InvalidInput),
            ({"terms": "red"}, InvalidInput),
            ({"terms": ("\ud800",)}, InvalidInput),
            ({"terms": (1,)}, InvalidInput),
            ({"terms": ("a",) * 10_001}, InvalidInput),
            ({"known": (True,)}, InvalidInput),
            ({"known": ("a",)}, InvalidInput),
            ({"view": View("none")}, NotFound),
            ({"view": View("main", 99)}, NotFound),
        ],
        ids=repr,
    )
    def test_nonsense_is_refused(self, packed: Space, wrong: dict[str, Any], kind: Any) -> None:
        packed.set(A, {"text": "red"})
        asked: dict[str, Any] = {"index": "packed-words/1", "terms": ("red",), **wrong}
        with pytest.raises(kind):
            packed._port.answer(packed.did, Postings(**asked))

    # -- commits -----------------------------------------------------------------------------------

    def test_a_commit_packs_no_more_than_what_waits_and_its_own(
        self, packed: Space, index: PackedWords
    ) -> None:
        for number in range(8 * WAITING):
            packed.set(f"urn:{number}", {"text": "red"})
        packed.transact([put(f"urn:{number}", {"text": "blue"}) for number in range(7)])
        assert index.packed
        assert max(index.packed) <= WAITING + 7
        assert sum(index.packed) >= 7 * WAITING

    def test_a_commit_that_concerns_no_index_asks_the_engine_nothing_more(
        self, index: PackedWords, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[str] = []
        for store in (self.store, self.open_fresh("plain", indexes=(index, PackedWords("p/2")))):
            space = store.space("x")
            space.set("other:a", 1)
            space.set("other:a", 2)
            for name in ("indexed", "changed", "derive", "segments", "put_segment"):
                _count(monkeypatch, engine_of(space), name, calls)
            monkeypatch.setattr(committer, "follow", _noting("follow", calls, index_upkeep.follow))
            space.set("other:a", 3)
            monkeypatch.undo()
        assert calls == []

    def test_segments_are_merged_after_the_commit_and_never_in_it(
        self, packed: Space, index: PackedWords
    ) -> None:
        """A commit inside of a commit of the same thread would be refused."""
        beside: list[int] = []
        index.in_merge = lambda: beside.append(packed.set("other:a", len(beside)).version)
        for number in range(60):
            packed.set(f"urn:{number}", {"text": "red blue"})
        assert beside
        assert max(index.merged) <= MERGED + SMALL
        small = [row for row in segments_of(packed) if row.size < SMALL]
        assert len(small) < MANY
        assert sum(row.size for row in small) < MERGED
        self.exact_in_the_past(packed)
        assert packed.verify().ok

    def test_many_tiny_segments_are_merged_too(
        self, packed: Space, index: PackedWords, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(segments, "PACKED_PENDING_BYTES_MAX", 10)
        for number in range(3 * MANY):
            packed.set(A, {"text": f"red {number}"})
            assert len(segments_of(packed)) <= MANY
        assert index.merged[0] == MANY
        self.exact_in_the_past(packed)

    def test_a_merge_that_fails_does_not_fail_the_commit(
        self, packed: Space, index: PackedWords
    ) -> None:
        def fail() -> None:
            raise ValueError("damaged")

        index.in_merge = fail
        for number in range(60):
            packed.set(f"urn:{number}", {"text": "red"})
        assert index.merged
        assert packed.version == 60
        self.exact(packed)

    def test_a_merge_gives_up_when_a_segment_was_replaced(
        self, packed: Space, index: PackedWords
    ) -> None:
        """Rows that were erased, or built anew, must not come back, nor be there twice."""
        done: list[str] = []

        def disturb() -> None:
            if not done:
                done.append("erased")
                packed.erase("urn:1", reason="asked to")

        index.in_merge = disturb
        for number in range(40):
            packed.set(f"urn:{number}", {"text": f"red secret{number}x"})
        assert done
        assert b"secret1x" not in stored(packed)
        self.exact(packed)
        assert packed.verify().ok

    def test_an_index_is_kept_only_when_it_was_asked_for(self) -> None:
        index = PackedWords(is_eager=False)
        space = self.open_fresh("lazy", indexes=(index,)).space("x")
        for number in range(3 * WAITING):
            space.set(f"urn:{number}", {"text": "red"})
        space.reindex()
        assert index.packed == []
        assert segments_of(space) == []
        self.exact(space)
        assert segments_of(space)
        for number in range(2 * WAITING):
            space.set(f"urn:{number}", {"text": "blue"})
        assert len(index.packed) == 2
        self.exact_in_the_past(space)
        assert space.verify().ok

    def test_large_values_do_not_wait_but_notes_of_them(
        self, packed: Space, index: PackedWords
    ) -> None:
        packed.set(A, {"text": "red", "more": "x" * 600_000})
        assert (index.noted, index.packed) == (0, [])
        packed.set(B, {"text": "red", "more": "x" * 600_000})
        assert (index.noted, index.packed) == (2, [])
        for number in range(WAITING - 1):
            packed.set(f"urn:{number}", {"text": "red"})
        assert index.packed == [WAITING + 1]
        self.exact_in_the_past(packed)

    def test_a_patch_of_a_large_value_costs_what_it_changes(
        self, packed: Space, index: PackedWords, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A value that is too large for a commit may be patched there, and is looked at once."""
        packed.set(A, {"text": "red", "more": "x" * 1_200_000, "list": []})
        self.exact(packed)
        index.packed.clear()
        noted = index.noted
        for number in range(WAITING):
            packed.patch(A, [add("/list/-", number), add("/text", f"blue {number}")])
        assert (index.noted, index.packed) == (noted + WAITING, [])
        packed.patch(A, [add("/text", "odd")])
        assert index.packed == [WAITING + 1]
        finder = finder_of(packed)
        finder.find("red")
        assert finder.found is not None
        assert finder.found.pending == ()
        self.exact_in_the_past(packed)
        assert packed.verify().ok

    def test_an_index_that_comes_later_replays_each_patch_once(
        self, packed: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """To read each version of a value by itself would replay all patches before it each time."""
        packed.set(A, {"text": "red", "more": "x" * 5_000})
        for number in range(40):
            packed.patch(A, [add("/text", f"blue {number}")])
        replays: list[str] = []
        real = entries.apply_stored

        def counted(*arguments: Any) -> Any:
            replays.append("")
            return real(*arguments)

        monkeypatch.setattr(entries, "apply_stored", counted)
        packed.reindex()
        assert len(replays) <= 3
        monkeypatch.undo()
        self.exact_in_the_past(packed)

    @pytest.mark.parametrize(
        ("bound", "most"),
        [
            ("PACKED_COMMIT_BYTES_MAX", 50),
            ("PACKED_CHANGE_BYTES_MAX", 50),
            ("PACKED_COMMIT_ROWS_MAX", 0),
        ],
    )
    def test_a_commit_that_is_too_large_leaves_the_index_behind(
        self,
        packed: Space,
        index: PackedWords,
        monkeypatch: pytest.MonkeyPatch,
        bound: str,
        most: int,
    ) -> None:
        """Others must not wait for it. Whoever asks packs it in pieces, and others do not wait."""
        packed.set(A, {"text": "red"})
        monkeypatch.setattr(segments, bound, most)
        monkeypatch.setattr(segment_building, "PACKED_COMMIT_BYTES_MAX", 50)
        monkeypatch.setattr(segment_building, "INDEX_SPAN_COMMITS", 1)
        for number in range(3):
            large = [put(f"urn:{each}", {"text": f"red {number}" * 9}) for each in range(9)]
            packed.transact(large)
        packed.set(B, {"text": "blue"})
        assert index.packed == []
        assert index.noted <= 1
        index.in_pack = lambda: packed.set("other:a", 1)
        self.exact(packed)
        assert index.packed[0] <= 10
        assert sum(index.packed[:4]) >= 28
        index.in_pack = lambda: None
        monkeypatch.undo()
        self.exact_in_the_past(packed)
        index.packed.clear()
        packed.transact([put(f"urn:{number}", {"text": "green"}) for number in range(300)])
        assert max(index.packed) >= 300
        assert packed.verify().ok

    def test_an_index_that_is_behind_is_not_looked_at_until_it_was_brought_on(
        self, packed: Space, index: PackedWords, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each look would read all that it has missed."""
        monkeypatch.setattr(segments, "PACKED_COMMIT_ROWS_MAX", 0)
        monkeypatch.setattr(index_upkeep, "INDEX_BEHIND_COMMITS", 1)
        packed.transact([put(f"urn:{number}", {"text": "red"}) for number in range(WAITING + 1)])
        noted = index.noted
        for number in range(9):
            packed.set(A, {"text": f"red {number}"})
        assert index.noted == noted
        monkeypatch.setattr(segments, "PACKED_COMMIT_ROWS_MAX", 99)
        self.exact(packed)
        index.packed.clear()
        for number in range(2 * WAITING):
            packed.set(A, {"text": f"blue {number}"})
        assert index.packed == [WAITING + 1]

    # -- transactions ------------------------------------------------------------------------------

    def test_a_transaction_notes_the_range_that_its_answer_is_about(self, packed: Space) -> None:
        packed.set(A, {"text": "red"})
        for id, conflicts in ((B, True), ("other:a", False)):
            try:
                with packed.transaction() as tx:
                    found = finder_of(packed, within=tx).find("red")
                    assert found == {"red": [A]}
                    packed.set(id, {"text": "red"})
                    tx.set("other:b", 1)
            except Conflict:
                assert conflicts
            else:
                assert not conflicts
            packed.delete(id)

    def test_a_transaction_with_own_writes_has_to_scan(self, packed: Space) -> None:
        packed.set(A, {"text": "red"})
        with packed.transaction() as tx:
            tx.set("other:a", 1)
            assert finder_of(packed, within=tx).find("red") == {"red": [A]}
            tx.set(C, {"text": "red"})
            assert finder_of(packed, within=tx).find("red") is None
            assert finder_of(packed, within=tx).find("red", view=View("main", 0)) == {"red": []}

    def test_a_run_asks_its_snapshot(self, packed: Space) -> None:
        packed.set(A, {"text": "red"})
        with packed.run(workflow_id="w", model=None, policy_set_id="p") as run:
            packed.set(B, {"text": "red"})
            reading: Any = run._reading
            assert finder_of(packed, within=reading).find("red", view=reading._view) == {"red": [A]}


def _count(patches: pytest.MonkeyPatch, engine: Any, name: str, calls: list[str]) -> None:
    """Note calls of a method of the engine's readers and writers."""
    kinds = {kind for each in (engine.reader(),) for kind in type(each).__mro__}
    with engine.writer(1) as rows:
        kinds |= set(type(rows).__mro__)
    for kind in kinds:
        if name in vars(kind):
            patches.setattr(kind, name, _noting(name, calls, vars(kind)[name]))


def _noting(name: str, calls: list[str], function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*given: Any, **named: Any) -> Any:
        calls.append(name)
        return function(*given, **named)

    return noted
