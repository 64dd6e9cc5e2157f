"""Old attempts: after some days nobody repeats them, and their rows go."""

from rote.engines import Abandoning
from rote.engines.rows import SideRecord
from rote.errors import Compacted
from rote.kernel.log.key_rows import meaning_of, settled_at
from rote.kernel.log.seals import ATTEMPT
from rote.kernel.reading.history import head_at
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import format_time
from rote.values.limits import PAGE_MAX


def drop_attempts(space: OpenSpace, *, before: int) -> None:
    """Drop the rows of attempts that were made or settled before a time, a page in a transaction."""
    reads, shown, after = space.reader(), format_time(before), (ATTEMPT, "")
    newest = _newest_before(reads, before)
    while page := reads.rows.sides(reads.number, ATTEMPT, after=after, limit=PAGE_MAX):
        old = [row.key for row in page if _is_old(row, newest, shown)]
        if old:
            with Abandoning(space.engine), space.engine.writer(space.number) as rows:
                for key in old:
                    rows.drop_side(space.number, ATTEMPT, key)
        after = (ATTEMPT, page[-1].key)


def _newest_before(reads: SpaceReader, before: int) -> int:
    try:
        return head_at(reads, version=None, at=before).version
    except Compacted:
        return 0  # all commits that are left came later


def _is_old(row: SideRecord, newest: int, before: str) -> bool:
    version, _ = meaning_of(row)
    at = settled_at(row)
    return version <= newest if at is None else at <= before
