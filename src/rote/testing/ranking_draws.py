"""Random stores and questions for the policies of ranking.

Few words, threads and times, so that terms meet texts, neighbours lend and ties are common.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from rote.testing.retrieval_draws import Memories
from rote.values import canonical

WORDS = (
    "plan", "plans", "planned", "travel", "went", "go", "tea", "the", "and", "may", "2023", "5th",
    "1,000", "don't", "ÉCOLE", "school", "日本語", "京", "x" * 70, "naïve", "مرحبا", "😀", "8", "ΑΣ",
)  # fmt: skip
_BREAKS = (" ", " ", " ", "  ", "\n", ", ", "-", "\u00a0", "")
_TAGS = ("plan", "Tea", "green tea", "京")
_TIMES = ("2023-05-08T10:00:00Z", "2023-05-08", "2023-06-01 12:00", "2020-01-01", "never", None)
_THREADS = ("a", "b")
_KINDS = ("turn", "note")


class RankedMemories(Memories):
    """Draws everything from one seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # Each case has few words of its own, so that many memories match.
        self.words = self.random.sample(WORDS, self.random.choice((2, 5, len(WORDS))))

    def text(self) -> str:
        count = self.random.choice((0, 2, 5, 5, 20))
        drawn = self.random.choices(self.words, k=count)
        return "".join(word + self.random.choice(_BREAKS) for word in drawn)

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "memory_id": f"m{self.random.randrange(30)}",
            "text": self.text(),
        }
        if self.chance(0.7):
            record["ts_utc"] = self.random.choice(_TIMES)
        if self.chance(0.3):
            record["tags"] = self.random.choices(_TAGS, k=self.random.randrange(3))
        record |= self.details()
        return record

    def details(self) -> dict[str, Any]:
        """Return namespace, kind and metadata, each now and then, and odd ones sometimes."""
        found: dict[str, Any] = {}
        if self.chance(0.6):
            metadata: dict[str, Any] = {"thread": self.random.choice(_THREADS)}
            if self.chance(0.7):
                turns = (1, 2, 2.0, 3, 4, -1, True, "5", None, 1e300, 1.5)
                metadata["turn"] = self.random.choice(turns)
            if self.chance(0.3):
                metadata["source"] = self.random.choice(("mail", "chat", "", 5))
            if self.chance(0.3):
                metadata["user"] = self.random.choice((1, 1.0, True, "1", "u", None, [1]))
            found["metadata"] = metadata
        if self.chance(0.4):
            found["namespace"] = self.random.choice(("ops", "session", "", 5))
        if self.chance(0.4):
            found["kind"] = self.random.choice(_KINDS)
        if self.chance(0.03):
            found["metadata"] = self.random.choice(("x", [], None, {}))
        return found

    def store(self) -> bytes:
        newline = b"\n" if self.chance(0.9) else b"\r\n"
        count = self.random.choice((0, 1, 8, 30))
        lines = [
            canonical(self.record()) if self.chance(0.95) else self.line() for _ in range(count)
        ]
        return newline.join(lines)

    def request(self, paths: list[str]) -> dict[str, Any]:
        """Return a valid question."""
        request: dict[str, Any] = {
            "policy": "lexical-1",
            "query": self.text().strip() or "plan",
            "store_paths": paths,
            "budget": self._budget(),
        }
        if self.chance(0.7):
            request["scoring"] = self._scoring()
        if self.chance(0.4):
            request["filters"] = self._filters()
        if self.chance(0.8):
            request["now_utc"] = self.random.choice(
                ("2023-06-01T00:00:00Z", "2023-05-08", "1970-01-01")
            )
        return request

    def _budget(self) -> dict[str, Any]:
        budget: dict[str, Any] = {"max_excerpt_tokens": self.random.choice((1, 5, 20, 60, 1_000))}
        if self.chance(0.5):
            budget["per_item_max_excerpt_tokens"] = self.random.choice((1, 2, 7, 12, 10**6, None))
        if self.chance(0.5):
            budget["max_items"] = self.random.choice((1, 2, 5, 100, None))
        return budget

    def _scoring(self) -> dict[str, Any]:
        draws: dict[str, tuple[Any, ...]] = {
            "query_terms": (None, [], ["planning tea"], ["京", "go", "tea"]),
            "language": ("english", "none", None),
            "context": (True, False, None),
            "min_score": (0, 0.5, 3.123456, 8, 1_000_000, None),
            "min_share": (0, 0.25, 0.999, 1, None),
            "drop_duplicates": (True, False, None),
            "enable_recency_weight": (True, True, False),
            "recency_half_life_days": (1, 7, 400),
        }
        return {
            name: self.random.choice(values) for name, values in draws.items() if self.chance(0.4)
        }

    def _filters(self) -> dict[str, Any]:
        draws: dict[str, tuple[Any, ...]] = {
            "namespaces": (["ops"], ["session", "ops", "ops"], []),
            "kinds": (["turn"], ["note"], None),
            "sources": (["mail"], ["chat", "mail"]),
            "threads": (["a"], ["b", "a"]),
            "tags_any": (["PLAN"], ["tea", "green tea"]),
            "tags_all": (["plan", "Tea"], ["京"]),
            "after": ("2023-05-08", "2023-05-08T10:00:00+00:00"),
            "before": ("2023-05-08T10:00:00Z", "2023-06-01"),
            "where": ({"user": 1}, {"user": "1"}, {"user": True}, {"user": "u", "turn": 2}, {}),
        }
        return {
            name: self.random.choice(values) for name, values in draws.items() if self.chance(0.2)
        }


class ToyCounter:
    """Counts tokens otherwise than by bytes: one for each so many characters, and one more."""

    name = "toy"
    version = "1"

    def __init__(self, random: Random) -> None:
        self._characters = random.choice((1, 3, 10))

    def count(self, text: str, /) -> int:
        return len(text) // self._characters + 1


class ToyEmbedder:
    """Makes vectors of few numbers that depend on the text alone, some all zeros, some the same."""

    def __init__(self, random: Random, *, dimension: int | None = None) -> None:
        self.name = random.choice(("toy", "a/b"))
        self.version = str(random.randrange(3))
        self.dimension = dimension or random.choice((1, 2, 5, 17))
        self.asked: list[str] = []  # all texts so far

    def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        assert 0 < len(texts) <= 64
        self.asked += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        draws = Random(f"{self.name}{self.version}{text.strip()[:3]}")  # so that some are the same
        if draws.random() < 0.1:
            return [0.0] * self.dimension
        scale = draws.choice((1e-200, 1e-5, 1, 1, 1e100))
        return [draws.choice((draws.gauss(0, 1), 0, 1)) * scale for _ in range(self.dimension)]


class AskingEmbedder(ToyEmbedder):
    """The same, with vectors of its own for questions."""

    def embed_query(self, text: str, /) -> tuple[float, ...]:
        return tuple(self._vector(f"?{text}"))
