"""Marks: what a client says that it has seen, against the log."""

from rote.contract import Port
from rote.contract.commands import GetHead
from rote.contract.sync import Mark
from rote.errors import Compacted, Diverged, VersionNotFound


def known_since(port: Port, space: str, mark: Mark | None) -> int | None:
    """Return the version that a client goes on from; None when it starts over, because it has seen
    nothing or the version was compacted.

    Diverged when the log has no such commit: it is another log than the client has seen.
    """
    if mark is None:
        return None
    try:
        head = port.answer(space, GetHead(mark.version))
    except Compacted:
        return None  # nobody can tell any more
    except VersionNotFound:
        head = None
    if head is None or head.hash != mark.hash:
        raise Diverged(
            f"the store has no such commit of version {mark.version}: it was restored from a backup or"
            " rewritten; begin another session",
            version=mark.version,
        )
    return mark.version
