"""The bytes of segments: they depend on the rows alone, and hostile ones are refused."""

import zlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, cast

import msgspec
import pytest

from rote.contract import Packed
from rote.contract.index import Change
from rote.errors import Corrupt
from rote.questions import parse_request
from rote.retrieval.ranking.scoring import telling_of
from rote.retrieval.segments import segment as segments
from rote.retrieval.segments.asking import Answer
from rote.retrieval.segments.living import Living, in_order
from rote.retrieval.segments.memories import FoundMemories
from rote.retrieval.segments.segment import Segment
from rote.retrieval.segments.words import WORDS, WORDS_NONE, WordsIndex
from rote.space import Space
from tests.lanes import examples
from tests.unit.retrieval.segments.changes import changes, pack, record

INDEXES = (WORDS, WORDS_NONE)


def drawn(seed: int) -> tuple[Random, list[Change]]:
    random = Random(seed)
    return random, changes(random, random.choice((0, 1, 10, 60)))


def some(seed: int) -> tuple[Random, list[Change]]:
    random = Random(seed)
    return random, changes(random, 30)


def packed(index: WordsIndex, given: Iterable[Change]) -> Packed:
    """Return the one segment of some changes, also when it is empty."""
    return index.merge(pack(index, list(given)))


@pytest.fixture(params=[4_096, 8], ids=["small", "large"])
def rows_small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a test with postings in the bodies, and with postings of their own."""
    rows: int = request.param
    monkeypatch.setattr(segments, "SEGMENT_SMALL_ROWS", rows)
    return rows


@pytest.mark.usefixtures("rows_small")
def test_segments_merge_to_the_segment_of_all_changes() -> None:
    for seed in range(examples(60, 5_000)):
        random, given = drawn(seed)
        index = random.choice(INDEXES)
        cuts = sorted(random.choices(range(len(given) + 1), k=random.randrange(4)))
        pieces = [given[a:b] for a, b in zip((0, *cuts), (*cuts, len(given)), strict=True)]
        parts = [part for piece in pieces for part in pack(index, piece)]
        assert index.merge(parts) == packed(index, given), seed


@pytest.mark.usefixtures("rows_small")
def test_a_segment_without_entities_is_that_of_the_others() -> None:
    for seed in range(examples(60, 5_000)):
        random, given = drawn(seed)
        index = random.choice(INDEXES)
        ids = sorted({change.id for change in given})
        erased = random.sample(ids, k=random.randrange(len(ids) + 1))
        whole = packed(index, given)
        left = packed(index, [change for change in given if change.id not in erased])
        assert index.without(whole, erased) == left, seed
        assert not index.holds(left.body, erased)
        assert index.holds(whole.body, ids) == (whole.size > 0)


@pytest.mark.usefixtures("rows_small")
def test_rows_are_the_same_however_segments_came_to_be() -> None:
    for seed in range(examples(40, 2_000)):
        random, given = drawn(seed)
        cut = random.randrange(len(given) + 1)
        parts = [*pack(WORDS, given[:cut]), *pack(WORDS, given[cut:])]
        apart = Counter(row for part in parts for row in WORDS.rows(part))
        whole = packed(WORDS, given)
        assert apart == Counter(WORDS.rows(whole)), seed
        assert len(list(WORDS.rows(whole))) == whole.size


def test_rows_differ_where_memories_do() -> None:
    template = record(Random(1), ("ops", "turn", "1"), 1_000_000, None)
    given = {**template, "payload": {"text": "tea"}, "metadata": {"user": 1}, "ttl_seconds": 5}
    for member, value in (
        ("payload", {"text": "another"}),
        ("metadata", {"tags": ["another"]}),
        ("metadata", {"user": True}),
        ("ttl_seconds", 7),
        ("updated_at", "1970-01-01T00:00:09.000000Z"),
    ):
        one, other = (
            pack(WORDS, [Change(1, 1, "record:ops!!turn!!1!!", after=each)])
            for each in (given, {**given, member: value})
        )
        assert list(WORDS.rows(*one)) != list(WORDS.rows(*other))


def test_an_append_adds_one_row() -> None:
    key = ("ops", "chat", "1")
    template = record(Random(1), key, 1_000_000, None)
    before = {**template, "payload": {"entries": [{"text": "tea"}] * 50}, "metadata": None}
    for ttl, rows in ((None, 1), (60, 2)):
        old = {**before, "ttl_seconds": ttl}
        new = {**old, "updated_at": "1970-01-01T00:00:09.000000Z"}
        new["payload"] = {"entries": [*old["payload"]["entries"], {"text": "more"}]}
        (segment,) = pack(WORDS, [Change(2, 1, "record:ops!!chat!!1!!", old, new)])
        assert segment.size == rows


def test_an_entry_that_shows_another_number_is_another_memory() -> None:
    template = record(Random(1), ("ops", "chat", "1"), 1_000_000, None)
    old, new = ({**template, "payload": {"entries": [{"n": n}]}} for n in (1, True))
    (segment,) = pack(WORDS_NONE, [Change(2, 1, "record:ops!!chat!!1!!", old, new)])
    assert b'["true",1]' in next(WORDS_NONE.rows(segment))


def test_many_occurrences_count_as_255() -> None:
    template = record(Random(1), ("ops", "note", "1"), 1_000_000, None)
    given = {**template, "payload": {"text": "tea " * 300}}
    (packed,) = pack(WORDS, [Change(1, 1, "record:ops!!note!!1!!", after=given)])
    segment = Segment(packed.body)
    posting = segment.posting("tea", packed.postings)
    assert posting is not None
    assert (list(posting.repeats), list(posting.counts)) == ([0], [255])
    assert segment.length[0] >= 300


def test_a_change_of_nothing_that_counts_has_no_rows() -> None:
    same = record(Random(1), ("ops", "chat", "1"), 1_000_000, None)
    assert pack(WORDS, [Change(2, 1, "record:ops!!chat!!1!!", same, same)]) == []
    assert pack(WORDS, [Change(2, 1, "record:ops!!chat!!1!!")]) == []
    assert pack(WORDS, []) == []


def test_a_segment_holds_no_more_rows_than_two_bytes_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rote.retrieval.segments.words.SEGMENT_ROWS_MAX", 7)
    _, given = some(5)
    parts = pack(WORDS, given)
    assert len(parts) > 2
    assert {part.size for part in parts[:-1]} == {7}
    rows = [row for part in parts for row in WORDS.rows(part)]
    monkeypatch.undo()
    assert rows == list(WORDS.rows(packed(WORDS, given)))


@pytest.mark.usefixtures("rows_small")
def test_hostile_bytes_are_refused() -> None:
    for seed in range(examples(400, 50_000)):
        random, given = some(seed)
        whole = packed(WORDS, given)
        body, postings = damaged(random, whole)
        hostile, id = Packed(whole.size, body, postings), given[0].id
        for use in (
            partial(lambda each: list(WORDS.rows(each)), hostile),
            partial(WORDS.merge, [hostile, whole]),
            partial(WORDS.without, hostile, [id]),
            partial(WORDS.holds, hostile.body, [id]),
            partial(ask, hostile),
        ):
            with suppress(Corrupt):
                use()


def test_a_repeated_term_that_is_not_there_is_refused() -> None:
    (whole,) = pack(WORDS, some(5)[1])
    raw: Any = msgspec.msgpack.decode(zlib.decompress(whole.body))
    held = raw[-1]
    assert held[3]  # the places of repeated terms, four bytes each
    held[3] = held[3][:-4] + b"\xff\xff\xff\x7f"
    body = zlib.compress(msgspec.msgpack.encode(raw))
    with pytest.raises(Corrupt):
        WORDS.merge([Packed(whole.size, body, {})])


def ask(hostile: Packed) -> None:
    """Ask a segment as a question does."""
    segment = Segment(hostile.body, postings=hostile.postings)
    living = Living.of(in_order([segment]), {1: 100, 2: 100})
    terms = [("plan", segment.posting("plan", {})), ("tea", segment.posting("tea", {}))]
    answer = Answer(
        living.at(0), [{term: each for term, each in terms if each}] * (segment.size > 0)
    )
    found = FoundMemories(cast(Space, None), "s", answer)
    given = {
        "policy": "lexical-1",
        "query": "plan tea",
        "store_paths": ["s"],
        "budget": {"max_excerpt_tokens": 100},
        "filters": {"threads": ["a"], "where": {"user": 1}},
    }
    request = parse_request(given, has_store=False, policies=("lexical-1",))
    telling = telling_of(request, [(len(found), found)])
    found.filtered(request.filters, ())
    for score, row in found.scores(request, telling, ()).best(10):
        assert score and found.rank_key(row)


def damaged(random: Random, whole: Packed) -> tuple[bytes, dict[str, bytes]]:
    """Return the parts of a segment with something changed, before it was compressed or after."""
    raw: Any = msgspec.msgpack.decode(zlib.decompress(whole.body))
    postings = dict(whole.postings)
    roll = random.random()
    if roll < 0.2:
        return damaged_bytes(random, whole.body), postings
    if roll < 0.4 and postings:
        term = random.choice(sorted(postings))
        postings[term] = damaged_bytes(random, postings[term])
        return whole.body, postings
    place = random.randrange(len(raw))
    parts = raw[place] if isinstance(raw[place], list) and raw[place] else raw
    place = random.randrange(len(parts)) if parts is not raw else place
    part = parts[place]
    parts[place] = (
        damaged_bytes(random, part)
        if isinstance(part, bytes) and part
        else random.choice((0, -1, 2**40, b"", b"x", "", "a\nb", [], ["x"], None, 1.5))
    )
    return zlib.compress(msgspec.msgpack.encode(raw)), postings


def damaged_bytes(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data))
    return random.choice(
        (
            data[:place],
            data[:place] + bytes([random.randrange(256)]) + data[place + 1 :],
            data + data[place:],
            b"",
        )
    )
