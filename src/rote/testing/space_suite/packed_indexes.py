"""Packed indexes through the port: exact at every version and branch, whatever is merged or erased."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from rote.contract import View
from rote.contract.commands import Postings
from rote.engines import Engine, Reader
from rote.engines.rows import SegmentRow
from rote.errors import Conflict, InvalidInput, NotFound
from rote.kernel.committing import committer
from rote.kernel.reading import index_upkeep, packed_indexes, segments
from rote.space import Space
from rote.testing.marks import each_test_uses
from rote.testing.packed_words import PackedWords, WordFinder, scanned
from rote.testing.space_suite.ground import A, B, C, SpaceGround, add, kernel_of, put
from rote.values.limits import INDEX_BATCH_COMMITS

WORDS = "red", "blue", "green", "odd"
# Bounds that tests can reach: changes that wait, rows of a small segment, rows and segments to merge.
WAITING, SMALL, MERGED, MANY = 4, 12, 24, 6
BOUNDS = {
    "PACKED_PENDING_MAX": WAITING,
    "SEGMENT_SMALL_ROWS": SMALL,
    "SEGMENT_MERGE_ROWS": MERGED,
    "SEGMENT_SMALL_MAX": MANY,
}


class PackedGround(SpaceGround):
    """Asks a packed index, and compares it with a scan."""

    @pytest.fixture
    def bounds(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        for name, bound in BOUNDS.items():
            monkeypatch.setattr(segments, name, bound)
        yield

    def open_packed(self, index: PackedWords, **changes: Any) -> Space:
        return self.open(indexes=(index,), **changes).space("notes")

    def exact(self, space: Space, finder: WordFinder | None = None) -> WordFinder:
        """Compare the index with a scan on all branches at their heads."""
        finder = finder or finder_of(space)
        for branch in space.branches():
            on = space.on(branch.name)
            assert finder.find(*WORDS, view=View(branch.name)) == scanned(on, *WORDS)
        return finder

    def exact_in_the_past(self, space: Space) -> None:
        """Compare the index with a scan at every version that can be read."""
        finder = finder_of(space)
        for version in readable(space):
            for branch in space.at(version).branches():
                view, on = View(branch.name, version), space.on(branch.name).at(version)
                assert finder.find(*WORDS, view=view) == scanned(on, *WORDS), view


def finder_of(space: Space, name: str = "packed-words/1", within: Any = None) -> WordFinder:
    """Return a finder that asks the port of a space, or of a transaction on it."""
    return WordFinder((within or space)._port, space.did, name)


def engine_of(space: Space) -> Engine:
    return kernel_of(space._port).spaces.wiring.engine


def reader_of(space: Space) -> tuple[Reader, int]:
    """Return a reader of the engine below, and the number of the space."""
    spaces = kernel_of(space._port).spaces
    return spaces.wiring.engine.reader(), spaces.open(space.did).number


def segments_of(space: Space, name: str = "packed-words/1") -> list[SegmentRow]:
    reads, number = reader_of(space)
    return reads.segments(number, name)


def stored(space: Space, name: str = "packed-words/1") -> bytes:
    """Return all that is stored of an index."""
    reads, number = reader_of(space)
    numbers = [row.number for row in reads.segments(number, name)]
    parts = list(reads.segment_bodies(number, name, numbers).values())
    for segment in numbers:
        for term, body in reads.postings_of(number, name, segment, after="", limit=9_999):
            parts += [term.encode(), body]
    return b"\n".join(parts)


def readable(space: Space) -> range:
    oldest = next((commit.version for commit in space.log(since=None)), 1)
    return range(oldest, space.version + 1)


def text(random: Random) -> dict[str, Any]:
    return {"text": " ".join(random.sample(WORDS, random.randint(0, 3)))}


def write_history(space: Space, random: Random, steps: int) -> None:
    """Write, delete, fork and merge at random."""
    branches = [space]
    for step in range(steps):
        on, id = random.choice(branches), f"urn:{random.randrange(9)}"
        kind = random.random()
        if kind < 0.08 and len(branches) < 4:
            branches.append(on.create_branch(f"b{len(branches)}"))
        elif kind < 0.16 and len(branches) > 1:
            source = random.choice([each.branch for each in branches if each is not on])
            on.merge(source, on_conflict=random.choice(["ours", "theirs"]))
        elif kind < 0.3 and on.read(id).exists:
            on.delete(id)
        elif kind < 0.45 and on.read(id).exists:
            on.patch(id, [add("/text", text(random)["text"])])
        elif kind < 0.55:
            on.set(f"other:{step}", step)
        elif kind < 0.65:
            on.transact([put(f"urn:{number}", text(random)) for number in range(5)])
        else:
            on.set(id, text(random))


@each_test_uses("bounds")
class PackedIndexTests(PackedGround):
    @pytest.fixture
    def index(self) -> PackedWords:
        return PackedWords()

    @pytest.fixture
    def packed(self, index: PackedWords) -> Space:
        return self.open_fresh("packed", indexes=(index,)).space("x")

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
            monkeypatch.setattr(committer, "follow", _noting("follow", calls, committer.follow))
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

    # -- keeping -----------------------------------------------------------------------------------

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
        monkeypatch.setattr(index_upkeep, "INDEX_BATCH_COMMITS", 2)
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
            reading: Any = run._reading  # type: ignore[attr-defined]
            assert finder_of(packed, within=reading).find("red", view=reading._view) == {"red": [A]}


@each_test_uses("bounds")
class SharedPackedIndexTests(PackedGround):
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
