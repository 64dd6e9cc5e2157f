"""Random histories of a space with questions in between, each compared with a plain answer.

The plain answer reads every entity of the state by a scan, writes its living records to a file, and
asks the plain reference of retrieval. It keeps nothing, so it is never out of date.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from rote.bridges import write_export
from rote.errors import NotFound
from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.space import Space, Store
from rote.testing.clocks import FixedClock
from rote.testing.naive_retrieval import naive_retrieve
from rote.testing.retrieval_draws import Memories
from rote.values import canonical, digest

_FILE = "plain.jsonl"
_BESIDE = "beside.jsonl"  # is read before the file and before every space
_SNAPSHOT = "denied.json"
_BRANCHES_MAX = 3
_IDS = ("1", "2", "a/b", "c%", "10", "é")
_KINDS = ("k", "k!")
# Many puts, so that there is something to delete.
_STEPS = (
    *("put",) * 8, "delete", "delete", "other", "odd", "branch", "merge", "prune", "wait", "erase",
    "compact",
)  # fmt: skip


class RetrievalHistory:
    """A random history of records in a space with a few branches, and random questions in between."""

    draws: type[Memories] = Memories
    steps: tuple[str, ...] = _STEPS

    def __init__(self, store: Store, clock: FixedClock, folder: Path, seed: int) -> None:
        self._store = store
        self._space = store.space("notes")
        self._clock = clock
        self._folder = folder
        self._draws = self.draws(seed)
        self._random = self._draws.random
        self._branches = ["main"]
        self._oldest = 0  # the horizon of the last compaction

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._happen(self._random.choice(self.steps))
            self._clock.move(seconds=self._random.choice((0, 0, 0.5, 1)))
            # Questions are rare, so that a corpus often has several commits to follow.
            while self._draws.chance(0.5):
                self.ask()
        self.ask()

    def _happen(self, what: str) -> None:
        space = self._space.on(self._random.choice(self._branches))
        memory = Memory(space)
        key = self._key()
        if what == "put":
            memory.put(*key, *self._content())
        elif what == "delete":
            memory.delete(*key)
        elif what == "other":
            space.set("urn:other", self._random.random())
        elif what == "odd":
            # Not a record, though its id is like that of one.
            space.set(Memory.entity_id(*key), {"text": "alpha"})
        elif what == "branch":
            if len(self._branches) < _BRANCHES_MAX:
                name = f"b{len(self._branches)}"
                space.create_branch(name)
                self._branches.append(name)
        elif what == "merge":
            space.merge(self._random.choice(self._branches), on_conflict="latest")
        elif what == "prune":
            memory.prune()
        elif what == "wait":
            self._clock.move(seconds=3)
        elif what == "erase":
            with suppress(NotFound):  # never written
                self._space.erase(Memory.entity_id(*key), reason="asked for")
        elif what == "compact":
            before = space.version - self._random.randrange(8)
            if before > self._oldest + 8:
                self._oldest = before
                self._space.compact(before=before)

    def _key(self) -> tuple[str, str, str]:
        return "ops", self._random.choice(_KINDS), self._random.choice(_IDS)

    def _content(self) -> tuple[dict[str, Any], int | None, dict[str, Any] | None]:
        """Return payload, seconds to live, and metadata."""
        payload = {"text": self._draws.text()} if self._draws.chance(0.8) else {"n": [1.5, "beta"]}
        ttl = self._random.choice((None, None, 1, 4))
        metadata: dict[str, Any] = {}
        if self._draws.chance(0.4):
            metadata["tags"] = self._random.choice((["alpha"], ["Beta", "x"], ["foo bar"]))
        if self._draws.chance(0.3):
            metadata["valid_at"] = self._random.choice(
                ("2025-06-01T10:00:00+02:00", "2026-01-01T12:00:01Z")
            )
        return payload, ttl, metadata or None

    def ask(self) -> None:
        """Ask a branch as it is or was, and compare with the plain answer."""
        space = self._space.on(self._random.choice(self._branches))
        view, path = space, f"rote:notes@{space.branch}"
        if self._draws.chance(0.2):
            first = max(self._oldest, self._made(space))
            view = space.at(self._random.randint(first, space.version))
            path += f":{view.version}"
        self._compare(view, path, is_newest=view is space)

    def _compare(self, view: Space, path: str, *, is_newest: bool) -> None:
        lines = plain_lines(view)
        (self._folder / _FILE).write_bytes(lines)
        if is_newest:
            exported = BytesIO()
            write_export(Memory(view), exported, format="retrieval")
            assert exported.getvalue().rstrip(b"\n") == lines
        (self._folder / _BESIDE).write_bytes(lines)
        beside = [_BESIDE] if self._draws.chance(0.2) else []
        request = self._draws.request([*beside, _FILE])
        self._deny_some(request)
        expected = renamed(naive_retrieve(request, self._folder), path, was=_FILE)
        request["store_paths"] = [path, *beside]
        told = self._random.choice(("full", "counts"))
        found = retrieve(request, root=self._folder, store=self._store, dropped=told)
        if told == "full":
            assert dict(found) == expected
        assert found["package_hash"] == expected["package_hash"], (path, request)

    def _deny_some(self, request: dict[str, Any]) -> None:
        if self._draws.chance(0.2):
            entries = [
                {"memory_id": f"ops/{kind}/{id}", "classification": "malicious"}
                for kind, id in zip(_KINDS, self._random.sample(_IDS, 2), strict=True)
            ]
            (self._folder / _SNAPSHOT).write_bytes(canonical({"classifications": entries}))
            request["trust_filter"] = {"trust_snapshot_path": _SNAPSHOT}

    def _made(self, space: Space) -> int:
        """Return the version from which on a branch exists."""
        return next(each.created_version for each in space.branches() if each.name == space.branch)


def plain_records(view: Space, *, living: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the living records of a state, or those that have expired, in the order of their keys."""
    for state in view.scan("record:"):
        record: Any = state.value
        if record.keys() == {"text"}:
            continue  # not a record
        life = record["ttl_seconds"]
        end = None if life is None else _instant(record["updated_at"]) + timedelta(seconds=life)
        if (end is None or view.now <= end) == living:
            yield record


def plain_lines(view: Space) -> bytes:
    """Return the living records of a state as the contract writes them for a JSONL store."""
    lines = []
    for record in plain_records(view):
        key = (record["namespace"], record["record_kind"], record["record_id"])
        payload, metadata = record["payload"], record["metadata"] or {}
        line: dict[str, Any] = {
            "memory_id": "/".join(part.replace("%", "%25").replace("/", "%2F") for part in key),
            "text": payload["text"] if "text" in payload else canonical(payload).decode(),
            "ts_utc": metadata.get("valid_at") or record["updated_at"],
            "tags": metadata.get("tags") or [],
            "refs": [],
        }
        lines.append(canonical(line))
    return b"\n".join(lines)


def renamed(package: dict[str, Any], path: str, *, was: str) -> dict[str, Any]:
    """Return the package with another store path in place of one, and with the hash of that."""
    for items in package["selection"].values():
        for item in items:
            if item["store_path"] == was:
                item["store_path"] = path
    package = {name: value for name, value in package.items() if name != "package_hash"}
    return {**package, "package_hash": digest(package)}


def _instant(time: str) -> datetime:
    return datetime.fromisoformat(time)
