"""The table of commands: everything that is said of a command, in one row.

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
# What a caller whose right is bound to a path may name: only `ids` in it, only a `range` in it, only
# what a `walk` from it shows; `free` is not bound, `none` is Denied.
PathRule = Literal["ids", "range", "walk", "free", "none"]
# Whether a command that got no answer may be sent again: `always`, only with its `key`, by its
# `fence` (of two one is refused), or `never`.
Retry = Literal["always", "key", "fence", "never"]


class Row(Struct, frozen=True):
    """One command: its name on the wire, who answers it, who may ask."""

    command: type[Command[Any]]
    name: str
    handler: str  # "module:function" of (open space, command); loaded when it is first asked
    right: Right
    path: PathRule
    retry: Retry
    member: str | None = None  # under which a bare answer stands in its JSON object
    ids: Callable[[Any], Iterable[str]] | None = None  # the entities that it names
    by_caller: bool = False  # whether the handler is told who asks

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
