"""The certain and the possible content of a disk: the model behind `FaultDisk`.

A write goes to the page cache first; only a sync makes it last. So each file is its durable content
and the list of changes since its last good sync, and a power cut leaves the durable content plus
any of those changes:

    durable content ── write ── write ── truncate ── write          <- the page cache
          └ what is certain     └ each kept or lost; the last one kept perhaps torn

Names and contents are apart, as on a Unix file system: a deleted file lives on while a handle holds
it, and creating or deleting a name is itself a change that a power cut may undo. The choices:

- A name is durable once its file or its directory was synced. POSIX asks for the directory; ext4
  and xfs keep the name of a synced file.
- Syncing the directory makes every creation and deletion up to then durable.
- A failed sync forgets: Linux marks the pages clean, so a later good sync does not bring them
  back. They may be on the disk, or not, until then; after it they are lost. Truncations are file
  system metadata and are not forgotten.
- Kept writes keep their order; any subset may be kept, though a real disk could not lose one of two
  writes to the same sector and keep the other.
"""

from dataclasses import dataclass
from random import Random
from typing import Literal

SECTOR_SIZE_BYTES = 512

Keep = Literal["none", "some", "all"]
"""The un-synced changes that a power cut leaves: none, a seeded subset with a torn end, or all."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put at an offset; a gap before them reads as zeros."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        _extend(content, self.offset)
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file length set; a longer one reads as zeros."""

    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        _extend(content, self.size)


Change = Write | Truncate


class Inode:
    """One file's content, apart from its name; all handles to the file share it."""

    def __init__(self, durable: bytes = b"") -> None:
        self._durable = bytearray(durable)
        self._pending: list[Change] = []
        # The number of pending changes that a failed sync has forgotten.
        self._forgotten = 0

    def change(self, change: Change) -> None:
        self._pending.append(change)

    def sync(self) -> None:
        for index, change in enumerate(self._pending):
            if index >= self._forgotten or isinstance(change, Truncate):
                change.apply(self._durable)
        self._pending.clear()
        self._forgotten = 0

    def fail_sync(self) -> None:
        self._forgotten = len(self._pending)

    def content(self, keep: Keep, random: Random) -> bytes:
        content = bytearray(self._durable)
        for change in _survivors(self._pending, keep, random):
            change.apply(content)
        return bytes(content)


class Platter:
    """The files of one disk: the names that a running system sees, and those that are certain."""

    def __init__(self) -> None:
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}

    def find(self, name: str) -> Inode | None:
        return self._names.get(name)

    def create(self, name: str) -> Inode:
        inode = self._names[name] = Inode()
        return inode

    def load(self, name: str, content: bytes) -> Inode:
        """Add a file that was there before, and count it as durable."""
        inode = self._names[name] = self._durable_names[name] = Inode(content)
        return inode

    def delete(self, name: str) -> None:
        del self._names[name]

    def sync(self, inode: Inode) -> None:
        inode.sync()
        for name, named in self._names.items():
            if named is inode:
                self._durable_names[name] = inode

    def sync_directory(self) -> None:
        self._durable_names = dict(self._names)

    def files(self, keep: Keep, seed: int) -> dict[str, bytes]:
        """Return the files that the disk could hold if the power were cut now."""
        random = Random(seed)
        names = self._surviving_names(keep, random)
        return {name: names[name].content(keep, random) for name in sorted(names)}

    def _surviving_names(self, keep: Keep, random: Random) -> dict[str, Inode]:
        if keep != "some":
            return self._names if keep == "all" else self._durable_names
        survivors: dict[str, Inode] = {}
        for name in sorted(self._names.keys() | self._durable_names.keys()):
            before, after = self._durable_names.get(name), self._names.get(name)
            inode = before if before is after else random.choice((before, after))
            if inode is not None:
                survivors[name] = inode
        return survivors


def _survivors(pending: list[Change], keep: Keep, random: Random) -> list[Change]:
    if keep != "some":
        return pending if keep == "all" else []
    # Drawn per file, so that "nearly all lost" and "nearly all kept" are both common.
    likelihood = random.random()
    survivors = [change for change in pending if random.random() < likelihood]
    if survivors and isinstance(survivors[-1], Write) and random.random() < 0.5:
        survivors[-1] = _torn(survivors[-1], random)
    return survivors


def _torn(write: Write, random: Random) -> Write:
    """Return the part of a write on one side of a sector boundary; all of it if it crosses none."""
    end = write.offset + len(write.data)
    first = (write.offset // SECTOR_SIZE_BYTES + 1) * SECTOR_SIZE_BYTES
    boundaries = range(first, end, SECTOR_SIZE_BYTES)
    if not boundaries:
        return write
    cut = random.choice(boundaries)
    size = cut - write.offset
    if random.random() < 0.5:
        return Write(write.offset, write.data[:size])
    return Write(cut, write.data[size:])


def _extend(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))
