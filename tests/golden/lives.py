"""The life of a store: everything that can happen to one, with its own clock and ids.

    live     branches, merges, records, blobs, schemas, runs, an erasure, a compaction; at its end three
             processes are killed in the middle of a run
    recover  those runs are ended
    go_on    what happens to the store afterwards
    told     all that the store answers, as one JSON value

`python -m tests.golden.lives NAME` adds NAME.store, and NAME.json with its keys and what is told after
each of the three. `life-1` was made by the Rote whose kernel had no rooms yet.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rote
from rote.contract.commands import PutSide, SidesOut
from rote.errors import RunAborted
from rote.testing import FixedClock, SeededIds
from rote.testing.clocks import START
from rote.values import decode_canonical

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
MODES = ("read_only", "buffered_write")
# Of a run that is not heard of; everything else happens at least a day later.
LEASE_SECONDS = 60
DAY_SECONDS = 86_400
# Days after its life: of recovery, and of what happens then.
RECOVERY, AFTERWARDS = 10, 11

A, B, C, SECRET, LONG = (f"urn:note:{name}" for name in ("a", "b", "c", "secret", "long"))
BLOBS = {b"": "text/plain", b"golden": "text/plain", bytes(range(256)) * 40: "image/png"}
PICTURE = sha256(bytes(range(256)) * 40).hexdigest()
QUESTION = {
    "query": "vault keys",
    "budget": {"max_excerpt_tokens": 60, "max_items": 2},
    "store_paths": ["rote:agent"],
}

Call = tuple[str, str, dict[str, Any]]  # branch, method of a space or a memory, arguments


class Life:
    """One process that works with the store; each call happens a second after the one before."""

    def __init__(self, store: rote.Store, clock: FixedClock) -> None:
        self.store = store
        self.clock = clock

    def call(self, *calls: Call, space: str = "notes") -> None:
        for branch, method, arguments in calls:
            self.clock.move(seconds=1)
            getattr(self.store.space(space).on(branch), method)(**arguments)

    def remember(self, *calls: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
        for method, positional, named in calls:
            self.clock.move(seconds=1)
            getattr(rote.Memory(self.store.space("agent")), method)(*positional, **named)

    def run(self, run_id: str, **terms: Any) -> rote.Run:
        self.clock.move(seconds=1)
        return self.store.space("agent").run(
            workflow_id="golden", model=None, policy_set_id="policies/1", run_id=run_id,
            **{"mode": "buffered_write", **terms},
        )  # fmt: skip


def open_at(place: str | Path, *, day: int, **more: Any) -> Life:
    """A store on a day of its life; the ids of each day are others."""
    clock = FixedClock(START + timedelta(days=day))
    store = rote.open(
        place, clock=clock, ids=SeededIds(day), author="Ada", modes=MODES,
        lease_seconds=LEASE_SECONDS, durability="os", recover=False, **more,
    )  # fmt: skip
    return Life(store, clock)


def set_note(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "value": {"text": text, **more}}


def patch_note(id: str, path: str, value: Any) -> dict[str, Any]:
    return {"id": id, "ops": [{"op": "add", "path": path, "value": value}]}


# -- what happens ------------------------------------------------------------------------------------


def live(path: Path) -> None:
    """Write a store, closed, with its folder of keys."""
    days = (write_notes, write_records, run_agents, compact, let_the_index_wait)
    for day, happen in enumerate(days):
        life = open_at(path, day=day)
        with life.store:
            happen(life)
    for day, run_id in enumerate(LEFT, start=len(days)):
        leave(path, day, run_id)
    life = open_at(path, day=len(days) + len(LEFT))
    with life.store:
        late = {"id": "urn:thought:1", "value": {"by": "all"}}
        life.call(("main", "set", late), space="agent")
    shutil.rmtree(path.with_name("observability"))


def write_notes(life: Life) -> None:
    """The same notes in two spaces, of which one will be compacted; and blobs."""
    for space, lines in (("notes", 40), ("whole", 10)):
        life.call(*notes(lines), space=space)
    for data, content_type in BLOBS.items():
        life.call(("main", "put_blob", {"data": data, "content_type": content_type}))


def notes(lines: int) -> list[Call]:
    """Schemas, keys, branches with and without conflicts, an erasure."""
    long = [("main", "patch", patch_note(LONG, "/lines/-", f"line {n}")) for n in range(lines)]
    return [
        ("main", "set", {"id": "urn:schema:note", "value": {"required": ["text"]}}),
        ("main", "set", {"id": "urn:schemas", "value": {"urn:note:": "note"}}),
        ("main", "set", {**set_note(A, "é", n=1, of=[1, 2.5, None]), "key": "first"}),
        ("main", "set", set_note(B, "b")),
        ("main", "set", set_note(SECRET, "a password", key="hunter2")),
        ("main", "set", set_note(LONG, "x" * 1_100, lines=[])),
        *long[:5],
        ("main", "create_branch", {"name": "topic", "key": "branch-1"}),
        ("main", "create_branch", {"name": "past/one", "at": 4}),
        ("topic", "patch", patch_note(A, "/n", 2)),
        ("topic", "delete", {"id": B}),
        ("topic", "patch", patch_note(SECRET, "/again", True)),
        ("past/one", "set", set_note(C, "of the past")),
        ("main", "set", set_note(A, "e", n=1, of=[1])),
        ("main", "merge", {"source": "topic"}),  # a conflict, and nothing is written
        ("main", "merge", {"source": "topic", "on_conflict": "paths", "key": "merge-1"}),
        ("past/one", "merge", {"source": "topic"}),
        ("topic", "set", set_note(C, "theirs")),
        ("past/one", "set", set_note(C, "ours")),
        ("topic", "merge", {"source": "past/one", "resolutions": {C: {"text": "both"}}}),
        ("main", "delete_branch", {"name": "past/one"}),
        ("main", "erase", {"ids": SECRET, "reason": "request 17", "key": "erase-1"}),
        ("main", "set", set_note(SECRET, "written anew")),
        *long[5:],
        ("main", "create_branch", {"name": "later"}),
        ("later", "delete", {"id": A}),
        ("main", "patch", patch_note(A, "/picture", f"blob:sha256:{PICTURE}")),
    ]


def write_records(life: Life) -> None:
    """Put and appended, with and without a time to live, with metadata; a receipt."""
    tagged = {"tags": ["keys", "ünï"], "source": "user", "valid_at": "2026-01-01T00:00:00Z"}
    life.remember(
        ("put", ("ops", "fact", "vault", {"text": "the vault has two keys"}), {}),
        ("put", ("ops", "fact", "door", {"text": "one door"}), {"metadata": tagged}),
        ("put", ("ops", "fact", "short", {"text": "soon gone"}), {"ttl_seconds": 3_600}),
        ("put", ("ops", "plan", "long", {"n": 1}), {"ttl_seconds": 30 * DAY_SECONDS}),
        *[("append", ("ops", "log", "days", {"day": day}), {}) for day in range(20)],
        ("append", ("ops", "log", "tagged", {"day": 0}), {"metadata": tagged}),
        ("put", ("ops", "fact", "door", {"text": "two doors, one key"}), {"metadata": tagged}),
        ("touch", ("ops", "fact", "vault"), {}),
        ("put", ("ops", "fact", "gone", {"text": "deleted"}), {}),
        ("delete", ("ops", "fact", "gone"), {}),
    )
    rote.retrieve(QUESTION, store=life.store)


def run_agents(life: Life) -> None:
    """Applied, with nothing to write, aborted by a conflict and by its policy, discarded."""
    space = life.store.space("agent")
    with life.run("applied") as run:
        use_memory(run)
        run.set("urn:thought:1", {"by": "applied"})
    with life.run("empty", mode="read_only") as run:
        run.get("urn:thought:1")
    with suppress(RunAborted), life.run("conflict") as run:
        run.get("urn:thought:1")
        run.set("urn:thought:2", 2)
        space.set("urn:thought:1", {"by": "another"})
    with life.run("rejected", commit_policy=lambda operations: False) as run:
        run.set("urn:thought:2", 2)
    with suppress(ZeroDivisionError), life.run("discarded") as run:
        run.set("urn:thought:2", 2)
        raise ZeroDivisionError


def use_memory(run: rote.Run) -> None:
    """Questions that are asked again when the run commits, and records that it writes."""
    run.retrieve(QUESTION)
    run.memory.list("ops", filters={"tags_any": ["keys"]})
    run.memory.append("ops", "log", "runs", {"run": run.run_id})
    run.memory.put("ops", "fact", "last", {"text": run.run_id})


def compact(life: Life) -> None:
    """History goes; what is left goes on, with a checkpoint."""
    life.call(
        ("main", "compact", {"before": 30, "key": "compact-1"}),
        ("later", "set", set_note(B, "of the branch")),
        ("main", "set", set_note(B, "of main")),
        ("main", "checkpoint", {}),
    )
    life.call(("main", "compact", {"keep": 12}), ("main", "checkpoint", {}), space="agent")


def let_the_index_wait(life: Life) -> None:
    """The index, built anew, has changes that are not in its rows."""
    rote.Memory(life.store.space("agent")).list("ops", filters={"tags_any": ["keys"]})
    tagged = {"tags": ["keys"]}
    life.remember(
        ("put", ("session", "fact", "waits", {"text": "for the index"}), {"metadata": tagged}),
        ("put", ("session", "fact", "also", {"text": "a key"}), {"metadata": tagged}),
        ("delete", ("session", "fact", "also"), {}),
    )


def stay_open(run: rote.Run) -> None:
    use_memory(run)
    os.kill(os.getpid(), signal.SIGKILL)


def write_thought(run: rote.Run) -> None:
    use_memory(run)
    run.set("urn:thought:3", {"by": run.run_id})


def write_late(run: rote.Run) -> None:
    """Read an entity that is changed before the commit is made."""
    run.get("urn:thought:1")
    run.set("urn:thought:4", {"by": run.run_id})


# The runs whose processes are killed.
LEFT: dict[str, Callable[[rote.Run], None]] = {
    "left-open": stay_open,
    "left-pending": write_thought,
    "left-late": write_late,
}


def leave(path: Path, day: int, run_id: str) -> None:
    """A process that is killed in its run: while it is open, or when its commit is pending."""
    command = [sys.executable, "-m", "tests.golden.lives", "die", str(path), str(day), run_id]
    code = subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode
    assert code == -signal.SIGKILL, code


def die(place: str, day: str, run_id: str) -> None:
    life = open_at(place, day=int(day))
    port: Any = life.store._port
    answer = port.answer

    def answered(space: str, command: Any, /) -> Any:
        row = answer(space, command)
        if isinstance(command, PutSide) and command.kind == "run":
            body: Any = command.body
            if body["state"] == "commit_pending":
                os.kill(os.getpid(), signal.SIGKILL)
        return row

    port.answer = answered
    with life.run(run_id) as run:
        LEFT[run_id](run)


def recover(life: Life) -> list[dict[str, Any]]:
    """Recover the runs that were left, and return their records."""
    ended = sorted(life.store.recover(), key=lambda record: record.run_id)
    return [_told_run(record.to_dict()) for record in ended]


def go_on(life: Life) -> None:
    """Commits, keys that are used again, merges, an erasure, a run, and compactions."""
    calls: list[Call] = [
        ("main", "set", {**set_note(A, "é", n=1, of=[1, 2.5, None]), "key": "first"}),
        ("main", "merge", {"source": "topic", "on_conflict": "paths", "key": "merge-1"}),
        ("main", "patch", patch_note(LONG, "/lines/-", "the last")),
        ("main", "merge", {"source": "later", "on_conflict": "latest", "key": "merge-2"}),
        ("main", "create_branch", {"name": "newest"}),
        ("newest", "set", set_note("urn:note:d", "d")),
        ("topic", "merge", {"source": "newest"}),
        ("main", "merge", {"source": "past/one", "on_conflict": "theirs"}),
        ("main", "delete_branch", {"name": "newest"}),
        ("main", "erase", {"ids": B, "reason": "request 18"}),
    ]
    life.call(*calls)
    life.call(*calls, space="whole")
    life.remember(
        ("put", ("ops", "fact", "door", {"text": "no door"}), {}),
        ("append", ("ops", "log", "days", {"day": 20}), {}),
        ("prune", (), {}),
    )
    with life.run("afterwards") as run:
        use_memory(run)
    for space, keep in (("notes", 8), ("agent", 6)):
        life.call(
            ("main", "compact", {"keep": keep}),
            ("main", "set", {"id": "urn:end", "value": space}),
            ("main", "checkpoint", {}),
            space=space,
        )
    life.call(("main", "gc", {"grace_seconds": 0}))


# -- what is told ------------------------------------------------------------------------------------


def told(life: Life) -> dict[str, Any]:
    """All that a store answers about its past and present."""
    store = life.store
    runs = store.runs()
    return {
        "spaces": {space.name: _told_space(space) for space in store.spaces()},
        "runs": [{**_told_run(record.to_dict()), **store.run_origin(record)} for record in runs],
        "receipts": store.receipts(),
    }


def _told_space(space: rote.Space) -> dict[str, Any]:
    branches, verified = space.branches(), space.verify()
    entities = sorted({state.id for branch in branches for state in space.on(branch.name).scan()})
    return {
        "did": space.did,
        "version": space.version,
        "head": space.head,
        "oldest": space.oldest,
        "verified": _verified(verified),
        "branches": [branch.to_dict() for branch in branches],
        "log": [[commit.hash, rote.digest(commit.to_dict())] for commit in space.log()],
        "histories": {id: [fact.hash for fact in space.history(id)] for id in entities},
        "values": _values(space),
        "digests": {branch.name: dict(_digests(space, branch.name)) for branch in branches},
        "records": _told_records(space),
        "sides": list(_told_sides(space)),
        "blobs": [_told_blob(space, data) for data in BLOBS if space.name == "notes"],
    }


def _values(space: rote.Space) -> dict[str, Any]:
    return {state.id: state.value for state in space.scan()}


def _digests(space: rote.Space, branch: str) -> Iterator[tuple[str, str]]:
    """Yield the answers at every fifth version that can be read, and at the newest."""
    for version in (*range(space.oldest, space.version, 5), space.version):
        view = space.at(version)
        if branch in [each.name for each in view.branches()]:
            yield str(version), rote.digest(_values(view.on(branch)))


def _told_records(space: rote.Space) -> dict[str, Any]:
    memory, middle = rote.Memory(space), (space.oldest + space.version) // 2
    return {
        "all": {name: _listed(memory, name) for name in memory.namespaces},
        "tagged": {
            name: _listed(memory, name, filters={"tags_any": ["keys"]})
            for name in memory.namespaces
        },
        "middle": _listed(memory, "ops", at=middle),
        "vault": memory.get("ops", "fact", "vault"),
        "stats": memory.stats(),
        "retention": memory.retention_report(),
    }


def _listed(memory: rote.Memory, namespace: str, **more: Any) -> Any:
    return memory.list(namespace, include=["payload", "metadata"], **more)["items"]


def _told_sides(space: rote.Space) -> Iterator[Any]:
    """The rows beside the log that a copy takes along; without the owners of runs, whose names are
    random."""
    after: tuple[str, str] | None = ("", "")
    while after is not None:
        page = space._port.answer(space.did, SidesOut(after))
        for row in page.rows:
            body: Any = row.body
            if row.kind == "run":
                body = {**_told_run(body), "owner": ""}
            yield [row.kind, row.key, body]
        after = page.until


def _told_run(run: dict[str, Any]) -> dict[str, Any]:
    """Return what was told of a run when the lives were written; that it is a replay came later."""
    assert not run.get("replayed")
    return {name: value for name, value in run.items() if name != "replayed"}


def _told_blob(space: rote.Space, data: bytes) -> dict[str, Any]:
    hash = sha256(data).hexdigest()
    assert space.blob(hash) == data
    info = space.blob_info(hash)
    return {"hash": hash, "size": info.size, "content_type": info.content_type}


# -- golden files ------------------------------------------------------------------------------------


def load(name: str) -> dict[str, Any]:
    golden: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return golden


def copy_store(name: str, folder: Path) -> Path:
    """A copy of a golden store with its keys: opening a store may write to it."""
    path = folder / "memory.db"
    shutil.copyfile(FOLDER / f"{name}.store", path)
    keys = keys_of(path)
    keys.mkdir()
    for did, text in load(name)["keys"].items():
        (keys / did).write_text(text, encoding="utf-8")
    return path


def keys_of(path: Path) -> Path:
    return path.with_name(path.name + ".keys")


def add(name: str) -> None:
    target = FOLDER / f"{name}.store"
    assert not target.exists(), "golden files are added, never edited"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        live(path)
        shutil.copyfile(path, target)
        keys = {file.name: file.read_text("utf-8") for file in sorted(keys_of(path).iterdir())}
        life = open_at(path, day=RECOVERY, create=False)
        with life.store:
            golden: dict[str, Any] = {"keys": keys, "lived": told(life)}
            golden |= {"ended": recover(life), "recovered": told(life)}
        life = open_at(path, day=AFTERWARDS, create=False)
        with life.store:
            go_on(life)
            golden["gone_on"] = told(life)
    text = json.dumps(golden, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


def without_root(row: list[Any]) -> list[Any]:
    """A side row without the folder that the pending payload of a run once named."""
    kind, key, body = row
    if kind != "run" or body["payload"] is None:
        return row
    payload: Any = decode_canonical(body["payload"].encode())
    payload.pop("root", None)
    return [kind, key, {**body, "payload": payload}]


if __name__ == "__main__":
    if sys.argv[1] == "die":
        die(*sys.argv[2:])
    else:
        add(sys.argv[1])


def _verified(report: rote.VerifyReport) -> dict[str, Any]:
    """Return what verify told when the lives were written; warnings came later."""
    assert report.warnings == ()
    told = {**report.to_dict(), "faults": [str(fault) for fault in report.faults]}
    return {name: value for name, value in told.items() if name != "warnings"}
