"""The processes of the tests of fs: `python -m tests.faults.sandbox_children <what> <root> …`.

They import little, because many of them are started.
"""

import itertools
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

from rote.tiers.fs import open_fs

# Names that the attacker swaps, and those that an adapter is asked for.
FOLDERS = ("a", "a/b", "c")
FILES = ("a/f.txt", "a/b/f.txt", "c/f.txt", "f.txt")
SWAPS_TOLD = 500


def attack(root: str, outside: str, seed: str) -> None:
    """Swap names for links, pipes and folders, for ever; a line of output is so many swaps."""
    attacker = Attacker(Path(root), Path(outside), Random(seed))
    for number in itertools.count(1):
        attacker.swap()
        if number % SWAPS_TOLD == 0:
            say(number)


class Attacker:
    """Puts one thing after another under the names of a sandbox."""

    def __init__(self, root: Path, outside: Path, random: Random) -> None:
        self._root = root
        self._outside = outside
        self._random = random
        self._store = root / ".attacker"  # on the same file system, for renames
        self._store.mkdir()
        # This name of a file outside is moved and never removed, so the file always has two.
        (self._store / "hard").hardlink_to(outside / "f.txt")
        self._numbers = itertools.count()

    def swap(self) -> None:
        """Put something under one name, and mostly put back what was there."""
        is_folder = self._random.random() < 0.5
        name = self._root / self._random.choice(FOLDERS if is_folder else FILES)
        aside = self._store / f"aside-{next(self._numbers)}"
        if self._is_reached_without_links(name):
            with suppress(OSError):
                name.rename(aside)
            with suppress(OSError):
                self._put(name, is_folder)
            if self._random.random() < 0.9:
                self._clear(name)
                with suppress(OSError):
                    aside.rename(name)
            self._clear(aside)
        self._restore()

    def _is_reached_without_links(self, name: Path) -> bool:
        """Whether a name is inside: the attacker must not do by mistake what it tempts others to."""
        folders = itertools.takewhile(lambda folder: folder != self._root, name.parents)
        return not any(folder.is_symlink() for folder in folders)

    def _put(self, name: Path, is_folder: bool) -> None:
        kind = self._random.randrange(4)
        if kind == 0:
            os.mkfifo(name)
        elif kind == 1:
            name.symlink_to(self._root / self._random.choice(FOLDERS))
        elif name == self._root / "f.txt" and kind == 2:
            (self._store / "hard").rename(name)
        else:
            name.symlink_to(self._outside / name.relative_to(self._root))

    def _clear(self, name: Path) -> None:
        """Remove whatever has a name; links are not followed, and the hard link is kept."""
        with suppress(OSError):
            if name.is_dir() and not name.is_symlink():
                shutil.rmtree(name, ignore_errors=True)
            elif name.lstat().st_nlink == 1:
                name.unlink()
            else:
                name.rename(self._store / "hard")

    def _restore(self) -> None:
        for name in (*FOLDERS, *FILES):
            path = self._root / name
            with suppress(OSError):
                if not os.path.lexists(path) and self._is_reached_without_links(path):
                    path.mkdir() if name in FOLDERS else path.touch(exist_ok=False)


def content_of(number: int) -> str:
    """Return a content that shows whether it is whole, of a size that takes several writes."""
    return f"{number}:" + str(number % 10) * (number * 7919 % 300_000) + ":end"


def write(root: str, first: str) -> None:
    """Replace one file for ever; each line of output is the number of a write that was answered."""
    box = open_fs({"sandbox_root": root})
    for number in itertools.count(int(first)):
        arguments = {"path": "deep/f.txt", "content": content_of(number), "encoding": "utf-8"}
        box.call("write", arguments, {})
        say(number)


def append(root: str, writer: str, times: str) -> None:
    """Append lines to a file that others append to as well."""
    box = open_fs({"sandbox_root": root})
    for number in range(int(times)):
        line = f"{writer} {number} {writer * (number % 50)}\n"
        box.call("append", {"path": "log.txt", "content": line, "encoding": "utf-8"}, {})
        say(number)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    {child.__name__: child for child in (attack, write, append)}[sys.argv[1]](*sys.argv[2:])
