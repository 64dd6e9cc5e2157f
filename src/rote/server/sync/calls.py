"""Calls: commands of the server's table, asked in a session. Rights and answers are those of HTTP."""

from typing import TYPE_CHECKING

from rote.access.refusals import unauthenticated
from rote.contract.sync import Call
from rote.errors import InvalidInput
from rote.server.messages import Pieces, Seen
from rote.server.rows import ServerRow
from rote.server.sync.session import Session
from rote.server.table import TABLE

if TYPE_CHECKING:
    from rote.server.application import Application

# What session.open tells, or what is for operators of a whole store (contract: access).
_NOT_CALLED = ("space", "head", "snapshot")


async def answer_call(app: "Application", session: Session, call: Call) -> bytes:
    """Return the answer of a command as JSON."""
    row = _row_of(call.command)
    principal = session.opener.principal
    app.accounts.begin(principal)
    try:
        return await app.pool_of(row).run(_answer, app, session, row, call)
    finally:
        app.accounts.end(principal)


def _row_of(name: str) -> ServerRow:
    row = TABLE.get(name)
    if row is None or not is_called(row):
        raise InvalidInput(f"command: {name!r:.80} is not called in a session", argument="command")
    return row


def is_called(row: ServerRow) -> bool:
    """Whether a session may ask for a command."""
    return (
        row.way == "command"
        and row.right != "operator"
        and (row.space or row.name == "retrieve")
        and row.name not in _NOT_CALLED
    )


def _answer(app: "Application", session: Session, row: ServerRow, call: Call) -> bytes:
    """Runs on the pool."""
    if not app.authentication.is_good(session.opener):
        raise unauthenticated("token")
    space = session.asked if row.space else ""
    answer = app.service.answer(session.opener.principal, space, row.name, call.args, seen=Seen())
    return _whole(answer)


def _whole(answer: bytes | Pieces) -> bytes:
    if isinstance(answer, bytes):
        return answer
    raise InvalidInput("the answer comes in pieces; ask for it over HTTP", argument="command")
