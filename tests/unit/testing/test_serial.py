"""The checker finds and names known anomalies, and clean histories pass."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.errors import InvalidInput, Unavailable
from rote.testing.serial import (
    Read,
    Record,
    Recorder,
    Recording,
    Scan,
    Write,
    check,
    decode_record,
    encode_record,
)
from rote.testing.serial.records import Outcome, Step
from tests.lanes import examples

X, Y = "urn:x", "urn:y"


def done(
    name: str,
    *steps: Step,
    version: int | None = None,
    at: tuple[int, int] | None = None,
    outcome: Outcome = "committed",
) -> Record:
    began, ended = at or (None, None)
    return Record(
        client=name, number=1, steps=steps, outcome=outcome, version=version, began=began,
        ended=ended,
    )  # fmt: skip


START = done("start", Write(X, "x0"), Write(Y, "y0"), version=1, at=(0, 1))

# The faults, each with the name that the checker should give it.
ANOMALIES: list[tuple[str, list[Record]]] = [
    (
        "lost update",
        [
            START,
            done("a", Read(X, "x0", 1), Write(X, "xa"), version=2),
            done("b", Read(X, "x0", 1), Write(X, "xb"), version=3),
        ],
    ),
    (
        "lost update",  # of an entity that was not there
        [
            done("a", Read(X, None, 0), Write(X, "xa"), version=1),
            done("b", Read(X, None, 0), Write(X, "xb"), version=2),
        ],
    ),
    (
        "write skew",
        [
            START,
            done("a", Read(X, "x0"), Read(Y, "y0"), Write(X, "xa"), version=2),
            done("b", Read(X, "x0"), Read(Y, "y0"), Write(Y, "yb"), version=3),
        ],
    ),
    (
        "write skew",  # by phantoms: each found nothing and wrote something
        [
            done("a", Scan("urn:x", {}), Write("urn:y/a", "1"), version=1),
            done("b", Scan("urn:y", {}), Write("urn:x/b", "2"), version=2),
        ],
    ),
    (
        "dirty read",
        [
            START,
            done("a", Write(X, "xa"), outcome="failed"),
            done("b", Read(X, "xa"), Write(Y, "yb"), version=2),
        ],
    ),
    (
        "dirty read",  # of a value that was overwritten before it was committed
        [
            START,
            done("a", Write(X, "first"), Write(X, "last"), version=2),
            done("b", Read(X, "first")),
        ],
    ),
    (
        "unwritten value",
        [START, done("a", Read(X, "from nowhere"), Write(Y, "ya"), version=2)],
    ),
    (
        "read skew",
        [
            START,
            done("a", Write(X, "xa"), Write(Y, "ya"), version=2),
            done("b", Read(X, "x0", 1), Read(Y, "ya", 2)),
        ],
    ),
    (
        "read skew",  # by a scan that saw one half
        [
            START,
            done("a", Write(X, "xa"), Write(Y, "ya"), version=2),
            done("b", Scan("urn:", {X: "x0", Y: "ya"})),
        ],
    ),
    (
        "fuzzy read",
        [
            START,
            done("a", Write(X, "xa"), version=2),
            done("b", Read(X, "x0"), Read(X, "xa")),
        ],
    ),
    (
        "stale read",
        [
            START,
            done("a", Write(X, "xa"), version=2, at=(2, 3)),
            done("b", Read(X, "x0", 1), at=(4, 5)),
        ],
    ),
    (
        "stale read",  # an acknowledged commit is gone
        [
            START,
            done("a", Write("urn:new", "na"), version=2, at=(2, 3)),
            done("b", Scan("urn:", {X: "x0", Y: "y0"}), at=(4, 5)),
        ],
    ),
    (
        "out of real time",  # a value from the future
        [
            START,
            done("b", Read(X, "xa", 2), at=(2, 3)),
            done("a", Write(X, "xa"), version=2, at=(4, 5)),
        ],
    ),
    (
        "circular flow",
        [
            done("a", Read(Y, "yb"), Write(X, "xa"), version=1),
            done("b", Read(X, "xa"), Write(Y, "yb"), version=2),
        ],
    ),
    (
        "own write lost",
        [START, done("a", Write(X, "xa"), Read(X, "x0"), version=2)],
    ),
    (
        "own write lost",
        [START, done("a", Write(X, "xa"), Scan("urn:", {X: "x0", Y: "y0"}), version=2)],
    ),
    (
        "version twice",
        [START, done("a", Write(X, "xa"), version=2), done("b", Write(Y, "yb"), version=2)],
    ),
    (
        "wrong version",
        [START, done("a", Read(X, "x0", 7), Write(Y, "ya"), version=8)],
    ),
    (
        "circular flow",  # versions that claim another order than the reads show
        [
            done("a", Write(X, "xa"), version=2),
            done("b", Read(X, "xa"), Write(X, "xb"), version=1),
        ],
    ),
    (
        "lost update",  # by a transaction of unknown outcome, until another read its write
        [
            START,
            done("a", Read(X, "x0"), Write(X, "xa"), outcome="unknown"),
            done("b", Read(X, "x0"), Write(X, "xb"), version=2),
            done("c", Read(X, "xa")),
        ],
    ),
]

CLEAN: dict[str, list[Record]] = {
    "nothing": [],
    "one after the other": [
        START,
        done("a", Read(X, "x0", 1), Write(X, "xa"), version=2, at=(2, 3)),
        done("b", Read(X, "xa", 2), Write(X, "xb"), version=3, at=(4, 5)),
        done("c", Scan("urn:", {X: "xb", Y: "y0"}), at=(6, 7)),
    ],
    "a reader of an older state that began before": [
        START,
        done("a", Write(X, "xa"), Write(Y, "ya"), version=2, at=(3, 4)),
        done("b", Read(X, "x0", 1), Read(Y, "y0", 1), at=(2, 5)),
    ],
    "a conflict": [
        START,
        done("a", Read(X, "x0"), Write(X, "xa"), version=2),
        done("b", Read(X, "x0"), Write(X, "xb"), outcome="failed"),
    ],
    "an unknown outcome that was not applied": [
        START,
        done("a", Read(X, "x0"), Write(X, "xa"), outcome="unknown"),
        done("b", Read(X, "x0"), Write(X, "xb"), version=2),
    ],
    "an unknown outcome that was applied, later than its client gave up": [
        START,
        done("a", Read(X, "x0"), Write(X, "xa"), outcome="unknown", at=(2, 3)),
        done("b", Read(X, "x0"), at=(4, 5)),
        done("c", Read(X, "xa"), Write(X, "xc"), version=3, at=(6, 7)),
    ],
    "blind writes": [
        START,
        done("a", Write(X, "xa"), version=2, at=(2, 5)),
        done("b", Write(X, "xb"), version=3, at=(2, 5)),
        done("c", Read(X, "xb", 3), at=(6, 7)),
    ],
    "its own writes": [
        START,
        done("a", Read(X, "x0"), Write(X, "xa"), Read(X, "xa"),
             Scan("urn:", {X: "xa", Y: "y0"}), version=2),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "history"), ANOMALIES, ids=[f"{n}-{kind}" for n, (kind, _) in enumerate(ANOMALIES)]
)
def test_a_known_anomaly_is_found_whatever_the_order_of_its_records(
    kind: str, history: list[Record]
) -> None:
    for seed in range(5):
        Random(seed).shuffle(history)
        assert [anomaly.kind for anomaly in check(history)] == [kind]


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_history_passes(name: str) -> None:
    assert check(CLEAN[name]) == ()


def test_an_anomaly_says_who_took_part() -> None:
    [found] = check(ANOMALIES[2][1])
    assert set(found.transactions) == {"a/1", "b/1"}
    assert str(found).startswith("write skew: ")
    assert "a/1 -rw-> b/1" in str(found)


def test_the_later_record_of_a_transaction_counts() -> None:
    before = done("a", Read(X, "x0"), Write(X, "xa"), outcome="unknown")
    after = done("a", Read(X, "x0"), Write(X, "xa"), version=2)
    assert check([START, before, after, done("b", Read(X, "xa", 2))]) == ()


def test_values_that_are_not_unique_and_missing_versions_are_refused() -> None:
    with pytest.raises(InvalidInput):
        check([START, done("a", Write(X, "x0"), version=2)])
    with pytest.raises(InvalidInput):
        check([done("a", Write(X, "xa"))])


def test_a_record_travels_as_a_line() -> None:
    record = done("a", Read(X, None, 0), Scan("urn:", {Y: "é"}), Write(X, "xa"), version=2)
    line = encode_record(record)
    assert b"\n" not in line
    assert decode_record(line) == record


# -- whatever was drawn ----------------------------------------------------------------------------

IDS = ("urn:a", "urn:b", "urn:c")


@st.composite
def serial_histories(draw: st.DrawFn) -> list[Record]:
    """Draw transactions that really ran one after the other, on a dictionary."""
    state: dict[str, str] = {}
    versions: dict[str, int] = {}
    records: list[Record] = []
    version = 0
    for number in range(draw(st.integers(2, 8))):
        steps: list[Step] = []
        reading = draw(st.lists(st.sampled_from(IDS), max_size=3, unique=True))
        steps += [Read(id, state.get(id), versions.get(id, 0)) for id in reading]
        if draw(st.booleans()):
            steps.append(Scan("urn:", dict(state)))
        writing = draw(st.lists(st.sampled_from(IDS), max_size=2, unique=True))
        version += bool(writing)
        for id in writing:
            state[id], versions[id] = f"{number}", version
            steps.append(Write(id, f"{number}"))
        records.append(
            Record(
                client=f"{number}", number=1, steps=tuple(steps), outcome="committed",
                version=version if writing else None, began=2 * number, ended=2 * number + 1,
            )
        )  # fmt: skip
    return records


@settings(max_examples=examples(100, 2_000))
@given(serial_histories())
def test_whatever_really_ran_one_after_the_other_passes(history: list[Record]) -> None:
    assert check(history) == ()


@settings(max_examples=examples(200, 2_000))
@given(serial_histories(), st.data())
def test_one_read_that_is_not_the_current_value_is_found(
    history: list[Record], data: st.DataObject
) -> None:
    reads = [
        (index, place)
        for index, record in enumerate(history)
        for place, step in enumerate(record.steps)
        if isinstance(step, Read)
    ]
    if not reads:
        return
    index, place = data.draw(st.sampled_from(reads))
    record = history[index]
    read = record.steps[place]
    assert isinstance(read, Read)
    written = [r.writes()[read.id] for r in history if read.id in r.writes()]
    others = sorted({None, *written, "nobody's"} - {read.value}, key=str)
    forged = Read(read.id, data.draw(st.sampled_from(others)))
    steps = (*record.steps[:place], forged, *record.steps[place + 1 :])
    history[index] = Record(
        client=record.client, number=1, steps=steps, outcome="committed",
        version=record.version, began=record.began, ended=record.ended,
    )  # fmt: skip
    assert check(history) != ()


# -- the recorder ----------------------------------------------------------------------------------


def test_the_recorder_notes_what_a_transaction_saw_wrote_and_was_told() -> None:
    with rote.open(":memory:") as store:
        recorder = Recorder(store.space("notes"), "me", now=iter(range(99)).__next__)
        first = recorder.run(lambda tx: [tx.read(X), tx.write(X), tx.read(X), tx.scan("urn:")])
        second = recorder.run(lambda tx: tx.scan("urn:"))
    value = "me/1#1"
    assert first.steps == (
        Read(X, None, 0),
        Write(X, value),
        Read(X, value, None),
        Scan("urn:", {X: value}),
    )
    assert (first.outcome, first.version, first.began, first.ended) == ("committed", 1, 0, 1)
    assert (second.outcome, second.version, second.steps) == (
        "committed", None, (Scan("urn:", {X: value}),),
    )  # fmt: skip
    announced = recorder.records[0]
    assert (announced.outcome, announced.steps) == ("unknown", first.steps)
    assert recorder.records[1:] == [first, second]


def test_the_recorder_tells_a_conflict_from_an_outcome_that_nobody_knows() -> None:
    with rote.open(":memory:") as store:
        space = store.space("notes")
        one, other = Recorder(space, "one"), Recorder(space, "other")

        def too_late(tx: Recording) -> None:
            tx.read(X)
            assert other.run(lambda theirs: theirs.write(X)).outcome == "committed"
            tx.write(X)

        def cut_off(tx: Recording) -> None:
            tx.write(X)
            raise Unavailable("the line is cut", outcome="unknown")

        lost = one.run(too_late)
        assert (lost.outcome, lost.version) == ("failed", None)
        assert one.run(cut_off).outcome == "unknown"
        assert check([*one.records, *other.records]) == ()
