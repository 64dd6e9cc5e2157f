"""`rote demo`: eight scenes on a store in a temporary folder.

Nothing is staged: each scene works on a real store and checks the results. The story ends with an
error at the first result that is not as told.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rote.cli.demo.crash import kill_writer
from rote.cli.demo.stage import Stage
from rote.cli.demo.tampering import change_byte, places_of
from rote.cli.output import compact, plural, short, stdout
from rote.errors import Conflict, invariant
from rote.opening import open as open_store
from rote.records.memory import Memory
from rote.space import Space

ADA = "urn:entity:ada"
ADA_FIRST = {"name": "Ada", "drink": "tea", "budget": 100}
PATCH = [{"op": "replace", "path": "/drink", "value": "coffee"}]
NOTES = {
    "meeting": "The team meets on Tuesdays at ten.",
    "allergy": "Ada is allergic to peanuts.",
    "office": "The office moved to Leith in March.",
}
QUESTION = "When is the next meeting of the team?"
# Enough that the writer is busy when it is killed, few enough for a slow disk.
COMMITS_BEFORE_KILL = 200

Scene = Callable[[Stage, Path], None]


def demo() -> None:
    """See what Rote does, in a minute."""
    stage = Stage(stdout(), wait=time.sleep, scenes=len(SCENES))
    with tempfile.TemporaryDirectory(prefix="rote-demo-") as folder:
        tell(stage, Path(folder) / "memory.db")


def tell(stage: Stage, path: Path) -> None:
    """Tell the whole story, with its store at `path`."""
    stage.tell("Rote is memory for AI agents that you can prove. Here is a new store, in one file.")
    for scene in SCENES:
        scene(stage, path)
    stage.end(
        "That was Rote: every version kept, no write lost, no change unseen.\n"
        'Your turn:  rote set urn:entity:me \'{"name":"…"}\'  then  rote log\n'
        "(after `make demo` it is .venv/bin/rote)\n"
        "All commands:  rote --help"
    )


def write_memory(stage: Stage, path: Path) -> None:
    stage.open_scene("An agent writes a memory")
    stage.show_code(
        'space = rote.open("memory.db").space("default")\n'
        'space.set("urn:entity:ada", {"name": "Ada", "drink": "tea", "budget": 100})'
    )
    with _space(path) as space:
        commit = space.set(ADA, ADA_FIRST)
        stored = space.get(ADA)
    invariant(stored == ADA_FIRST, "the memory is not what was written")
    invariant(commit.version == 1, "the first commit is not version 1")
    stage.show_answer(f"version {commit.version}, hash {short(commit.hash)}…")
    stage.conclude("it is on disk, and its hash is the first link of a chain.")


def patch_memory(stage: Stage, path: Path) -> None:
    stage.open_scene("It changes a part of it")
    stage.show_code(
        'space.patch("urn:entity:ada",\n'
        '            [{"op": "replace", "path": "/drink", "value": "coffee"}])'
    )
    with _space(path) as space:
        commit = space.patch(ADA, PATCH)
        value = space.get(ADA)
    invariant(value == {**ADA_FIRST, "drink": "coffee"}, "the patch did another thing")
    invariant(commit.version == 2, "the second commit is not version 2")
    stage.show_answer(f"version {commit.version}: {compact(value)}")
    stage.conclude("a new version; the old one is still there.")


def travel_in_time(stage: Stage, path: Path) -> None:
    stage.open_scene("It travels in time")
    stage.show_code('space.at(1).get("urn:entity:ada")')
    with _space(path) as space:
        then, now = space.at(1).get(ADA), space.get(ADA)
    invariant(then == ADA_FIRST, "the past has changed")
    invariant(now != then, "the present is still the past")
    stage.show_answer(f"then: {compact(then)}")
    stage.show_answer(f"now:  {compact(now)}")
    stage.conclude("what an agent knew at any moment can be asked again, for ever.")


def ask_memory(stage: Stage, path: Path) -> None:
    stage.open_scene("It asks its memory")
    stage.show_code(
        f'memory = rote.Memory(store.space("notes"))\nmemory.search("{QUESTION}")["items"]'
    )
    with open_store(path) as store:
        memory = Memory(store.space("notes"))
        for id, text in NOTES.items():
            memory.put("long_term", "note", id, {"text": text})
        found, again = memory.search(QUESTION), memory.search(QUESTION)
    best = found["items"][0]
    invariant(best["record_id"] == "meeting", "the search found another note")
    invariant(found == again, "the same question had another answer")
    stage.show_answer(f"{best['record_id']}, score {best['score']}: {best['excerpt']}")
    stage.conclude("found by its words; no model was asked, and the answer is always the same.")


def catch_conflict(stage: Stage, path: Path) -> None:
    stage.open_scene("Two agents want the same money")
    stage.tell("Both read Ada's budget, 100. One spends 30 of it, the other 90.")
    stage.show_code(
        "with space.transaction() as tx:\n"
        '    ada = tx.get("urn:entity:ada")\n'
        '    tx.set("urn:entity:ada", {**ada, "budget": ada["budget"] - 90})'
    )
    with _space(path) as space:
        error = _spend_twice(space)
        left = _budget(space.get(ADA))
    invariant([conflict.id for conflict in error.conflicts] == [ADA], "the conflict is elsewhere")
    invariant(left == 70, "the refused write left a trace")
    stage.show_answer("the first:  done, 70 left")
    stage.show_answer(f"the second: Conflict: {error}")
    stage.conclude("the second wrote nothing; it reads again, sees 70, and thinks again.")


def _spend_twice(space: Space) -> Conflict:
    """Let two agents write after the same read; return the error of the second."""
    first, second = space.transaction(), space.transaction()
    seen_by_first: Any = first.get(ADA)
    seen_by_second: Any = second.get(ADA)
    invariant(_budget(seen_by_first) == _budget(seen_by_second) == 100, "the budget is not 100")
    with first:
        first.set(ADA, {**seen_by_first, "budget": _budget(seen_by_first) - 30})
    try:
        with second:
            second.set(ADA, {**seen_by_second, "budget": _budget(seen_by_second) - 90})
    except Conflict as error:
        return error
    invariant(False, "the second agent's write was not refused")
    raise AssertionError


def _budget(value: Any) -> int:
    budget: int = value["budget"]
    return budget


def survive_kill(stage: Stage, path: Path) -> None:
    stage.open_scene("The process dies in the middle of its work")
    stage.tell(
        "Another process commits as fast as it can and notes each commit that Rote confirms."
    )
    acknowledged = kill_writer(path, after=COMMITS_BEFORE_KILL)
    stage.show_answer(f"kill -9 after {plural(len(acknowledged), 'confirmed commit')}")
    stage.tell("Open the store again and look for each of them, by version and hash.")
    with _space(path) as space:
        stored = {commit.version: commit.hash for commit in space.log()}
        report = space.verify()
    lost = [version for version, hash in acknowledged.items() if stored.get(version) != hash]
    invariant(len(acknowledged) >= COMMITS_BEFORE_KILL, "the writer stopped by itself")
    invariant(not lost, f"confirmed commits are lost: {lost[:3]}")
    invariant(report.ok, "the chain is broken after the kill")
    unconfirmed = len(stored) - max(acknowledged)
    invariant(unconfirmed in (0, 1), "there are commits that nobody made")
    stage.show_answer(f"{len(acknowledged)} of {len(acknowledged)} are there")
    if unconfirmed:
        stage.show_answer(
            "and one more: stored whole, but the process died before it could note it"
        )
    stage.conclude("nothing lost, nothing half done.")


def verify_chain(stage: Stage, path: Path) -> None:
    stage.open_scene("It proves that nothing was changed")
    stage.show_code("space.verify()")
    with _space(path) as space:
        report = space.verify()
        head = space.head
    invariant(report.ok, "verify found faults in an honest store")
    invariant(report.head == head, "verify looked at another head")
    stage.show_answer(
        f"{plural(report.commits, 'commit')}, {plural(report.facts, 'fact')}, "
        f"{plural(len(report.faults), 'fault')}; head {short(report.head)}…"
    )
    stage.conclude("every hash was computed again and every link holds.")


def find_tampering(stage: Stage, path: Path) -> None:
    stage.open_scene("Somebody edits the file")
    stage.tell(
        "Take a backup. In the copy, change one byte and its checksum: Ada's budget of 70 becomes 90."
    )
    copy = path.with_name("copy.db")
    with open_store(path, create=False) as store:
        store.backup(copy)
    _raise_budget(copy)
    with _space(copy) as space:
        told = _budget(space.get(ADA))
        report = space.verify()
    with _space(path) as space:
        original = space.verify()
        version = space.read(ADA).version
    found = [fault for fault in report.faults if (fault.id, fault.version) == (ADA, version)]
    invariant(told == 90, "the change did not reach the value")
    invariant(not report.ok and bool(found), "verify did not find the changed byte")
    invariant(original.ok, "the original does not verify any more")
    stage.show_answer(f"reading the copy: budget {told}")
    stage.show_answer(f"verifying it:     {found[0]}")
    stage.conclude("found, with its entity and version. The original still verifies.")


def _raise_budget(copy: Path) -> None:
    """Change one byte of the file, so that the stored 70 is a 90."""
    text = b'"budget":70'
    for place in places_of(copy, text):
        digit = place + text.index(b"7")
        before = change_byte(copy, digit, b"9")
        with _space(copy) as space:
            if _budget(space.get(ADA)) == 90:
                return
        change_byte(copy, digit, before)
    invariant(False, "the stored value is not in the file")


@contextmanager
def _space(path: Path) -> Iterator[Space]:
    """Open the store anew, as another process would; yield its space."""
    with open_store(path) as store:
        yield store.space("default")


SCENES: tuple[Scene, ...] = (
    write_memory,
    patch_memory,
    travel_in_time,
    ask_memory,
    catch_conflict,
    survive_kill,
    verify_chain,
    find_tampering,
)
