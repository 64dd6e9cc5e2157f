"""The sources of a space, for layers above that need time and randomness: those of its store."""

from rote.contract import Head, Port, SpaceInfo
from rote.contract.commands import GetTimes
from rote.space.home import Home
from rote.space.space import Space
from rote.space.store import Store


def now_of(space: Space) -> int:
    """Return the time of the store's clock in microseconds, also for a pinned view."""
    return space._port.answer("", GetTimes(shared=False)).now


def shared_now(port: Port) -> int:
    """Return the time by the clock that all who share a store go by."""
    now = port.answer("", GetTimes()).shared_now
    assert now is not None
    return now


def port_of(space: Space) -> Port:
    return space._port


def home_of(place: Space | Store) -> Home:
    return place._home


def port_of_store(store: Store) -> Port:
    return store._port


def space_on(space: Space, port: Port, *, branch: str, pinned: Head | None = None) -> Space:
    """Return a space that is asked through another port, on a branch, for a layer that wraps the port."""
    return Space(
        port, space._info, turns=space._turns, branch=branch, pinned=pinned,
        searching=space._searching,
    )  # fmt: skip


def on_branch(space: Space, branch: str) -> Space:
    """Return a space on another branch, without a look whether that exists."""
    return space._view_of(branch, None)


def space_through(store: Store, port: Port, info: SpaceInfo) -> Space:
    """Return a space of a store that is asked through another port, for example an admitted one."""
    return store._hold(info, port)
