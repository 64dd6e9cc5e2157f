"""Random histories of a space with questions by the policies of ranking.

Each answer is compared with that of the plain reference.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

from rote.contract import Found, PortLayer
from rote.contract.commands import Command
from rote.errors import InvalidInput, NotFound
from rote.questions import HYBRID, LEXICAL
from rote.records.memory import Memory
from rote.space import Space
from rote.testing.naive_words import naive_analyse
from rote.testing.ranking_draws import RankedMemories, ToyEmbedder
from rote.testing.ranking_questions import (
    PlainState,
    Question,
    answer_of,
    item_id,
    naive_answer,
    plain_id,
    plain_memories,
    search_of,
    state_of,
    terms_of,
    without_dropped,
)
from rote.testing.retrieval_histories import RetrievalHistory, plain_records
from rote.values import canonical

R = TypeVar("R")

_NAMESPACES, _KINDS = ("ops", "session"), ("turn", "note", "k!")
_IDS = ("1", "2", "a/b#1", "c%", "10", "é")
_TIMES = ("2020-01-01T00:00:00Z", "2023-05-08T10:00:00Z", "2023-06-01T12:00:00+02:00")
_LONG_TEXTS = 50  # in a text that no excerpt of a search can hold
# Few records go, so that questions have much to find.
_STEPS = (
    *("put",) * 12, *("append",) * 8, *("many",) * 4, *("update",) * 3, *("branch",) * 3, "merge",
    "delete", "other", "odd", "prune", "wait", "erase", "compact",
)  # fmt: skip


class IndexCounter(PortLayer):
    """Counts the answers of the index of words. Without one, a plain scan answers the question."""

    found = found_in_segments = 0

    def answer(self, space: str, command: Command[R], /) -> R:
        answer = super().answer(space, command)
        if isinstance(answer, Found):
            self.found += 1
            self.found_in_segments += bool(answer.segments)
        return answer


class RankingHistory(RetrievalHistory):
    """The same histories, with conversations, threads and edits in the records.

    Each state that is asked is read once and gets several questions.
    """

    draws = RankedMemories
    policy = LEXICAL
    embedder: ToyEmbedder | None = None
    steps = _STEPS
    questions = 2  # to each state that is asked

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.met: Counter[str] = Counter()  # questions, by what they met
        self.index = IndexCounter(self._store._port)
        self._store._port = self.index
        self._asked: list[tuple[Question, dict[str, Any]]] = []
        self._erased: set[str] = set()  # terms of memories that were erased
        self._merged: set[str] = set()  # branches that another one was merged into
        self._files = 0
        self._said = "tea"  # the last text

    def last_questions(self, count: int) -> list[tuple[Question, dict[str, Any]]]:
        """Ask the states of the finished history; return the questions with their answers."""
        self._asked.clear()
        while len(self._asked) < count:
            self.ask()
        return self._asked[:count]

    # -- what happens ------------------------------------------------------------------------------

    def _key(self) -> tuple[str, str, str]:
        choose = self._random.choice
        return choose(_NAMESPACES), choose(_KINDS), choose(_IDS)

    def _happen(self, what: str) -> None:
        space = self._space.on(self._random.choice(self._branches))
        if what == "append":
            self._append(Memory(space))
        elif what == "update":
            with suppress(NotFound):
                Memory(space).update(*self._key(), payload=self._content()[0])
        elif what == "many":
            with space.transaction() as tx:
                self._write_some(Memory(tx))
        elif what == "merge":
            space.merge(self._random.choice(self._branches), on_conflict="latest")
            self._merged.add(space.branch)
        elif what == "erase":
            self._erase(space)
        else:
            super()._happen(what)

    def _append(self, memory: Memory) -> None:
        # Where the record has no entries, or is none at all, nothing is appended.
        with suppress(InvalidInput):
            for _ in range(self._random.randint(1, 3)):
                memory.append(*self._key()[:2], "chat", self._entry() or {"text": "plan"})

    def _write_some(self, memory: Memory) -> None:
        for _ in range(self._random.randint(1, 4)):
            if self._draws.chance(0.7):
                memory.put(*self._key(), *self._content())
            elif self._draws.chance(0.5):
                self._append(memory)
            else:
                memory.delete(*self._key())

    def _erase(self, space: Space) -> None:
        records = list(plain_records(space))
        if not records:
            return
        chosen = self._random.choice(records)
        key = [chosen[name] for name in ("namespace", "record_kind", "record_id")]
        for branch in self._branches:
            for memory in plain_memories(self._space.on(branch)):
                if memory["memory_id"].partition("#")[0] == plain_id(*key):
                    self._erased |= terms_of(memory)
        self._space.erase(Memory.entity_id(*key), reason="asked for")

    def _content(self) -> tuple[dict[str, Any], int | None, dict[str, Any] | None]:
        """Return payload, seconds to live, and metadata."""
        choose, chance = self._random.choice, self._draws.chance
        payload = choose((self._text, self._text, self._entries, self._odd))()
        metadata: dict[str, Any] = {}
        if chance(0.5):
            metadata |= {"thread": choose("ab"), "turn": choose((1, 2, 2.0, 3, -1, True, "5"))}
        if chance(0.4):
            metadata["tags"] = choose((["plan"], ["Tea", "tea"], ["green tea", "京"]))
        if chance(0.4):
            metadata["valid_at"] = choose(_TIMES)
        if chance(0.3):
            metadata |= {"source": choose(("mail", "chat")), "user": choose((1, 1.5, True, "1"))}
        return payload, choose((None, None, None, 2, 30)), metadata or None

    def _text(self) -> dict[str, Any]:
        if self._draws.chance(0.1):
            return {"text": " ".join(self._draws.text() for _ in range(_LONG_TEXTS))}
        # The same text again is a duplicate, or ties where duplicates stay.
        text = self._draws.text() if self._draws.chance(0.7) else self._said
        self._said = text
        return {"text": text}

    def _odd(self) -> dict[str, Any]:
        return {"plan": self._draws.text(), "entries": self._random.choice((None, {}, "x"))}

    def _entries(self) -> dict[str, Any]:
        return {
            "text": "travel",
            "entries": [self._entry() for _ in range(self._random.randrange(5))],
        }

    def _entry(self) -> Any:
        if self._draws.chance(0.1):
            return self._random.choice((5, "plan", None, [], {}))
        entry: dict[str, Any] = {}
        for name in ("text", "content", "speaker", "name", "role", "ts_utc", "valid_at"):
            if self._draws.chance(0.5):
                is_time = name in ("ts_utc", "valid_at")
                values = (
                    ("2023-05-08", "2023-05-08t10:00:00z", 5)
                    if is_time
                    else (self._draws.text(), 5)
                )
                entry[name] = self._random.choice(values)
        return entry

    # -- questions ---------------------------------------------------------------------------------

    def _compare(self, view: Space, path: str, *, is_newest: bool) -> None:
        state = state_of(view)
        for _ in range(self.questions):
            question = self._question(state, None if is_newest else view.version)
            expected = naive_answer(state, question, self._folder, embedder=self.embedder)
            shown = expected
            if not question.is_search and question.dropped == "counts":
                shown = without_dropped(expected)
            told, in_segments = self.index.found, self.index.found_in_segments
            found = answer_of(self._store, question, self._folder, embedder=self.embedder)
            self.met["index"] += self.index.found > told
            self.met["segments"] += self.index.found_in_segments > in_segments
            assert found == shown, (question, found, shown)
            self._asked.append((question, found))
            self._note(state, question, expected)
        if is_newest and self.embedder is None and self._draws.chance(0.2):
            self._ask_in_transaction(view)

    def _ask_in_transaction(self, space: Space) -> None:
        """Ask a transaction with writes of its own, which are given up afterwards."""
        with suppress(_GivenUpError), space.transaction() as tx:
            memory = Memory(tx)
            self._write_some(memory)
            state = state_of(tx.space)
            question = self._question(state, None, is_search=True)
            expected = naive_answer(state, question, self._folder)
            assert search_of(memory, question) == expected, question
            self.met["transaction"] += bool(expected["items"])
            raise _GivenUpError

    def _question(
        self, state: PlainState, version: int | None, *, is_search: bool | None = None
    ) -> Question:
        branch, chance = state.view.branch, self._draws.chance
        request = self._draws.request([])
        del request["store_paths"]
        if self.embedder is None and (chance(0.4) if is_search is None else is_search):
            request["budget"] = {"max_items": self._random.choice((1, 3, 10))}
            return Question(branch, version, request, is_search=True)
        request["policy"] = self.policy
        self._deny_some_of(state, request)
        dropped = "full" if chance(0.2) else "counts"
        return Question(branch, version, request, False, (*self._others(state),), dropped)

    def _others(self, state: PlainState) -> Iterator[str]:
        """Yield more stores for a question: other names of the state, or its memories in a file."""
        if self._draws.chance(0.2):
            bad = b"\n{}" if self._draws.chance(0.5) else b""
            yield self._written("beside", state.lines + bad)
        # Another name of the state adds nothing, unless something has expired in between.
        last = self._space.on(state.view.branch).at(int(state.name.rpartition(":")[2]))
        if self._draws.chance(0.3) and plain_memories(last) == state.memories:
            self.met["two names"] += 1
            yield state.name

    def _deny_some_of(self, state: PlainState, request: dict[str, Any]) -> None:
        if self._draws.chance(0.15) and state.memories:
            denied = self._random.choices(state.memories, k=2)
            entries = [
                {"memory_id": each["memory_id"], "classification": "malicious"} for each in denied
            ]
            snapshot = self._written("denied", canonical({"classifications": entries}))
            request["trust_filter"] = {"trust_snapshot_path": snapshot}

    def _written(self, name: str, data: bytes) -> str:
        """Return the name of a new file, which stays for who asks again."""
        self._files += 1
        name = f"{name}-{self._files}"
        (self._folder / name).write_bytes(data)
        return name

    def _note(self, state: PlainState, question: Question, expected: dict[str, Any]) -> None:
        """Count what a question met."""
        self.met["asked"] += 1
        scoring = {**_SCORING, **_given(question.request.get("scoring"))}
        if question.is_search:
            selected = [{**item, "memory_id": item_id(item)} for item in expected["items"]]
        else:
            selected = expected["selection"]["selected"]
            self.met.update(expected["selection"]["dropped_counts"].keys())
        if not selected:
            return
        language = scoring["language"]
        asked = {
            term
            for text in scoring["query_terms"] or [question.request["query"]]
            for term in naive_analyse(text, language)
        }
        by_id = {each["memory_id"]: each for each in state.memories}
        chosen = [by_id[item["memory_id"]] for item in selected]
        scores = [item["score"] for item in selected]
        self.met += Counter(
            {
                "search" if question.is_search else "package": 1,
                "lent": int(any(asked.isdisjoint(terms_of(each, language)) for each in chosen)),
                "entry": int(any("#" in each["memory_id"] for each in chosen)),
                "branch": int(question.branch != "main"),
                "merged": int(question.branch in self._merged),
                "old version": int(question.version is not None),
                "expired": int(any(asked & terms_of(each) for each in state.expired)),
                "erased": int(not asked.isdisjoint(self._erased)),
                "cut": int(any(_is_cut(*pair) for pair in zip(selected, chosen, strict=True))),
                "tie": int(len(set(scores)) < len(scores)),
                "none": int(language == "none"),
                "recency": int(scoring["enable_recency_weight"]),
                "filters": int(any(_given(question.request.get("filters")).values())),
                "query_terms": int(bool(scoring["query_terms"])),
            }
        )


_SCORING = {"query_terms": None, "language": "english", "enable_recency_weight": False}


def _given(section: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (section or {}).items() if value is not None}


class HybridHistory(RankingHistory):
    """The same questions by hybrid-1, with one embedder for all. A search is by lexical-1 alone."""

    policy = HYBRID

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.embedder = ToyEmbedder(self._random)


class _GivenUpError(Exception):
    """Ends a transaction without a commit."""


def _is_cut(item: dict[str, Any], memory: dict[str, Any]) -> bool:
    return bool(item["excerpt"]) and item["excerpt"] != memory["text"].strip()
