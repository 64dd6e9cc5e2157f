"""Packed indexes when content is erased, history compacted, bytes changed, and when stores share them."""

from random import Random
from typing import Any

import pytest

from rote.contract import View
from rote.engines.rows import SegmentRow
from rote.errors import Corrupt, Unavailable
from rote.kernel.reading import index_changes, packed_indexes, segment_building, segments
from rote.kernel.reading.segments import SegmentKeeper
from rote.kernel.state.space_reader import SpaceReader
from rote.space import Space
from rote.testing.marks import each_test_uses
from rote.testing.packed_words import MANY, MERGED, SMALL, WAITING, PackedWords, scanned
from rote.testing.space_suite.ground import A, B, C, kernel_of, put
from rote.testing.space_suite.packed_ground import (
    PackedGround,
    engine_of,
    finder_of,
    reader_of,
    segments_of,
    stored,
    text,
    write_history,
)
from rote.values.limits import INDEX_BATCH_COMMITS


@each_test_uses("bounds")
class PackedKeepingTests(PackedGround):
    def test_nothing_of_an_erased_entity_is_left(self, packed: Space, index: PackedWords) -> None:
        ids = [f"urn:{number:03d}" for number in range(70)]
        for id in ids:
            packed.set(id, {"text": f"red of-{id}"})
        topic = packed.create_branch("topic")
        topic.set(ids[5], {"text": "blue of-urn:005-too"})
        packed.set(ids[66], {"text": "pending of-urn:066-too"})
        assert any(row.size >= SMALL for row in segments_of(packed))
        before = stored(packed)
        assert b"of-urn:005" in before
        index.held.clear()
        packed.erase(ids=[ids[5], ids[66]], reason="asked to")
        assert True in index.held
        assert False in index.held
        left = stored(packed)
        assert b"urn:005" not in left
        assert b"urn:066" not in left
        assert b"of-urn:004" in left
        for number in range(2 * WAITING):
            packed.set(f"urn:{number}", {"text": "odd"})
        assert b"urn:066" not in stored(packed)
        self.exact(packed)
        packed.set(ids[5], {"text": "red"})
        self.exact(packed)
        assert packed.verify().ok

    def test_an_erasure_drops_an_index_that_is_damaged(self, packed: Space) -> None:
        for number in range(2 * WAITING):
            packed.set(f"urn:{number}", {"text": f"secret{number}"})
        self.plant(packed, lambda row: SegmentRow(row.number, row.size, row.until, b"\xff[secret1"))
        packed.erase("urn:1", reason="asked to")
        assert stored(packed) == b""
        self.exact(packed)
        assert b"secret0" in stored(packed)
        assert packed.verify().ok

    @pytest.mark.parametrize("asked_before", [False, True])
    def test_an_index_is_built_from_what_a_compaction_left(
        self, packed: Space, asked_before: bool
    ) -> None:
        write_history(packed, Random(3), 60)
        if asked_before:
            self.exact(packed)
        packed.compact(before=packed.version - 20)
        assert segments_of(packed) == []
        self.exact_in_the_past(packed)
        assert packed.verify().ok
        for number in range(3 * WAITING):
            packed.set(f"urn:{number}", {"text": "odd"})
        self.exact_in_the_past(packed)
        packed.reindex()
        self.exact_in_the_past(packed)
        assert packed.verify().ok

    def test_others_write_while_an_index_is_built_after_a_compaction(
        self, packed: Space, index: PackedWords, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(segment_building, "PACKED_COMMIT_BYTES_MAX", 50)
        monkeypatch.setattr(index_changes, "INDEX_BATCH_COMMITS", 5)
        write_history(packed, Random(3), 60)
        packed.compact(before=packed.version - 20)
        index.packed.clear()
        index.in_pack = lambda: packed.set("other:a", 1)
        finder_of(packed).find("red")
        index.in_pack = lambda: None
        assert len(index.packed) > 3
        assert max(index.packed) < 40
        self.exact_in_the_past(packed)
        assert packed.verify().ok

    def test_few_small_segments_are_left_after_an_index_was_built(
        self, packed: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(segment_building, "PACKED_COMMIT_BYTES_MAX", 50)
        monkeypatch.setattr(index_changes, "INDEX_BATCH_COMMITS", 3)
        for number in range(100):
            packed.set(f"urn:{number}", {"text": "red"})
        packed.compact(before=packed.version)
        self.exact(packed)
        small = [row.size for row in segments_of(packed) if row.size < SMALL]
        assert len(small) < MANY
        assert sum(small) < MERGED
        assert packed.verify().ok

    def test_an_entity_with_many_facts_below_the_horizon_is_right(
        self, packed: Space, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its facts may be on two pages, and branches inherit some of them."""
        values = [{"text": "red"}, {}, {"text": "blue"}, {"text": "blue"}, {}, {"text": "red"}]
        for number, value in enumerate(values):
            packed.set(A, value)
            packed.create_branch(f"b{number}").set(B, value)
        for number, value in enumerate(reversed(values)):
            packed.on(f"b{number}").set(A, value)
        packed.set(C, 1)
        packed.compact(before=packed.version)
        monkeypatch.setattr(index_changes, "INDEX_BATCH_COMMITS", 2)
        packed.reindex()
        self.exact(packed)
        monkeypatch.undo()
        assert packed.verify().ok

    # -- verify ------------------------------------------------------------------------------------

    def plant(self, space: Space, change: Any, *, indexed: int | None = None) -> None:
        """Replace the first segment by what `change` makes of it, without a new number."""
        reads, number = reader_of(space)
        name = "packed-words/1"
        row = reads.segments(number, name)[0]
        body = reads.segment_bodies(number, name, [row.number])[row.number]
        postings = reads.postings_of(number, name, row.number, after="", limit=999)
        changed = change(SegmentRow(row.number, row.size, row.until, body))
        with engine_of(space).writer(number) as rows:
            rows.drop_segments(number, name, [row.number])
            if changed is not None:
                rows.put_segment(number, name, changed, postings)
            if indexed is not None:
                rows.derive(number, name, rows=(), ended=(), indexed=indexed)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda row: None, "does not match the log"),
            (
                lambda row: SegmentRow(
                    row.number, row.size, row.until, row.body.replace(b"red", b"rad")
                ),
                "does not match the log",
            ),
            (
                lambda row: SegmentRow(row.number, row.size + 1, row.until, row.body),
                "has segments of another size than they say",
            ),
            (
                lambda row: SegmentRow(row.number, row.size, 999, row.body),
                "has rows from beyond what it covers",
            ),
        ],
    )
    def test_verify_finds_what_was_changed(self, packed: Space, change: Any, message: str) -> None:
        for number in range(2 * WAITING):
            packed.set(f"urn:{number}", {"text": "red"})
        assert packed.verify().ok
        self.plant(packed, change)
        faults = packed.verify().faults
        assert [(each.kind, each.message) for each in faults] == [
            ("index", f"packed-words/1 {message}")
        ]
        packed.reindex()
        assert packed.verify().ok
        self.exact(packed)

    def test_verify_finds_an_index_that_is_ahead_and_one_that_is_unreadable(
        self, packed: Space
    ) -> None:
        for number in range(2 * WAITING):
            packed.set(f"urn:{number}", {"text": "red"})
        self.plant(packed, lambda row: row, indexed=999)
        assert "ahead of the log" in packed.verify().faults[0].message
        packed.reindex()
        self.plant(packed, lambda row: SegmentRow(row.number, row.size, row.until, b"\xff"))
        assert [each.kind for each in packed.verify().faults] == ["unreadable"]


@each_test_uses("bounds")
class SharedPackedIndexTests(PackedGround):
    @pytest.mark.parametrize(
        "how", ["erase", "compact", "build", "reindex", "drop", "merge", "die"]
    )
    @pytest.mark.parametrize("when", [1, 2])
    @pytest.mark.parametrize("horizon", [0, 25])
    def test_an_index_is_built_right_whatever_happens_meanwhile(
        self, monkeypatch: pytest.MonkeyPatch, how: str, when: int, horizon: int
    ) -> None:
        monkeypatch.setattr(segment_building, "PACKED_COMMIT_BYTES_MAX", 50)
        monkeypatch.setattr(segment_building, "INDEX_SPAN_COMMITS", 5)
        monkeypatch.setattr(index_changes, "INDEX_BATCH_COMMITS", 5)
        index = PackedWords()
        space, other = self.open_packed(index), self.open_packed(PackedWords())
        for number in range(30):
            space.set(f"urn:{number}", {"text": f"red secret{number}x"})
        if horizon:
            space.compact(before=horizon)
        index.packed.clear()
        engine, number = engine_of(other), reader_of(other)[1]

        def disturb() -> None:
            if len(index.packed) != when:
                return
            if how == "erase":
                other.erase(ids=["urn:0", "urn:1", "urn:14"], reason="asked to")
            elif how == "compact":
                other.compact(before=28)
            elif how == "build":
                self.exact(other)
            elif how == "reindex":
                other.reindex()
            elif how == "drop":
                with engine.writer(number) as rows:
                    rows.drop_derived(number, index.name)
            elif how == "merge":
                opened = kernel_of(other._port).spaces.open(other.did)
                with monkeypatch.context() as lowered:
                    lowered.setattr(segments, "SEGMENT_MERGE_ROWS", 2)
                    merged = segments.merge_small(opened, PackedWords())
                assert not (horizon and merged), "nobody merges what is half built"
            else:
                assert other.verify().ok
                raise Unavailable("out of room")

        index.in_pack = disturb
        try:
            space.reindex()
        except Unavailable:
            assert how == "die"
            assert other.verify().ok
            other.erase(ids=["urn:0", "urn:1", "urn:14"], reason="asked to")
            assert b"secret1x" not in stored(other)
        assert len(index.packed) >= when
        self.exact_in_the_past(other)
        self.exact_in_the_past(space)
        erased = how in ("erase", "die")
        assert (b"secret1x" in stored(space)) is not erased
        assert sum(row.size for row in segments_of(space)) == (27 if erased else 30)
        assert space.verify().ok

    def test_an_index_that_is_ahead_of_the_log_answers_nothing(self) -> None:
        """Later writes would never be found. Commits go on: the log is not damaged."""
        space = self.open_packed(PackedWords())
        for number in range(2 * WAITING):
            space.set(f"urn:{number}", {"text": "red"})
        reads, number = reader_of(space)
        with engine_of(space).writer(number) as rows:
            rows.derive(number, "packed-words/1", rows=(), ended=(), indexed=999)
        other = self.open_packed(PackedWords())
        for _ in range(2):
            with pytest.raises(Corrupt, match="repair"):
                finder_of(other).find("red")
            for each in range(WAITING + 1):
                other.set(f"urn:new{each}", {"text": "blue"})
        assert reads.indexed(number, "packed-words/1") == 999
        other.reindex()
        self.exact_in_the_past(other)
        assert other.verify().ok

    def test_stores_that_write_in_turn_agree(self) -> None:
        indexes = [PackedWords(), PackedWords()]
        spaces = [self.open_packed(index) for index in indexes]
        finders = [finder_of(space) for space in spaces]
        for number in range(12 * WAITING):
            space = spaces[number % 2]
            space.set(f"urn:{number % 17}", text(Random(number)))
            if number % 5 == 0:
                self.exact(space, finders[number % 2])
        for space in spaces:
            self.exact_in_the_past(space)
        assert indexes[0].merged or indexes[1].merged
        assert spaces[0].verify().ok

    @pytest.mark.parametrize("eraser", [0, 1])
    def test_what_was_erased_while_it_waited_is_in_no_answer_and_no_segment(
        self, eraser: int
    ) -> None:
        spaces = [self.open_packed(PackedWords()) for _ in range(2)]
        spaces[0].transact([put(A, {"text": "secret red"}), put(B, {"text": "red"})])
        version = spaces[0].version
        finder = finder_of(spaces[0])
        assert finder.find("secret") == {"secret": [A]}
        spaces[eraser].erase(A, reason="asked to")
        for view in (View("main", version), View()):
            finder.find("secret", view=view)
            assert finder.found is not None
            assert "secret" not in repr(finder.found.pending)
        for number in range(2 * WAITING):
            spaces[0].set(f"urn:{number}", {"text": "odd"})
        assert b"secret" not in stored(spaces[1])
        assert spaces[0].verify().ok

    def test_two_merges_at_once_double_no_row(self) -> None:
        """The one that comes second finds that the segments are gone."""
        first, second = PackedWords(), PackedWords()
        spaces = [self.open_packed(index) for index in (first, second)]

        def merge_as_well() -> None:
            first.in_merge = lambda: None
            opened = kernel_of(spaces[1]._port).spaces.open(spaces[1].did)
            segments.merge_small(opened, second)

        first.in_merge = merge_as_well
        for number in range(40):
            spaces[0].set(f"urn:{number}", {"text": "red blue"})
        assert len(first.merged) == len(second.merged) == 1
        assert sum(row.size for row in segments_of(spaces[0])) <= 40
        self.exact_in_the_past(spaces[0])
        assert spaces[0].verify().ok

    @pytest.mark.parametrize("how", ["merge", "reindex", "compact", "add"])
    @pytest.mark.parametrize("known", [False, True])
    def test_an_answer_is_of_one_state_whatever_others_do_meanwhile(
        self, how: str, known: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index = PackedWords()
        space, other = self.open_packed(PackedWords()), self.open_packed(index)
        for number in range(4):
            space.transact([put(f"urn:{number}-{each}", {"text": "red"}) for each in range(10)])
        assert len(segments_of(space)) > 1
        finder = self.exact(space) if known else finder_of(space)
        disturbed: list[str] = []
        read = packed_indexes._bodies

        def disturb(*arguments: Any) -> Any:
            if not disturbed:
                disturbed.append(how)
                opened = kernel_of(other._port).spaces.open(other.did)
                if how == "merge":
                    monkeypatch.setattr(segments, "SEGMENT_SMALL_ROWS", 99)
                    segments.merge_small(opened, index)
                elif how == "reindex":
                    other.reindex()
                elif how == "compact":
                    other.compact(before=3)
                else:
                    for number in range(2 * WAITING):
                        other.set(f"urn:x{number}", {"text": "red"})
            return read(*arguments)

        monkeypatch.setattr(packed_indexes, "_bodies", disturb)
        found = finder.find("red")
        assert disturbed
        assert finder.found is not None
        assert found == scanned(space.at(finder.found.version), "red")

    def test_no_answer_is_from_between_dropping_an_index_and_building_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        space, other = self.open_packed(PackedWords()), self.open_packed(PackedWords())
        for number in range(WAITING + 3):
            space.set(f"urn:{number}", {"text": "red"})
        finder = self.exact(space)
        reads, number = reader_of(space)
        assert 0 < reads.indexed(number, "packed-words/1") < space.version
        line, bodies = SpaceReader.line, packed_indexes._bodies
        done: list[str] = []

        def dropping(*arguments: Any) -> Any:
            if not done:
                done.append("dropped")
                with engine_of(space).writer(number) as rows:
                    rows.drop_derived(number, "packed-words/1")
            return line(*arguments)

        def building(*arguments: Any) -> Any:
            if len(done) == 1:
                done.append("built")
                opened = kernel_of(other._port).spaces.open(other.did)
                assert segment_building.bring_on(opened, SegmentKeeper(PackedWords()))
            return bodies(*arguments)

        monkeypatch.setattr(SpaceReader, "line", dropping)
        monkeypatch.setattr(packed_indexes, "_bodies", building)
        found = finder.find("red")
        assert done == ["dropped", "built"]
        assert found == scanned(space, "red")

    def test_a_store_that_is_only_looked_at_answers_from_what_is_there(self) -> None:
        written = self.open_packed(PackedWords())
        for number in range(5 * WAITING + 2):
            written.set(f"urn:{number}", {"text": "red"})
        assert segments_of(written)
        self.exact(self.open_packed(PackedWords(), read_only=True))
        behind = self.open_packed(PackedWords("packed-words/2"), read_only=True)
        assert finder_of(behind, "packed-words/2").find("red") is None
        assert segments_of(written, "packed-words/2") == []

    def test_an_erasure_drops_an_index_that_is_not_declared(self) -> None:
        """Nobody there can tell which of its bytes are about the entity."""
        packed, plain = self.open_packed(PackedWords()), self.open(indexes=()).space("notes")
        for number in range(2 * WAITING):
            packed.set(f"urn:{number}", {"text": f"red secret{number}"})
        assert b"secret1" in stored(packed)
        plain.erase("urn:1", reason="asked to")
        assert stored(packed) == b""
        self.exact(packed)
        assert b"secret0" in stored(packed)
        assert packed.verify().ok

    def test_an_index_is_built_when_it_is_first_asked(self) -> None:
        plain = self.open(indexes=()).space("notes")
        for word in ("red", "blue"):
            plain.transact([put(f"urn:{number}", {"text": word}) for number in range(9)])
            for _ in range(INDEX_BATCH_COMMITS):
                plain.set("other:a", 1)
        packed = self.open_packed(PackedWords())
        self.exact(packed)
        assert segments_of(packed)
        assert packed.verify().ok

    def test_an_index_that_others_did_not_keep_is_brought_up(self) -> None:
        packed = self.open_packed(PackedWords())
        for number in range(2 * WAITING):
            packed.set(f"urn:{number}", {"text": "red"})
        plain = self.open(indexes=()).space("notes")
        for number in range(3 * WAITING):
            plain.set(f"urn:{number}", {"text": "blue"})
        self.exact(packed)
        for _ in range(INDEX_BATCH_COMMITS + 1):
            plain.set("other:a", 1)
        self.exact(packed)
        assert packed.verify().ok
