"""Differences of two states: asked for in pages, so that none is held whole."""

from collections.abc import Iterator

from msgspec import structs

from rote.contract.commands import ListChanges
from rote.contract.wire import encode_value
from rote.errors import LimitExceeded
from rote.server.rows import Asked
from rote.values.server_limits import DIFF_BYTES_MAX


def changes(asked: Asked) -> Iterator[bytes]:
    """Yield the changes, each as JSON; all are of the two states that the first page was made from."""
    page = ListChanges(asked.arguments.before, asked.arguments.after)
    while True:
        found = asked.port.answer(asked.space, page)
        for change in found.changes:
            yield encode_value(change)
        if found.next is None:
            return
        page = ListChanges(
            structs.replace(page.before, version=found.before),
            structs.replace(page.after, version=found.after),
            beyond=found.next,
        )


def whole(asked: Asked) -> bytes:
    """Return all changes as one answer; LimitExceeded when they are too large for one."""
    parts: list[bytes] = []
    size = 0
    for change in changes(asked):
        parts.append(change)
        size += len(change)
        if size > DIFF_BYTES_MAX:
            raise LimitExceeded(
                "the answer in bytes",
                size=size,
                limit=DIFF_BYTES_MAX,
                advice="ask for application/x-ndjson, which has no limit",
            )
    return b'{"changes":[%b]}' % b",".join(parts)
