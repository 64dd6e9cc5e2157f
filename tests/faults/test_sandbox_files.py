"""fs beside an attacker who swaps names as fast as it can, beside killed writers and other writers.

The same attack finds an adapter that resolves paths by their text and then opens them. So the test
would notice.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Protocol

import pytest

from rote.errors import InvalidInput, RoteError
from rote.testing.faults import ChildProcess
from rote.tiers.fs import Files, open_fs
from tests.faults.sandbox_children import FILES, FOLDERS, SWAPS_TOLD, content_of
from tests.lanes import SLOW, examples

ROOT = Path(__file__).parents[2]
OUTSIDE = "OUTSIDE"  # what only a file outside holds
SECONDS = examples(2, 60)
SECONDS_NAIVE_MAX = 60
KILLS = examples(6, 300)
PATHS = examples(2_000, 100_000)
APPENDS = examples(15, 250)


def child(*arguments: str) -> ChildProcess:
    argv = [sys.executable, "-m", "tests.faults.sandbox_children", *arguments]
    return ChildProcess(argv, cwd=ROOT, timeout_seconds=900)


class Verbs(Protocol):
    def call(
        self, verb: str, arguments: Mapping[str, Any], granted: Mapping[str, Any], /
    ) -> Any: ...


class NaiveFiles:
    """An adapter that looks where a path leads, and opens it when that is inside."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def call(self, verb: str, arguments: Mapping[str, Any], granted: Mapping[str, Any], /) -> Any:
        path = self._root / arguments["path"]
        if not Path(os.path.realpath(path)).is_relative_to(self._root) or path.is_fifo():
            raise InvalidInput("outside")
        if verb == "read":
            # Not blocked by a pipe, so that it goes on to be caught with something else.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as file:
                return {"content": file.read()}
        if verb == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK), "w") as file:
                file.write(arguments["content"])
        if verb == "list":
            return {"entries": [{"name": each.name} for each in path.iterdir()]}
        return None


class Attacked:
    """A sandbox, and beside it a folder with the same names whose contents are secret."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outside = folder / "root", folder / "outside"
        for place in (self.root, self.outside):
            for name in FOLDERS:
                (place / name).mkdir(parents=True)
            for name in FILES:
                (place / name).write_text("")
        for name in (*FILES, "only-outside.txt"):
            (self.outside / name).write_text(OUTSIDE)
        self.before = self.state_outside()

    def state_outside(self) -> dict[str, Any]:
        """Return everything outside: names, kinds and contents."""
        return {
            str(path.relative_to(self.outside)): path.read_text() if path.is_file() else None
            for path in sorted(self.outside.rglob("*"))
        }

    def use(self, box: Verbs, random: Random) -> tuple[str, bool]:
        """Make one call; return its verb and whether it was answered. AssertionError: an escape."""
        verb = random.choice(("read", "read", "write", "append", "list", "exists", "delete"))
        path = random.choice(FOLDERS if verb == "list" else FILES)
        arguments = {"path": path, "encoding": "utf-8", "content": "inside"}
        try:
            answer = box.call(verb, arguments, {})
        except (RoteError, OSError):
            return verb, False
        if verb == "read":
            assert OUTSIDE not in answer["content"], f"read {path} outside"
        if verb == "list":
            names = {each["name"] for each in answer["entries"]}
            assert "only-outside.txt" not in names, f"listed {path} outside"
        return verb, True


@contextlib.contextmanager
def attacked(folder: Path) -> Iterator[tuple[Attacked, ChildProcess]]:
    scene = Attacked(folder)
    seed = str(os.getpid()) if SLOW else "0"
    with child("attack", str(scene.root), str(scene.outside), seed) as attacker:
        attacker.read_until(1)
        yield scene, attacker


def test_nothing_outside_is_touched_while_names_are_swapped(tmp_path: Path) -> None:
    random, answered = Random(1), {"read": 0, "write": 0, "append": 0, "list": 0}
    with attacked(tmp_path) as (scene, attacker):
        box = open_fs({"sandbox_root": str(scene.root), "allow_delete": True})
        end = monotonic() + SECONDS
        while monotonic() < end:
            for _ in range(50):
                verb, ok = scene.use(box, random)
                answered[verb] = answered.get(verb, 0) + ok
            attacker.read_for(0)
        swaps = len(attacker.kill()) * SWAPS_TOLD
        box.close()
    assert scene.state_outside() == scene.before
    # The two met: much was swapped, and of every verb some calls were answered all the same.
    assert swaps >= 1_000 * SECONDS, swaps
    assert min(answered.values()) >= 5 * SECONDS, answered


def test_the_attack_finds_an_adapter_that_resolves_paths_by_their_text(tmp_path: Path) -> None:
    random = Random(2)
    with attacked(tmp_path) as (scene, _):
        box = NaiveFiles(scene.root)
        end = monotonic() + SECONDS_NAIVE_MAX
        escaped = False
        while not escaped and monotonic() < end:
            try:
                for _ in range(50):
                    scene.use(box, random)
                escaped = scene.state_outside() != scene.before
            except AssertionError:
                escaped = True
    assert escaped


def _drawn_path(random: Random) -> str:
    names = (
        "f.txt", "a", "b", "c", "only-outside.txt", "link", "linkfile", "hard", "loop", "..", ".", "",
        "outside", "root", "new", "...", ". .", "~", "a\\b", "e\u0301", "é", "\0", "\n", "%2e%2e",
        "．．", "‥", "/", "x" * 255, "x" * 256, "proc", "self", "cwd", "\udc2e", "C:", ".rote.draft",
    )  # fmt: skip
    drawn = "/".join(random.choice(names) for _ in range(random.randint(1, 5)))
    return random.choice(("", "", "/", "//", "./", "../")) + drawn


def test_no_path_leads_outside(tmp_path: Path) -> None:
    scene = Attacked(tmp_path)
    (scene.root / "link").symlink_to(scene.outside)
    (scene.root / "a" / "link").symlink_to("../../outside")
    (scene.root / "linkfile").symlink_to(scene.outside / "f.txt")
    (scene.root / "hard").hardlink_to(scene.outside / "f.txt")
    (scene.root / "loop").symlink_to(".")
    box = open_fs({"sandbox_root": str(scene.root), "allow_delete": True})
    random = Random(os.getpid() if SLOW else 3)
    plain = 0
    for _ in range(PATHS):
        path = _drawn_path(random)
        verb = random.choice(("read", "write", "append", "list", "exists", "delete"))
        with contextlib.suppress(RoteError):
            answer = box.call(
                verb, {"path": path, "encoding": "utf-8", "content": OUTSIDE[::-1]}, {}
            )
            _check_inside(scene, path, verb, answer)
            plain += verb == "read"
    box.close()
    assert scene.state_outside() == scene.before
    assert plain > PATHS / 1_500  # some paths were plain ones


def _check_inside(scene: Attacked, path: str, verb: str, answer: Any) -> None:
    """Compare with where the system itself would have led; nothing moves in this test."""
    there = os.path.normpath(f"{scene.root}/{path.removeprefix('/')}")
    assert os.path.realpath(there) == there
    assert Path(there).is_relative_to(scene.root)
    if verb == "read":
        assert answer["content"] == Path(there).read_text() != OUTSIDE
    if verb == "list":
        names = {each["name"] for each in answer["entries"]}
        assert names <= {each.name for each in Path(there).iterdir()}


def test_a_killed_writer_leaves_the_old_file_or_the_new_one_and_nothing_in_the_way(
    tmp_path: Path,
) -> None:
    random = Random(os.getpid() if SLOW else 4)
    box = open_fs({"sandbox_root": str(tmp_path)})
    drafts = first = 0
    for _ in range(KILLS):
        with child("write", str(tmp_path), str(first)) as writer:
            writer.read_until(1)
            writer.read_for(random.random() * 0.02)
            answered = int(writer.kill()[-1])
        drafts += (tmp_path / "deep" / ".rote.draft").exists()
        text = _read(box, "deep/f.txt")
        number = int(text.partition(":")[0])
        assert text == content_of(number)
        assert number in (answered, answered + 1)
        listed = box.call("list", {"path": "deep"}, {})["entries"]
        assert [each["name"] for each in listed] == ["f.txt"]
        first = number + 1
    box.call("write", {"path": "deep/g.txt", "content": "g", "encoding": "utf-8"}, {})
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["f.txt", "g.txt"]
    box.close()
    assert drafts or not SLOW  # some kills came while a file was written


def _read(box: Files, path: str) -> str:
    return str(box.call("read", {"path": path, "encoding": "utf-8"}, {})["content"])


def test_appends_of_several_processes_lose_nothing(tmp_path: Path) -> None:
    writers = "abcd"
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(child("append", str(tmp_path), each, str(APPENDS)))
            for each in writers
        ]
        for process in started:
            process.read_until(APPENDS)
    lines = (tmp_path / "log.txt").read_text().splitlines()
    wanted = [
        f"{each} {number} {each * (number % 50)}" for each in writers for number in range(APPENDS)
    ]
    assert sorted(lines) == sorted(wanted)
    for each in writers:
        own = [int(line.split()[1]) for line in lines if line.startswith(each)]
        assert own == list(range(APPENDS))


@pytest.mark.slow
def test_a_reader_beside_a_writer_sees_whole_files(tmp_path: Path) -> None:
    box = open_fs({"sandbox_root": str(tmp_path)})
    with child("write", str(tmp_path), "0") as writer:
        writer.read_until(1)
        for _ in range(20_000):
            text = _read(box, "deep/f.txt")
            assert text == content_of(int(text.partition(":")[0]))
        writer.kill()
    box.close()
