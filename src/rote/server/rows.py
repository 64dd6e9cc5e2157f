"""Rows of the server's table: each command with its right, its arguments and its answer.

Kernel rows are made from the kernel's table; the server's own are listed by hand (server/table.py).
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from rote.access.principals import Principal
from rote.contract import Port, Tell
from rote.contract.commands import StoreCommand, Work
from rote.contract.table import PathRule, Right, Row
from rote.contract.wire import encode_answer
from rote.server.messages import Pieces

# The limit that bounds a command's body (settings.Limits).
Bound = Literal["body_bytes", "commit_bytes", "blob_bytes"]
# `command`: POST with a JSON body. `routes`: only by routes of its own. `inside`: not over the wire.
Way = Literal["command", "routes", "inside"]


class Asked(Struct, frozen=True):
    """A command that was let in: what its answer is made of."""

    principal: Principal
    port: Port  # lets the principal do what it may, and nothing else
    space: str  # the did; empty for a command to the store
    arguments: Any  # the command, or the struct of the row
    service: Any  # the Service of server/answering.py
    tell: Tell | None = None  # of long work


class ServerRow(Struct, frozen=True):
    """One command: all that is declared about it."""

    name: str
    right: Right
    path: PathRule
    space: bool  # whether it is asked of a space
    arguments: type[Struct]  # its members are the members of the body
    answer: Callable[[Asked], bytes | Pieces]  # the JSON of the answer; runs on the pool
    bound: Bound = "body_bytes"
    way: Way = "command"
    kernel: Row | None = None  # where the kernel answers it

    @property
    def is_long(self) -> bool:
        """Whether it may tell of its progress."""
        return issubclass(self.arguments, Work)

    @property
    def writes_once(self) -> bool:
        """Whether it takes a key, so that a repetition gets the first result."""
        return "key" in self.arguments.__struct_fields__ and self.right not in ("read", "open")


def kernel_row(row: Row, *, bound: Bound = "body_bytes", way: Way = "command") -> ServerRow:
    """Return the server's row for a command that the kernel answers."""

    def answer(asked: Asked) -> bytes:
        return encode_answer(row, asked.port.answer(asked.space, asked.arguments)).head

    def work(asked: Asked) -> bytes:
        task = asked.port.begin(asked.space, asked.arguments)
        return encode_answer(row, task.result(asked.tell)).head

    return ServerRow(
        name=row.name,
        right=row.right,
        path=row.path,
        space=not issubclass(row.command, StoreCommand),
        arguments=row.command,
        answer=work if issubclass(row.command, Work) else answer,
        bound=bound,
        way=way,
        kernel=row,
    )
