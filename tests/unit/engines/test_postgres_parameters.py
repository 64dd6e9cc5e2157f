"""Values reach PostgreSQL unchanged: it returns the same ones, with the same types."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.engines.postgres.connections import Session, Target
from rote.engines.postgres.parameters import bigints, byteas, texts
from rote.errors import InvalidInput
from rote.testing.postgres import server_url
from tests.lanes import examples

INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.one_of(INTEGERS, TEXTS, st.binary(), st.booleans())
NAMES = {int: "bigint", str: "text", bytes: "bytea", bool: "boolean"}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    session = Target(server_url()).connect()
    yield session
    session.close()


@settings(max_examples=examples(50, 1_000))
@given(values=st.lists(VALUES, min_size=1, max_size=9))
def test_values_come_back_as_they_went(session: Session, values: list[Any]) -> None:
    places = ", ".join(f"${n}, pg_typeof(${n})::text" for n in range(1, len(values) + 1))
    told = [each for value in values for each in (value, NAMES[type(value)])]
    assert session.rows(f"select {places}", values) == [tuple(told)]


@settings(max_examples=examples(50, 1_000))
@given(
    st.lists(st.none() | INTEGERS), st.lists(st.none() | TEXTS), st.lists(st.none() | st.binary())
)
def test_arrays_are_those_that_the_driver_writes(
    session: Session, integers: list[int | None], words: list[str | None], bits: list[bytes | None]
) -> None:
    ours = (bigints(integers), texts(words), byteas(bits))
    [row] = session.rows("select $1, $2, $3", ours)
    assert row == (integers, words, bits)
    with psycopg.ClientCursor(session) as cursor:
        cursor.execute("select %s::bigint[], %s::text[], %s::bytea[]", (integers, words, bits))
        assert cursor.fetchone() == row


def test_nothing_is_null_of_whatever_type_is_asked_for(session: Session) -> None:
    assert session.rows("select $1::bigint, $2::bytea, $3::text", (None,) * 3) == [(None,) * 3]


def test_a_text_that_postgresql_cannot_hold_is_the_callers_to_change(session: Session) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        session.rows("select $1", ("a\0b",))
    assert session.rows("select $1", ("ab",)) == [("ab",)]
