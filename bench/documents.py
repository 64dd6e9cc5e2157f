"""Documents to write and read: notes of an agent, of three sizes. A seed gives the same ones again."""

import random
from collections.abc import Callable, Iterator
from typing import Any

Document = dict[str, Any]

_SPEECH = (
    "the user prefers short answers in plain words and asked twice about a trip to Lisbon in May "
    "with a budget for trains instead of flights because of work on Monday so remind them early"
)
_WORDS = tuple(_SPEECH.split())
_TAGS = ("travel", "work", "family", "health", "money", "style", "plans", "food")

# The schema of every note.
NOTE_SCHEMA: Document = {
    "type": "object",
    "required": ["kind", "title", "text", "tags", "confidence", "uses", "source", "pinned"],
    "properties": {
        "kind": {"const": "note"},
        "title": {"type": "string", "maxLength": 200},
        "text": {"type": "string", "maxLength": 2_000},
        "tags": {"type": "array", "items": {"enum": list(_TAGS)}, "uniqueItems": True},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "uses": {"type": "integer", "minimum": 0},
        "source": {"$ref": "#/$defs/source"},
        "pinned": {"type": "boolean"},
    },
    "additionalProperties": False,
    "$defs": {
        "source": {
            "type": "object",
            "required": ["session", "turn"],
            "properties": {
                "session": {"type": "string", "pattern": "^s-[0-9]{6}$"},
                "turn": {"type": "integer"},
            },
        }
    },
}


EMBEDDING_FLOATS = 1_536


def embeddings(count: int, seed: int = 1) -> dict[str, list[list[float]]]:
    """Return so many vectors of each distribution that models and their users leave in embeddings."""
    draw = random.Random(seed)

    def normal() -> float:
        return draw.gauss(0, 0.03)

    def with_one(number: float) -> list[float]:
        vector = [normal() for _ in range(EMBEDDING_FLOATS)]
        vector[draw.randrange(EMBEDDING_FLOATS)] = number
        return vector

    def vectors(number: Callable[[], float]) -> list[list[float]]:
        return [[number() for _ in range(EMBEDDING_FLOATS)] for _ in range(count)]

    return {
        "uniform": vectors(lambda: draw.uniform(-1, 1)),
        "normal": vectors(normal),
        "one of 1e-7": [with_one(1e-7) for _ in range(count)],
        "one of 2e-6": [with_one(2e-6) for _ in range(count)],
        "one of 1e21": [with_one(1e21) for _ in range(count)],
        "one of 1e17": [with_one(1e17) for _ in range(count)],
        "one zero": [with_one(0.0) for _ in range(count)],
        "integers among them": vectors(
            lambda: draw.choice((float(draw.randrange(-9, 10)), normal(), normal(), normal()))
        ),
        "integers": vectors(lambda: float(draw.randrange(100))),
    }


class Documents:
    """An endless supply of new documents."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._number = 0

    def notes(self, count: int) -> list[tuple[str, Document]]:
        """Return ids in order, with documents of about 300 bytes."""
        return [self._numbered(self.note()) for _ in range(count)]

    def note(self) -> Document:
        draw = self._random
        return {
            "kind": "note",
            "title": self._text(24),
            "text": self._text(130),
            "tags": draw.sample(_TAGS, 2),
            "confidence": round(draw.random(), 3),
            "uses": draw.randrange(1000),
            "source": {"session": f"s-{draw.randrange(10**6):06d}", "turn": draw.randrange(40)},
            "pinned": draw.random() < 0.1,
        }

    def profile(self, size_bytes: int) -> Document:
        """Return a document of about that size, with many small parts to patch."""
        notes = [self.note() for _ in range(max(size_bytes // 300, 1))]
        return {"kind": "profile", "name": self._text(20), "uses": 0, "notes": notes}

    def patches(self, profile: Document) -> Iterator[list[dict[str, Any]]]:
        """Yield small changes to a profile that keep its size, one after the other."""
        places = len(profile["notes"])
        while True:
            number, place = self._random.randrange(100, 1000), self._random.randrange(places)
            path = f"/notes/{place}/uses" if number % 2 else "/uses"
            yield [{"op": "replace", "path": path, "value": number}]

    def _numbered(self, document: Document) -> tuple[str, Document]:
        self._number += 1
        return f"urn:note:{self._number:08d}", document

    def _text(self, size: int) -> str:
        words = " ".join(self._random.choices(_WORDS, k=size // 4 + 2))
        return words[:size].strip()
