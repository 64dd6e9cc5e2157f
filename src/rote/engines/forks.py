"""Connections never cross a fork: a child process neither uses nor closes its parent's connections.

In the child, the threads that held connections are gone, and with them the last references. Python
would then close the connections. Closing one there would end it for the parent too, or wait for a
lock whose owner does not exist. So this module holds everything that is open while a process forks,
and the child keeps holding it for ever.
"""

import os
from typing import Protocol
from weakref import ReferenceType, ref


class Holder(Protocol):
    def held(self) -> list[object]:
        """Return everything that is open, in any thread."""
        ...


# Grows with every fork. A connection that was opened under another length belongs to a parent.
FORKS: list[None] = []
# Held during a fork. In a child: everything that its ancestors had open.
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
