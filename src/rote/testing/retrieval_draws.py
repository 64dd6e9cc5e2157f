"""Random stores of memories and random questions to them.

Few words, ids and times, so that terms meet texts and ties are common.
"""

from pathlib import Path
from random import Random
from typing import Any

from rote.values import canonical

_WORDS = ("alpha", "beta", "Gamma", "ÉTÉ", "straße", "x", "foo bar", "İ", "10%", "naïve", "ΑΣ")
_BREAKS = (" ", "  ", "\n", "\t", "\u2028", "\u00a0", "\x1f", "")
_TAGS = ("alpha", "Beta", "TAG", "foo bar", "ΑΣ")
_TIMES = (
    None, "2026-01-01", "2026-01-01T00:00Z", "2026-01-01 02:00:00+0200", "2026-01-01T00:00:00",
    "2026-01-01T00:00:00.1234567Z", "2025-06-01T10:00:00-05:30", "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+01:00", "2026-02-30", "2026-13-01T00:00:00Z", "2026-01-01t00:00:00z",
    " 2026-01-01", "yesterday",
)  # fmt: skip
_PATHS = ("a.jsonl", "b/c.jsonl", "A.jsonl", "é.jsonl")
_SNAPSHOT = "trust.json"


class Memories:
    """Draws everything from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def text(self) -> str:
        words = self.random.choices(_WORDS, k=self.random.randrange(12))
        return "".join(word + self.random.choice(_BREAKS) for word in words)

    def record(self) -> dict[str, Any]:
        number = self.random.randrange(12)
        id = self.random.choice((f"m{number % 5}", f"é{number}", f"\U0001d4b3{number}", '"\\'))
        record: dict[str, Any] = {"memory_id": id, "text": self.text()}
        if self.chance(0.8):
            record["ts_utc"] = self.random.choice(_TIMES)
        if self.chance(0.6):
            record["tags"] = self.random.choices(_TAGS, k=self.random.randrange(4))
        if self.chance(0.3):
            record["refs"] = [{"a": 1.5, "b": [1]}] * self.random.randrange(3)
        return record

    def line(self) -> bytes:
        """Return a record, or something that is nearly one."""
        record = self.record()
        odd: tuple[dict[str, Any], ...] = (
            {"more": 5}, {"text": 5}, {"text": None}, {"memory_id": " "}, {"memory_id": None},
            {"memory_id": 7}, {"tags": [1]}, {"tags": "alpha"}, {"tags": None}, {"ts_utc": 3},
            {"refs": [1]}, {"refs": {}}, {"refs": None}, {"memory_id": " m1 "},
        )  # fmt: skip
        if self.chance(0.3):
            record |= self.random.choice(odd)
        line = canonical(record)
        if self.chance(0.7):
            return line
        members = line[:-1]
        return self.random.choice(
            (
                line[:-3],
                b"\xff" + line,
                members + b',"text":"again"}',
                members + b',"more":NaN}',
                members + b',"more":' + b"9" * 400 + b"}",
                members + b',"more":' + b"[" * 80 + b"]" * 80 + b"}",
                members + b',"more":"\\ud800"}',
                members + b',"more":-0}',
                members.replace(b'"text"', b'"\\u0074ext"') + b"}",
                b"  \t" + line + b" \r",
                line + line,
                line + b" " + line,
                line.replace(b",", b",\n"),
                b"\n" + line.replace(b"{", b"{\n") + line,
                line.replace(b":", b" : "),
                b" \t\r",
                b"",
                b"[]",
                b"null",
            )
        )

    def store(self) -> bytes:
        newline = b"\n" if self.chance(0.7) else b"\r\n"
        data = newline.join(self.line() for _ in range(self.random.randrange(14)))
        if self.chance(0.2):
            data = b"\xef\xbb\xbf" + data
        return data + newline if self.chance(0.7) else data

    def request(self, paths: list[str]) -> dict[str, Any]:
        """Return a valid question."""
        request: dict[str, Any] = {
            "query": self.text().strip() or "alpha",
            "store_paths": paths,
            "budget": {"max_excerpt_tokens": self.random.choice((1, 5, 20, 1_000))},
        }
        budget: dict[str, Any] = request["budget"]
        scoring: dict[str, Any] = {}
        if self.chance(0.5):
            budget["per_item_max_excerpt_tokens"] = self.random.choice((1, 2, 7, 10**6, None))
        if self.chance(0.5):
            budget["max_items"] = self.random.choice((1, 2, 5, 100, None))
        if self.chance(0.5):
            scoring["enable_recency_weight"] = self.chance(0.8)
        if self.chance(0.3):
            scoring["recency_half_life_days"] = self.random.choice((1, 365))
        if self.chance(0.4):
            scoring["enable_tag_overlap"] = self.chance(0.5)
        if self.chance(0.3):
            terms = (*_WORDS, " ", "", "a", "alpha  beta")
            scoring["query_terms"] = self.random.choices(terms, k=self.random.randrange(5))
        if scoring or self.chance(0.2):
            request["scoring"] = scoring
        if self.chance(0.7):
            request["now_utc"] = self.random.choice(("2026-06-01T00:00:00Z", "2025-01-01"))
        return request

    def case(self, root: Path) -> dict[str, Any]:
        """Write stores into a folder, and return a question to them."""
        names = self.random.sample(_PATHS, self.random.randint(1, 3))
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(self.store())
        (root / "b").mkdir(exist_ok=True)
        prefixes = ("", "./", "b/../")
        request = self.request([self.random.choice(prefixes) + name for name in names])
        if self.chance(0.3):
            entries = [
                {
                    "memory_id": f"m{self.random.randrange(5)}",
                    "classification": self.random.choice(("malicious", "fine")),
                }
                for _ in range(3)
            ]
            (root / _SNAPSHOT).write_bytes(canonical({"classifications": entries}))
            request["trust_filter"] = {"trust_snapshot_path": _SNAPSHOT}
            if self.chance(0.3):
                request["trust_filter"]["deny_classifications"] = ["fine"]
        return request
