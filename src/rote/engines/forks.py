"""Connections never cross a fork: what a parent process has open, its child neither uses nor closes.

In the child the threads that held connections are gone, and with them the last references: closing
a connection there would end it for the parent too, or wait for a lock whose owner does not exist.
So everything that is open is held while a process forks, and in the child for ever.
"""

import os
from typing import Protocol
from weakref import ReferenceType, ref


class Holder(Protocol):
    def held(self) -> list[object]:
        """Everything it has open, in whatever thread."""
        ...


# Grows with every fork: what was opened under another number belongs to a parent process.
FORKS: list[None] = []
# What is held during a fork; in a child what its ancestors had open.
_held: list[list[object]] = []
_holders: dict[int, "ReferenceType[Holder]"] = {}


def hold_at_forks(holder: Holder) -> None:
    key = id(holder)
    _holders[key] = ref(holder, lambda _: _holders.pop(key, None))


def _before() -> None:
    holders = [reference() for reference in list(_holders.values())]
    _held.append([held for holder in holders if holder is not None for held in holder.held()])


def _after_in_parent() -> None:
    _held.pop()


def _after_in_child() -> None:
    FORKS.append(None)


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
