"""What the processes of these tests do: `python -m tests.faults.children <what> <path> …`.

Each prints a line for whatever it was told by the store, and ends with an error when it sees
something that must not be.
"""

import itertools
import os
import sys
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, NoReturn

import pytest

import rote
from rote.errors import Conflict, RoteError, Unavailable
from rote.testing.serial import Recorder, Recording, encode_record

NAME = "agent"
LEFT, RIGHT, COUNTER = "urn:entity:left", "urn:entity:right", "urn:entity:counter"


def say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def wait_for_the_others() -> None:
    """Begin when everyone is ready, so that they meet."""
    say("ready")
    sys.stdin.readline()


def operations(writer: str, number: int) -> list[dict[str, Any]]:
    """Two entities that must agree, and a journal that grows by patches."""
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
    """Commit for ever; a line is the version and the key of an acknowledged commit."""
    space = rote.open(path).space(NAME)
    for number in itertools.count(1):
        key = key_of(writer, number)
        say(space.transact(operations(writer, number), key=key).version, key)


def read(path: str) -> None:
    """Look at newer and newer states for ever; a line is a version that was whole."""
    space = rote.open(path).space(NAME)
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
    """See each version of a counter that grows by one with every commit."""
    space = rote.open(path).space(NAME)
    say("ready")
    seen = 0
    while seen < int(until):
        for commit in space.log(since=seen):
            assert commit.version == seen + 1, f"missed a commit after {seen}"
            seen = commit.version
            assert space.at(seen).get(COUNTER) == seen - 1
    say("saw", seen)


def count(path: str, times: str) -> None:
    """Add one so many times by read, modify and write; the last line: how often it conflicted."""
    space = rote.open(path).space(NAME)
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


def transact(tx: Recording, random: Random) -> None:
    """Something that goes wrong in one way or another when others are let in between."""
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
    """Run so many transactions on what everybody uses; a line is a record of one."""
    with rote.open(url) as store:
        recorder = Recorder(
            store.space(NAME), client, sink=lambda r: say(encode_record(r).decode())
        )
        random = Random(client)
        wait_for_the_others()
        for _ in range(int(times)):
            recorder.run(lambda tx: transact(tx, random))


def copy(source_path: str, target_path: str) -> None:
    """Copy in small pages; a line is a version that the target was told is stored."""
    pytest.MonkeyPatch().setattr("rote.kernel.pace.PAGE_MAX", 2)
    with rote.open(source_path) as source, rote.open(target_path) as target:
        source.copy(NAME, target, progress=lambda phase, done, total: say(done))


def begin(path: str, writer: str) -> None:
    """Make the store and the space, perhaps as one of many, and write to it."""
    wait_for_the_others()
    with rote.open(path) as store:
        space = store.space(NAME)
        space.set(f"urn:entity:{writer}", writer)
        say(space.did)


def fork(path: str) -> None:
    """A store that was opened before a fork, used in the child and then in the parent."""
    wait_for_the_others()
    store = rote.open(path)
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
        with rote.open(path) as own:
            own.space(NAME).set(RIGHT, "child")
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


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
    children = (write, read, follow, count, record, copy, begin, fork, open_as_a_guest)
    {child.__name__: child for child in children}[sys.argv[1]](*sys.argv[2:])
