"""Rows of the server's table: each command with its right, its arguments and its answer.

Kernel rows are made from the kernel's table; the server's own are listed by hand (server/table.py).
"""

from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from rote.access.principals import Principal
from rote.contract import Commit, Port, Tell
from rote.contract.commands import AdoptBlob, Diff, PutBlob, ReadPiece, StoreCommand, Work
from rote.contract.table import PathRule, Right, Row
from rote.contract.wire import encode_answer
from rote.server.messages import Pieces, Seen

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
    seen: Seen
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
    is_long: bool = False  # whether it may take minutes: it has threads of its own
    commits: bool = False  # whether it is there to make a commit, and is counted as one
    kernel: Row | None = None  # where the kernel answers it
    # Of the server's own rows: what their arguments name, for principals that are bound to a path.
    ids: Callable[[Any], Iterable[str]] | None = None
    range: Callable[[Any], tuple[str, str | None]] | None = None  # of ids, half open
    answers: Any = None  # the type of the answer, for documents
    # The parts of the answer as JSON, where a client may ask for them as lines.
    lines: Callable[[Asked], Iterator[bytes]] | None = None

    def takes(self, name: str) -> bool:
        """Whether it has an argument."""
        return name in self.arguments.__struct_fields__

    @property
    def is_read(self) -> bool:
        """Whether it only reads what the kernel has at hand, so that it may be answered again."""
        return self.kernel is not None and self.kernel.retry == "always" and not self.is_long

    @property
    def tells(self) -> bool:
        """Whether it tells of its progress."""
        return issubclass(self.arguments, Work)


def kernel_row(row: Row, *, bound: Bound = "body_bytes", way: Way = "command") -> ServerRow:
    """Return the server's row for a command that the kernel answers."""

    def answer(asked: Asked) -> bytes:
        return _encoded(asked, asked.port.answer(asked.space, asked.arguments))

    def work(asked: Asked) -> bytes:
        return _encoded(asked, asked.port.begin(asked.space, asked.arguments).result(asked.tell))

    def _encoded(asked: Asked, answer: Any) -> bytes:
        note_commit(asked.seen, answer)
        message = encode_answer(row, answer)
        if message.body is None:
            return message.head
        return b'{"data":"%b"}' % b2a_base64(message.body, newline=False)

    is_of_space = not issubclass(row.command, StoreCommand)
    return ServerRow(
        name=row.name,
        right=row.right,
        path=row.path,
        space=is_of_space,
        arguments=row.command,
        answer=work if issubclass(row.command, Work) else answer,
        bound=bound,
        way=way,
        is_long=issubclass(row.command, Work | Diff | PutBlob | ReadPiece | AdoptBlob),
        commits=is_of_space and row.by_caller,
        kernel=row,
    )


def note_commit(seen: Seen, answer: Any) -> None:
    """Note the version of a commit, or of the commit in an answer: whoever gets it has seen that."""
    commit = answer if isinstance(answer, Commit) else getattr(answer, "commit", None)
    if isinstance(commit, Commit) and seen.version is not None:
        seen.outcome = "replayed" if commit.version <= seen.version else "committed"
        seen.version = max(seen.version, commit.version)


def note_head(seen: Seen, version: int, *, is_repeatable: bool) -> None:
    """Note the head after a write whose answer holds no commit.

    is_repeatable  whether it has a key or an attempt, so that an old head means a repetition
    """
    if version > (seen.version or 0):
        seen.outcome = "committed"
    elif is_repeatable:
        seen.outcome = "replayed"
    seen.version = version
