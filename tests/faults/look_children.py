"""Processes that write to a store and look at it, some of them without the rights to do so."""

import os
import signal
import sys
import threading
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rote
from rote.cli.app import app
from rote.engines.sqlite.looking import making_way
from rote.errors import Denied, RoteError
from rote.opening.opening import open_as_allowed
from tests.faults.children import say

ID, OTHER = "urn:entity:a", "urn:entity:b"
COMMITS = 20


def answers(store: rote.Store) -> list[Any]:
    """Return what a look shows; a write is refused."""
    space = store.space("agent")
    assert space.verify().ok
    try:
        space.set(ID, 0)
        raise AssertionError("a look has written")
    except Denied:
        return [space.version, space.get(ID), space.at(2).get(ID), len(list(space.log()))]


def write_and_die(path: str) -> None:
    space = rote.open(path, durability="os").space("agent")
    for number in range(COMMITS):
        space.set(ID, {"number": number})
    os.kill(os.getpid(), signal.SIGKILL)


def write_one(path: str, value: str) -> None:
    with rote.open(path, durability="os") as store:
        store.space("agent").set(OTHER, int(value) if value.isdigit() else value)


def become_a_guest() -> None:
    """Give up the rights of root, whom permissions do not stop."""
    if os.geteuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)


def look_as_a_guest(path: str) -> None:
    become_a_guest()
    with rote.open(path, read_only=True) as store:
        say(str(answers(store)))
    try:
        rote.open(path)
    except RoteError as error:
        say(type(error).__name__)


def command_as_a_guest(path: str) -> None:
    """Run some commands, first elsewhere: a guest may not be able to load modules."""
    with TemporaryDirectory() as folder:
        elsewhere = Path(folder) / "memory.db"
        write_one(str(elsewhere), "1")
        _commands(str(elsewhere))
    become_a_guest()
    say("\n".join(_commands(path)))


def told_as_a_guest(path: str) -> None:
    """Say how the command line would open a store; once elsewhere, as above."""
    with TemporaryDirectory() as folder:
        elsewhere = str(Path(folder) / "memory.db")
        write_one(elsewhere, "1")
        open_as_allowed(elsewhere, create=False, recover=False, author=None).close()
    become_a_guest()
    try:
        with open_as_allowed(path, create=False, recover=False, author=None) as store:
            say("it may only be read" if store.read_only else "it may be written")
    except RoteError as error:
        say(f"{type(error).__name__} {error}")


def look_in_a_fork(path: str) -> None:
    """Fork while another thread opens the store, and look in the child."""
    is_open, is_over = threading.Event(), threading.Event()

    def open_slowly() -> None:
        with making_way(path):
            is_open.set()
            is_over.wait()

    thread = threading.Thread(target=open_slowly)
    thread.start()
    is_open.wait()
    fork = os.fork()
    if fork == 0:
        signal.alarm(10)
        with rote.open(path, read_only=True) as store:
            say(answers(store))
        os._exit(0)
    status = os.waitpid(fork, 0)[1]
    is_over.set()
    thread.join()
    assert status == 0, "the child did not look"


def _commands(path: str) -> list[str]:
    """Return the exit codes of commands, and what the first one says."""
    of_space, told = ["--space", "agent"], []
    for arguments in (
        ["get", ID, "--json", *of_space], ["verify", *of_space], ["log", *of_space],
        ["set", OTHER, "1", *of_space], ["recover"],
    ):  # fmt: skip
        written = BytesIO()
        output = TextIOWrapper(written)
        with redirect_stdout(output):
            try:
                app([*arguments, "--store", path])
            except SystemExit as end:
                told.append(f"{arguments[0]} {end.code}")
        if arguments[0] == "get":
            told.append(written.getvalue().decode().strip())
    return told


if __name__ == "__main__":
    children = (
        write_and_die, write_one, look_as_a_guest, command_as_a_guest, told_as_a_guest,
        look_in_a_fork,
    )  # fmt: skip
    {each.__name__: each for each in children}[sys.argv[1]](*sys.argv[2:])
