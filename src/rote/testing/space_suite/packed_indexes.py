"""Packed indexes through the port: exact at every version and branch, with little work in a commit."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rote.contract import View
from rote.contract.commands import Postings
from rote.errors import Conflict, InvalidInput, NotFound
from rote.kernel.committing import committer
from rote.kernel.reading import index_upkeep, packed_indexes, segments
from rote.space import Space
from rote.testing.marks import each_test_uses
from rote.testing.packed_words import MANY, MERGED, SMALL, WAITING, PackedWords
from rote.testing.space_suite.ground import A, B, C, put
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

    def test_what_is_pending_comes_with_the_value_before(self, packed: Space) -> None:
        packed.transact([put(A, {"text": "red"}), put("other:a", 1)])
        topic = packed.create_branch("topic")
        topic.set(A, {"text": "blue"})
        packed.delete(A)
        finder = finder_of(packed)
        finder.find("red")
        assert finder.found is not None
        told = [(each.version, each.before, each.after) for each in finder.found.pending]
        nothing = finder.found.pending[0].before
        assert told == [
            (1, nothing, {"text": "red"}),
            (3, {"text": "red"}, {"text": "blue"}),
            (4, {"text": "red"}, nothing),
        ]
        assert repr(nothing) == "UNSET"

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

    def test_values_that_are_large_do_not_wait(self, packed: Space, index: PackedWords) -> None:
        packed.set(A, {"text": "red", "more": "x" * 600_000})
        assert index.packed == []
        packed.set(B, {"text": "red", "more": "x" * 600_000})
        assert index.packed == [2]

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
