"""The processes of these tests: `python -m tests.faults.children <what> <place> …`.

A place is the path of a file; or the URL, the schema, the folder of keys and the durability of a
store on PostgreSQL, with spaces between. Each process prints a line for each answer of the store,
and ends with an error when it sees a forbidden state.

Hundreds of these processes are started, so nothing is imported here that takes long and few need.
"""

import itertools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any, NoReturn

import rote
from rote.errors import Conflict, RoteError, Unavailable
from rote.kernel.committing import committer
from rote.kernel.log import page_sizes
from rote.testing.serial import Recorder, Recording, encode_record

NAME = "agent"
LEFT, RIGHT, COUNTER = "urn:entity:left", "urn:entity:right", "urn:entity:counter"
# Seconds that a client waits before it tries again; with several clients the server recovers faster.
PAUSE_SECONDS = 0.02


def open_store(place: str) -> rote.Store:
    if not place.startswith("postgresql://"):
        return rote.open(place)
    url, schema, keys, durability = place.split(" ")
    return rote.open(url, schema=schema, keys=keys, durability=durability)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def replace(module: ModuleType, name: str, value: object) -> None:
    """Give a name of a module another value, for the life of this process."""
    setattr(module, name, value)


def wait_for_the_others() -> None:
    """Begin when all processes are ready, so that they meet."""
    say("ready")
    sys.stdin.readline()


def operations(writer: str, number: int) -> list[dict[str, Any]]:
    """Return operations on two entities that must agree, and on a journal that grows by patches."""
    value = {"writer": writer, "number": number}
    entry = [{"op": "add", "path": "/items/-", "value": number}]
    return [
        {"op": "set", "id": LEFT, "value": value},
        {"op": "set", "id": RIGHT, "value": value},
        {
            "op": "patch",
            "id": f"urn:entity:journal:{writer}",
            "ops": entry,
            "else": {"items": [number]},
        },
    ]


def key_of(writer: str, number: int) -> str:
    return f"{writer}/{number}"


def write(path: str, writer: str) -> None:
    """Commit for ever; each line of output is the version and the key of an acknowledged commit."""
    space = open_store(path).space(NAME)
    for number in itertools.count(1):
        key = key_of(writer, number)
        say(space.transact(operations(writer, number), key=key).version, key)


def persist(place: str, writer: str) -> None:
    """Commit for ever, whatever happens to the server; odd numbers with a key, even without.

    Each line of output is an answer and its number: made (with the version), refused, unknown. A
    refused commit is not tried again. An unknown one with a key is, until its outcome is known.
    """
    space = open_store(place).space(NAME)
    pause = threading.Event()
    for number in itertools.count(1):
        key = key_of(writer, number) if number % 2 else None
        unknown = True
        while unknown:
            try:
                say("made", number, space.transact(operations(writer, number), key=key).version)
                unknown = False
            except Unavailable as error:
                unknown = error.details.get("outcome") == "unknown"
                say("unknown" if unknown else "refused", number)
                unknown = unknown and key is not None
                pause.wait(PAUSE_SECONDS)


def read(path: str) -> None:
    """Read newer and newer states for ever; each line of output is a version that was whole."""
    space = open_store(path).space(NAME)
    seen = 0
    while True:
        version = space.version
        assert version >= seen, f"went back from {seen} to {version}"
        state = space.at(version)
        assert state.get(LEFT) == state.get(RIGHT), f"version {version} is there in part"
        if version != seen:
            say(version)
        seen = version


def follow(path: str, until: str) -> None:
    """Read each version of a counter that grows by one with every commit."""
    space = open_store(path).space(NAME)
    say("ready")
    seen = 0
    while seen < int(until):
        for commit in space.log(since=seen):
            assert commit.version == seen + 1, f"missed a commit after {seen}"
            seen = commit.version
            assert space.at(seen).get(COUNTER) == seen - 1
    say("saw", seen)


def count(path: str, times: str) -> None:
    """Add one so many times by read, modify and write; print at the end how often it conflicted."""
    space = open_store(path).space(NAME)
    conflicts = 0
    wait_for_the_others()
    for _ in range(int(times)):
        while True:
            try:
                with space.transaction() as tx:
                    value = tx.get(COUNTER)
                    assert isinstance(value, int)
                    tx.set(COUNTER, value + 1)
                break
            except Conflict:
                conflicts += 1
    say(conflicts)


def count_up(place: str, times: str) -> None:
    """Add by update, which tries again by itself and gives up with a Conflict."""
    space = open_store(place).space(NAME)
    conflicts = 0
    wait_for_the_others()
    for _ in range(int(times)):
        while True:
            try:
                space.update(COUNTER, add_one)
                break
            except Conflict:
                conflicts += 1
    say(conflicts)


def add_one(value: Any) -> int:
    assert isinstance(value, int)
    return value + 1


def transact(tx: Recording, random: Random) -> None:
    """Run a transaction that goes wrong in one way or another if others may write in between."""
    ids = [f"urn:entity:shared:{number}" for number in range(4)]
    kind = random.randrange(5)
    if kind == 0:
        tx.scan("urn:entity:")
    elif kind == 1:
        tx.write(random.choice(ids))
    elif kind == 2:
        tx.scan("urn:entity:shared:")
        tx.write(f"urn:entity:shared:{random.randrange(40)}")
    else:
        for id in random.sample(ids, 2):
            tx.read(id)
        tx.write(random.choice(ids))


def record(url: str, client: str, times: str) -> None:
    """Run so many transactions on entities that all clients use; each line of output is a record of one."""
    with rote.open(url) as store:
        recorder = Recorder(
            store.space(NAME), client, sink=lambda r: say(encode_record(r).decode())
        )
        random = Random(client)
        wait_for_the_others()
        for _ in range(int(times)):
            recorder.run(lambda tx: transact(tx, random))


def copy(source_path: str, target_path: str) -> None:
    """Copy in small pages; each line of output is a version that the target has acknowledged."""
    replace(page_sizes, "PAGE_MAX", 2)
    with rote.open(source_path) as source, rote.open(target_path) as target:
        source.copy(NAME, target, progress=lambda phase, done, total: say(done))


def begin(path: str, writer: str) -> None:
    """Make the store and the space, perhaps as one of many processes, and write to it."""
    wait_for_the_others()
    with open_store(path) as store:
        space = store.space(NAME)
        space.set(f"urn:entity:{writer}", writer)
        say(space.did)


def fork(path: str) -> None:
    """Use a store that was opened before a fork, in the child and then in the parent."""
    wait_for_the_others()
    store = open_store(path)
    space = store.space(NAME)
    space.set(LEFT, "before")
    child = os.fork()
    if child == 0:
        _be_the_child(path, store, space)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child failed: {status}"
    assert space.get(RIGHT) == "child"
    space.set(LEFT, "after")
    assert space.get(LEFT) == "after"
    assert space.verify().ok
    store.close()
    say("worked on")


def _be_the_child(path: str, store: rote.Store, space: rote.Space) -> NoReturn:
    uses: list[Callable[[], object]] = [
        lambda: space.get(LEFT),
        lambda: space.set(LEFT, "child"),
        lambda: space.version,
        lambda: store.space(NAME),
        lambda: list(space.scan()),
        space.verify,
        space.checkpoint,
    ]
    code = 1
    try:
        for use in uses:
            try:
                use()
            except Unavailable as error:
                assert "fork" in str(error), error
            else:
                raise AssertionError("a store of the parent worked in the child")
        store.close()
        with open_store(path) as own:
            own.space(NAME).set(RIGHT, "child")
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


class Interruptions:
    """Handles Ctrl-C: raises only while a commit is in progress, and only counts otherwise."""

    def __init__(self) -> None:
        self.wanted = False
        self.count = 0
        signal.signal(signal.SIGINT, self._come)

    def _come(self, *_: object) -> None:
        self.count += 1
        if self.wanted:
            self.wanted = False
            raise KeyboardInterrupt


def interrupted(place: str, way: str) -> None:
    """Commit for ever; each line of output is a commit that was made, or an interruption that is over."""
    if way == "locking":
        replace(committer, "OPTIMISTIC_ATTEMPTS_MAX", 0)
    space = open_store(place).space(NAME)
    interruptions, told = Interruptions(), 0
    for number in itertools.count(1):
        key, sent, before = key_of("writer", number), operations("writer", number), space.version
        try:
            interruptions.wanted = True
            made = space.transact(sent, key=key)
            interruptions.wanted = False
        except KeyboardInterrupt:
            # The same store answers, and the key tells the outcome of the commit.
            made = space.transact(sent, key=key)
        assert [commit.hash for commit in space.log(since=before)] == [made.hash]
        say("made", key)
        # Not all were raised: Python swallows those that meet the end of an object.
        while told < interruptions.count:
            told += 1
            say("interrupted")


def open_as_a_guest(path: str) -> None:
    """Try to open a store that only root may write."""
    if os.geteuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)
    try:
        rote.open(path)
    except RoteError as error:
        say(type(error).__name__)


if __name__ == "__main__":
    children = (
        write, persist, read, follow, count, count_up, record, copy, begin, fork, interrupted,
        open_as_a_guest,
    )  # fmt: skip
    {child.__name__: child for child in children}[sys.argv[1]](*sys.argv[2:])
