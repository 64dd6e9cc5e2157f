"""The commits of a space: one by its version, or all in pages from either end."""

from collections.abc import Iterator, Sequence

from rote.contract import Commit, Port, paged
from rote.contract.commands import Describe, GetLog
from rote.errors import InvalidInput, VersionNotFound
from rote.space.arguments import check_flags, check_limit


def commits_of(
    port: Port,
    space: str,
    *,
    since: int | None,
    before: int | None,
    limit: int | None,
    newest: bool,
) -> Iterator[Commit]:
    """Yield the commits in (since, before), oldest or newest first."""
    check_flags(newest=newest)

    def ask(reached: int | None, size: int) -> tuple[Sequence[Commit], int | None]:
        low, high = (since, reached) if newest else (reached, before)
        commits = port.answer(space, GetLog(low, size, newest, high))
        return commits, commits[-1].version if commits else None

    return paged(ask, before if newest else since, limit=check_limit(limit))


def commit_at(port: Port, space: str, version: int) -> Commit:
    """Return the commit of a version, on whichever branch it was made."""
    if type(version) is not int or version < 1:
        raise InvalidInput("a commit has a version, an integer from 1 on")
    found = port.answer(space, GetLog(version - 1, 1))
    if not found:
        raise VersionNotFound(version, newest=port.answer(space, Describe()).version)
    return found[0]
