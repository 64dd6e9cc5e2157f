"""The ground of the tests of packed indexes: small bounds, histories, and looks at what is stored."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from rote.contract import View
from rote.engines import Engine, Reader
from rote.engines.rows import SegmentRow
from rote.kernel.reading import segments
from rote.space import Space
from rote.testing.packed_words import BOUNDS, PackedWords, WordFinder, scanned
from rote.testing.space_suite.ground import SpaceGround, add, kernel_of, put

WORDS = "red", "blue", "green", "odd"


class PackedGround(SpaceGround):
    """Asks a packed index, and compares it with a scan."""

    @pytest.fixture
    def bounds(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        for name, bound in BOUNDS.items():
            monkeypatch.setattr(segments, name, bound)
        yield

    @pytest.fixture
    def index(self) -> PackedWords:
        return PackedWords()

    @pytest.fixture
    def packed(self, index: PackedWords) -> Space:
        return self.open_fresh("packed", indexes=(index,)).space("x")

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
