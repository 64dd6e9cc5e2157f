"""Parts of a store that are loaded when they are first used: most programs start no run."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rote.contract import (
    AnswerRead,
    Packed,
    PackedIndex,
    Port,
    Questions,
    TextRule,
)
from rote.contract.commands import ListSpaces
from rote.contract.index import Change, Note
from rote.contract.links import Linker
from rote.errors import RoteError
from rote.opening.sources import SystemIds
from rote.records.keys import PREFIX
from rote.space import Space, Store
from rote.space.running import Runs, RunStart
from rote.space.searching import Searching
from rote.space.sessions import Sessions
from rote.values import Json

if TYPE_CHECKING:
    from rote.runs.ledger import RunRecord
    from rote.runs.run import Run
    from rote.sessions.session import Session


def _load(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def open_remote(url: str, of_server: Mapping[str, Any], **options: Any) -> Store:
    """Open a store behind a server; what speaks HTTP is loaded with the first."""
    store: Store = _load("rote.opening.remote", "open_remote")(url, of_server, **options)
    return store


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


class DeferredSessions:
    """Implements space.sessions.Sessions."""

    def __init__(self, linker: Callable[[], Linker], **settings: Any) -> None:
        """linker    makes what connects sessions with their desk
        settings  more arguments of sessions.store_sessions.StoreSessions
        """
        self._linker = linker
        self._settings = settings
        self._sessions: Sessions | None = None
        self._lock = threading.Lock()

    def begin(self, space: Space, **terms: Any) -> "Session":
        with self._lock:
            if self._sessions is None:
                self._sessions = _load("rote.sessions.store_sessions", "StoreSessions")(
                    self._linker(), randomness=SystemIds(), **self._settings
                )
        return self._sessions.begin(space, **terms)

    def close(self) -> None:
        if self._sessions is not None:
            self._sessions.close()


def local_sessions(port: Port, shown: str) -> DeferredSessions:
    """Return the sessions of a store in this process, which is shown so."""

    def linker() -> Linker:
        made: Linker = _load("rote.sessions.links", "LocalLinker")(port, randomness=SystemIds())
        return made

    return DeferredSessions(linker, server=shown)


class DeferredQuestions:
    """Implements contract.Questions."""

    def digest(self, port: Port, space: str, read: AnswerRead, version: int) -> str:
        questions: Questions = _load("rote.runs.answers", "RunQuestions")()
        return questions.digest(port, space, read, version)


class DeferredWords:
    """Implements contract.PackedIndex: the index of words in one language."""

    prefix = PREFIX

    def __init__(self, name: str, constant: str, *, is_eager: bool) -> None:
        self.name = name
        self.is_eager = is_eager
        self._constant = constant

    def notes(self, change: Change, /) -> Iterator[bytes]:
        return self._loaded().notes(change)

    def pack(self, notes: Sequence[Note], /) -> list[Packed]:
        return self._loaded().pack(notes)

    def merge(self, segments: Sequence[Packed], /) -> Packed:
        return self._loaded().merge(segments)

    def holds(self, body: bytes, ids: Collection[str], /) -> bool:
        return self._loaded().holds(body, ids)

    def without(self, segment: Packed, ids: Collection[str], /) -> Packed:
        return self._loaded().without(segment, ids)

    def rows(self, segment: Packed, /) -> Iterator[bytes]:
        return self._loaded().rows(segment)

    def _loaded(self) -> PackedIndex:
        index: PackedIndex = _load("rote.retrieval.segments.words", self._constant)
        return index


WORDS = DeferredWords("words/1", "WORDS", is_eager=True)
WORDS_NONE = DeferredWords("words/1/none", "WORDS_NONE", is_eager=False)


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
