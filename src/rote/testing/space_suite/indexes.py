"""Derived indexes through the port: found by term, right at every version, never behind."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from rote.contract import Hit, Index, View
from rote.contract.commands import Find
from rote.errors import InvalidInput
from rote.kernel.reading import index_rows
from rote.space import Space
from rote.testing.space_suite.ground import A, B, C, SpaceGround, add, port_of, put, remove
from rote.values.limits import INDEX_PENDING_MAX


class Words:
    """Lists an entity under every word of its `text`."""

    name = "words/1"
    prefix = ""

    def terms(self, id: str, value: Any, version: int, place: int, /) -> Iterable[str]:
        text = value.get("text", "") if isinstance(value, dict) else ""
        return text.split()


WORDS: Index = Words()


class IndexGround(SpaceGround):
    """Asks the index of words."""

    @pytest.fixture(params=[0, INDEX_PENDING_MAX])
    def pending_max(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Set the limit for tests of few changes: all of the changes are in the rows, or none is."""
        monkeypatch.setattr(index_rows, "INDEX_PENDING_MAX", request.param)

    def hits(
        self,
        space: Space,
        start: str = "",
        end: str | None = None,
        *,
        version: int | None = None,
        after: Hit | None = None,
        limit: int = 99,
    ) -> list[tuple[str, str]]:
        find = Find("words/1", start, end, after, limit, View("main", version))
        found = space._port.answer(space.did, find)
        return [(hit.term, hit.id) for hit in found]


class IndexTests(IndexGround):
    @pytest.fixture
    def indexed(self) -> Space:
        return self.open_fresh("indexed", indexes=(WORDS,)).space("x")

    @pytest.mark.usefixtures("pending_max")
    def test_entities_are_found_by_term_in_order(self, indexed: Space) -> None:
        indexed.transact([put(B, {"text": "red blue"}), put(A, {"text": "red"}), put(C, 1)])
        assert self.hits(indexed) == [("blue", B), ("red", A), ("red", B)]
        assert self.hits(indexed, "red", "red\0") == [("red", A), ("red", B)]
        assert self.hits(indexed, "c") == [("red", A), ("red", B)]
        assert self.hits(indexed, "", "c") == [("blue", B)]

    def test_a_term_without_entities_has_no_hits(self, indexed: Space) -> None:
        assert self.hits(indexed) == []
        indexed.set(A, {"text": "red"})
        assert self.hits(indexed, "green", "green\0") == []

    @pytest.mark.usefixtures("pending_max")
    def test_hits_follow_sets_patches_deletes_and_revivals(self, indexed: Space) -> None:
        indexed.set(A, {"text": "red"})
        indexed.patch(A, [add("/text", "blue red")])
        indexed.set(A, {"text": "blue"})
        indexed.delete(A)
        indexed.set(A, {"text": "red"})
        found = [self.hits(indexed, version=version) for version in range(6)]
        assert found == [
            [],
            [("red", A)],
            [("blue", A), ("red", A)],
            [("blue", A)],
            [],
            [("red", A)],
        ]
        assert self.hits(indexed) == [("red", A)]
        assert indexed.verify().ok

    @pytest.mark.usefixtures("pending_max")
    def test_only_what_a_commit_leaves_is_listed(self, indexed: Space) -> None:
        indexed.transact(
            [put(A, {"text": "red"}), put(A, {"text": "blue"}), put(B, {"text": "x"}), remove(B)]
        )
        assert self.hits(indexed) == [("blue", A)]
        assert indexed.verify().ok

    @pytest.mark.usefixtures("pending_max")
    def test_pages_lose_nothing(self, indexed: Space) -> None:
        ids = [f"urn:{number:03d}" for number in range(25)]
        indexed.transact([put(id, {"text": "a b c"}) for id in ids])
        indexed.transact([remove(id) for id in ids[5:15]])
        expected = [(term, id) for term in "abc" for id in ids[:5] + ids[15:]]
        for limit in (1, 4, 7, 99):
            found: list[tuple[str, str]] = []
            after: Hit | None = None
            while page := self.hits(indexed, after=after, limit=limit):
                assert len(page) <= limit
                found += page
                after = Hit(*page[-1])
            assert found == expected

    def test_an_index_that_was_not_declared_is_refused(self, indexed: Space) -> None:
        with pytest.raises(InvalidInput):
            port_of(self.store).answer(
                self.did, Find("words/1", start="", end=None, after=None, limit=9, view=View())
            )
        with pytest.raises(InvalidInput):
            indexed._port.answer(
                indexed.did, Find("words/2", start="", end=None, after=None, limit=9, view=View())
            )

    @pytest.mark.usefixtures("pending_max")
    def test_a_refused_commit_leaves_no_hits(self, indexed: Space) -> None:
        indexed.set(A, {"text": "red"})
        with pytest.raises(InvalidInput):
            indexed.transact([put(B, {"text": "blue"}), put(C, float("nan"))])
        assert self.hits(indexed) == [("red", A)]

    def test_an_index_changes_no_hash(self, indexed: Space) -> None:
        plain = self.open_fresh("plain", ids=type(self.ids)(5)).space("x")
        kept = self.open_fresh("kept", ids=type(self.ids)(5), indexes=(WORDS,)).space("x")
        assert plain.set(A, {"text": "red"}).hash == kept.set(A, {"text": "red"}).hash

    # -- changes that are not in the rows yet ------------------------------------------------------

    def test_hits_are_right_whatever_is_pending(self, indexed: Space) -> None:
        expected = [self.hits(indexed)]
        random = Random(7)
        for _ in range(3 * INDEX_PENDING_MAX):
            id = random.choice((A, B, C))
            if random.random() < 0.25 and indexed.read(id).exists:
                indexed.delete(id)
            else:
                indexed.set(id, {"text": " ".join(random.sample("abcd", random.randint(0, 3)))})
            states = {state.id: state.value["text"].split() for state in indexed.scan()}
            expected.append(sorted((word, id) for id, words in states.items() for word in words))
            assert self.hits(indexed) == expected[-1]
            paged: list[tuple[str, str]] = []
            while page := self.hits(
                indexed, "b", "d", after=Hit(*paged[-1]) if paged else None, limit=2
            ):
                paged += page
                assert len(paged) < 99
            assert paged == [pair for pair in expected[-1] if "b" <= pair[0] < "d"]
        for version, pairs in enumerate(expected):
            assert self.hits(indexed, version=version) == pairs, version
        assert indexed.verify().ok

    def test_what_is_pending_when_history_is_compacted_is_listed_as_it_is_left(
        self, indexed: Space
    ) -> None:
        for text in ("red", "blue", "green"):
            indexed.set(A, {"text": text})
        indexed.compact(before=3)
        for number in range(INDEX_PENDING_MAX + 1):
            indexed.set(f"urn:{number:03d}", {"text": "x"})
        assert self.hits(indexed, "", "x") == [("green", A)]
        assert indexed.verify().ok
