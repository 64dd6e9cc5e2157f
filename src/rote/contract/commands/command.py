"""The base of all commands. A command declares the type of its answer."""

from typing import Generic, TypeVar

from msgspec import Struct

from rote.contract.requests import View

R_co = TypeVar("R_co", covariant=True)

HEAD = View()  # the head of main


class Command(Struct, Generic[R_co], frozen=True, gc=False):
    """A question to a space, or an order; R_co is the type of its answer."""


class StoreCommand(Command[R_co], frozen=True, gc=False):
    """A command to the store as a whole; the name of its space is empty."""


class Work(Command[R_co], frozen=True, gc=False):
    """A command that takes long: `Port.begin` answers with a task."""
