"""Parts of a store that are loaded when they are first used: most programs start no run."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rote.contract import AnswerRead, Port, Questions, TextRule
from rote.contract.commands import ListSpaces
from rote.errors import RoteError
from rote.records.keys import PREFIX
from rote.space import Space
from rote.space.running import Runs, RunStart
from rote.space.searching import Searching
from rote.values import Json

if TYPE_CHECKING:
    from rote.runs.ledger import RunRecord
    from rote.runs.run import Run


def _load(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


class DeferredRuns:
    """Implements space.running.Runs."""

    def __init__(self, port: Port, **settings: Any) -> None:
        """Keep the arguments of runs.store_runs.StoreRuns until the first call."""
        self._port = port
        self._settings = settings
        self._runs: Runs | None = None
        self._lock = threading.Lock()

    def recover_if_possible(self) -> None:
        """End runs whose owners are gone; a store whose runs all ended needs no look at them."""
        with suppress(RoteError):  # what is damaged, or cannot be written, can still be read
            if self._port.answer("", ListSpaces(limit=1, leased=True)).spaces:
                self._loaded().recover_if_possible()

    def start(self, place: RunStart, **terms: Any) -> "Run":
        return self._loaded().start(place, **terms)

    def records(self) -> "list[RunRecord]":
        return self._loaded().records()

    def origin(self, record: "RunRecord") -> dict[str, Json]:
        return self._loaded().origin(record)

    def recover(self) -> "list[RunRecord]":
        return self._loaded().recover()

    def close(self) -> None:
        if self._runs is not None:
            self._runs.close()

    def _loaded(self) -> Runs:
        with self._lock:
            if self._runs is None:
                self._runs = _load("rote.runs.store_runs", "StoreRuns")(
                    self._port, **self._settings
                )
            return self._runs


class DeferredQuestions:
    """Implements contract.Questions."""

    def digest(self, port: Port, space: str, read: AnswerRead, version: int) -> str:
        questions: Questions = _load("rote.runs.answers", "RunQuestions")()
        return questions.digest(port, space, read, version)


class DeferredSearching:
    """Implements space.searching.Searching."""

    def search(
        self, space: Space, request: Mapping[str, Any], included: Sequence[str]
    ) -> dict[str, Any]:
        searching: Searching = _load("rote.retrieval.searching", "StateSearching")()
        return searching.search(space, request, included)

    def embed(
        self,
        space: Space,
        embedder: Any,
        namespaces: Sequence[str] | None,
        tell: Callable[[int, int], None],
    ) -> dict[str, int]:
        searching: Searching = _load("rote.retrieval.searching", "StateSearching")()
        return searching.embed(space, embedder, namespaces, tell)


class DeferredTexts:
    """Implements contract.TextRule."""

    prefix = PREFIX

    def texts(self, id: str, value: Json) -> Iterable[str]:
        rule: TextRule = _load("rote.retrieval.texts", "RecordTexts")()
        return rule.texts(id, value)
