"""Many times at once are parsed as each of them alone."""

from random import Random

from rote.questions import NormalTimes, read_column
from rote.testing.naive_retrieval import naive_time
from tests.lanes import examples

PARTS = (
    ("2026-01-31", "0001-01-01", "9999-12-31", "2026-02-30", "1969-12-31", "2026-W01-1", "0000-01-01"),
    ("T", "T", "T", " ", "t", ""),
    ("00:00:00", "23:59:59", "12:30:15", "24:00:00", "23:59:60", "12:30", "123015"),
    ("", "", ".5", ".000000", ".123456", ".000001", ".1234567", ",123456"),
    ("Z", "Z", "Z", "+00:00", "+00:00", "-00:00", "z", "", "+02:00", "+0000", '"', 'Z"'),
)  # fmt: skip
NORMAL = [None, "2026-01-31T00:00:00Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59Z"]


def draw(random: Random) -> str:
    return "".join(random.choice(part) for part in PARTS)


def test_a_column_is_read_as_each_of_its_texts_or_not_at_all() -> None:
    random, taken = Random(1), 0
    for _ in range(examples(5_000, 200_000)):
        text = draw(random)
        times, read = NormalTimes(), read_column([*NORMAL, text])
        instant, normal = times[text]
        expected = naive_time(text)
        assert normal == expected, text
        if read is not None:
            taken += 1
            assert read[0][-1] == instant, text
            assert read[1][-1] == normal, text
            assert list(zip(*read, strict=True)) == [times[each] for each in (*NORMAL, text)]
    assert taken > 100


def test_what_most_programs_write_is_read_at_once() -> None:
    for fraction in ("", ".250000", ".000000"):
        for offset in ("Z", "+00:00"):
            assert read_column([f"2026-01-31T12:00:00{fraction}{offset}", None]) is not None
    assert read_column([]) == ([], [])
