"""Retrievals in processes of their own: `python -m tests.faults.retrieval_children <what> …`.

Each prints one JSON document.
"""

import locale
import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson

import rote
from rote.engines import ASKED_FOR, Engine
from rote.engines.postgres import PostgresEngine
from rote.engines.sqlite import SqliteEngine, SqliteLook
from rote.opening.keys import MemoryKeys
from rote.retrieval.cache import CORPORA
from rote.testing import StoreSettings, open_on
from rote.testing.clocks import FixedClock
from rote.testing.ranking_questions import Question, answer_of
from rote.values import canonical, decode

# A path that does not exist, so that a trace of system calls shows where the work begins and ends.
BEGIN, END = "/begin-of-retrieval", "/end-of-retrieval"


def answer(folder: str, cache: str) -> Any:
    """Return the digest of the package of each case in a folder, in the order of their names."""
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        pass  # a locale that this machine does not have
    digests = []
    for root in sorted(Path(folder).iterdir()):
        request: Any = decode((root / "request.json").read_bytes())
        digests.append(rote.digest(dict(rote.retrieve(request, root=root, cache=cache or None))))
    return digests


def ask(file: str) -> Any:
    """Return the bytes of the answers to questions, history by history: of a look, then of the store."""
    with suppress(locale.Error):  # a locale that this machine does not have
        locale.setlocale(locale.LC_ALL, "")
    answers = []
    for kept in msgspec.json.decode(Path(file).read_bytes(), type=list[Kept]):
        looked, written = (kept.answers(is_look=is_look) for is_look in (True, False))
        assert looked == written
        answers.append(written)
    return answers


class Kept(msgspec.Struct):
    """The end of a history, and questions to it."""

    folder: str
    now: datetime
    questions: list[Question]
    url: str | None = None  # of a store on PostgreSQL
    schema: str = ""

    def answers(self, *, is_look: bool) -> list[str]:
        settings = StoreSettings(clock=FixedClock(self.now), content_rules=(), read_only=is_look)
        with open_on(self._engine(is_look), settings, keys=MemoryKeys()) as store:
            found = [answer_of(store, question, Path(self.folder)) for question in self.questions]
        return [orjson.dumps(answer).decode() for answer in found]

    def _engine(self, is_look: bool) -> Engine:
        if self.url is not None:
            why = ASKED_FOR if is_look else None
            return PostgresEngine(self.url, schema=self.schema, read_only=why)
        path = Path(self.folder) / "memory.db"
        return SqliteLook(path) if is_look else SqliteEngine(path)


def watch(root: str, cache: str) -> Any:
    """Return what the process asks of the system while it retrieves: cold, and from the sidecar."""
    request: Any = decode((Path(root) / "request.json").read_bytes())
    rote.retrieve(request, root=root, cache=Path(cache) / "before")  # imports what it needs
    CORPORA.forget(lambda place: True)
    events: list[list[str]] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching:
            events.append([event, *(os.fsdecode(a) for a in arguments if type(a) in (str, bytes))])

    sys.addaudithook(hook)
    Path(BEGIN).exists()
    rote.retrieve(request, root=root, cache=Path(cache) / "watched")
    CORPORA.forget(lambda place: True)
    rote.retrieve(request, root=root, cache=Path(cache) / "watched")
    Path(END).exists()
    watching = False
    return events


def fork(store: str) -> Any:
    """Return the answer of a child that was forked while another thread held all corpora."""
    request: Any = {
        "query": "alpha", "store_paths": ["rote:agent"], "budget": {"max_excerpt_tokens": 20}
    }  # fmt: skip
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in (CORPORA._lock, *CORPORA._turns):
                stack.enter_context(lock)
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with rote.open(store, read_only=True) as opened:
            package = rote.retrieve(request, store=opened)
        os.write(writing, canonical(package["selection"]["selected"][0]["memory_id"]))
        os._exit(0)
    os.waitpid(child, 0)
    is_over.set()
    thread.join()
    os.close(writing)
    return decode(os.read(reading, 1_000))


def tell(root: str, store: str) -> Any:
    """Return a package, whose receipt goes to the ledger of a store."""
    request: Any = decode((Path(root) / "request.json").read_bytes())
    with rote.open(store) as opened:
        return dict(rote.retrieve(request, root=root, store=opened))


def grow(root: str) -> Any:
    """Return the number of bytes by which this process grows at most, and the hash of the package."""
    request: Any = decode((Path(root) / "request.json").read_bytes())
    before = peak_bytes()
    package = rote.retrieve(request, root=root)
    return {"bytes": peak_bytes() - before, "package_hash": package["package_hash"]}


def append(path: str) -> Any:
    """Append each line of the standard input to a file, in one write."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with Path(path).open("ab", buffering=0) as file:
        for line in sys.stdin.buffer:
            file.write(line)
    return None


def peak_bytes() -> int:
    """Return the most memory that this process has held."""
    fields = Path("/proc/self/status").read_text().splitlines()
    (line,) = [field for field in fields if field.startswith("VmHWM:")]
    return int(line.split()[1]) * 1_024


if __name__ == "__main__":
    work = {each.__name__: each for each in (answer, ask, watch, fork, tell, grow, append)}[
        sys.argv[1]
    ]
    sys.stdout.buffer.write(canonical(work(*sys.argv[2:])))
