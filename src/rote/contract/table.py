"""The table of commands: one row for each command holds all that is declared about it.

Routes, rights, documents and handlers come from it. The kernel has a row for each command that it
answers; layers above add rows of their own.
"""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Literal

from msgspec import Struct

from rote.contract.commands import Command
from rote.errors import InternalError

Right = Literal["open", "authenticated", "read", "write", "owner", "operator"]
# What a caller may name whose right is bound to a path: only `ids` in it, only a `range` in it, or
# only entities that a `walk` from it reaches. `free` commands are not bound, `none` are Denied.
PathRule = Literal["ids", "range", "walk", "free", "none"]
# Whether a command that got no answer may be sent again: `always`, only with its `key`, by its
# `fence` (of two one is refused), or `never`.
Retry = Literal["always", "key", "fence", "never"]


class Row(Struct, frozen=True):
    """One command: its name on the wire, the handler that answers it, the right that it needs."""

    command: type[Command[Any]]
    name: str
    handler: str  # "module:function", called with (open space, command); loaded at its first call
    right: Right
    path: PathRule
    retry: Retry
    member: str | None = None  # the name of a bare answer in its JSON object
    ids: Callable[[Any], Iterable[str]] | None = None  # the entities that it names
    by_caller: bool = False  # whether the handler also gets the caller

    def load(self) -> Callable[..., Any]:
        module, _, name = self.handler.partition(":")
        handler: Callable[..., Any] = getattr(import_module(module), name)
        return handler


class Table:
    """Rows by command."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = {row.command: row for row in rows}
        self.names = {row.name: row for row in rows}
        if len(self.rows) != len(rows) or len(self.names) != len(rows):
            raise InternalError("a command or a name has two rows in the table of commands")

    def row(self, command: type[Command[Any]]) -> Row:
        row = self.rows.get(command)
        if row is None:
            raise InternalError(f"the command {command.__name__} has no row in the table")
        return row
