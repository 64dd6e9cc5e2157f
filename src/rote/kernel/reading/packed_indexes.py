"""Questions to packed indexes: segments, postings and pending changes, all from one state."""

from collections.abc import Sequence

from msgspec import Struct, structs

from rote.contract.commands import Postings
from rote.contract.index import Found, FoundSegment
from rote.engines.rows import SegmentRow
from rote.errors import Busy, InvalidInput
from rote.kernel.reading.index_upkeep import answer, declared, little_coverage
from rote.kernel.reading.segments import SegmentKeeper, are_still, in_order
from rote.kernel.state.index_coverage import Coverage
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values.limits import (
    CONTENTION_ATTEMPTS_MAX,
    RETRIEVAL_TERMS_MAX,
    SEGMENT_ANSWER_BYTES_MAX,
    SEGMENTS_KNOWN_MAX,
    SEGMENTS_READ_AT_ONCE,
)


class _Answered(Struct, frozen=True):
    found: Found | None  # None where the index cannot be used


_UNUSABLE = _Answered(None)


def postings(space: OpenSpace, command: Postings) -> Found | None:
    """Return the parts of a packed index that answer a question; None where it cannot be used."""
    name = declared(space.wiring.packed, command.index).name
    _check(command)

    def look(reads: SpaceReader, version: int) -> _Answered | None:
        for _ in range(CONTENTION_ATTEMPTS_MAX):
            coverage = _noted_coverage(reads, name, version)
            if coverage is None:
                return None
            found = _found(reads, command, coverage, version)
            if found is not None:
                return _Answered(found)
            space.cover(name, None)
        return None

    for _ in range(CONTENTION_ATTEMPTS_MAX):
        erasures = space.erasures
        answered = answer(space, name, command.view.version, look, unkept=lambda *_: _UNUSABLE)
        if space.erasures == erasures:
            return answered.found
        # Something was erased meanwhile, and the pending changes may hold it.
    raise Busy("entities are erased in this space all the time; try again")


def _noted_coverage(reads: SpaceReader, name: str, version: int) -> Coverage | None:
    """Return the coverage with notes of all changes; None when too much is pending."""
    coverage = little_coverage(reads, name, version)
    if coverage is None or coverage.pending.is_noted or not coverage.pending.count:
        return coverage
    keeper = SegmentKeeper(reads.space.wiring.packed[name])
    noted = keeper.noted(coverage.pending)
    if noted is None or not keeper.is_little(noted):
        reads.space.cover(name, None)  # or the index would seem to be up to date
        return None
    coverage = structs.replace(coverage, pending=noted)
    reads.space.cover(name, coverage)
    return coverage


def _check(command: Postings) -> None:
    for name, kind, words, most in (
        ("terms", str, "texts", RETRIEVAL_TERMS_MAX),
        ("known", int, "integers", SEGMENTS_KNOWN_MAX),
    ):
        parts = getattr(command, name)
        is_right = isinstance(parts, list | tuple) and all(type(part) is kind for part in parts)
        if not is_right or len(parts) > most:
            raise InvalidInput(f"`{name}` is a list of at most {most:,} {words}")
    try:
        "".join(command.terms).encode()
    except UnicodeEncodeError:
        raise InvalidInput("a term holds a lone surrogate, which is no text") from None


def _found(reads: SpaceReader, command: Postings, coverage: Coverage, version: int) -> Found | None:
    """Return the answer; None when others have merged, added or dropped segments meanwhile.

    A segment never changes. So the answer is of one state if the segments that the coverage speaks of
    are there before and after their parts are read, and no others. These have no rows above `indexed`.
    """
    name, noted, is_new = command.index, coverage.noted, version > coverage.noted
    line = reads.line(command.view.branch, version)
    segments = in_order(reads.rows.segments(reads.number, name))
    if is_new and any(row.until > noted for row in segments):
        return None
    bodies = _bodies(reads, command, segments)
    numbers = [row.number for row in segments]
    is_full = not bodies.keys() | set(command.known) >= set(numbers)
    terms = [] if is_full else list(dict.fromkeys(command.terms))
    found = reads.rows.postings(reads.number, name, numbers, terms) if numbers and terms else ()
    indexed = reads.rows.indexed(reads.number, name)
    if indexed != noted or not are_still(reads, name, segments, noted):
        return None
    pending = coverage.pending if is_new else ()
    return Found(
        version,
        line,
        tuple([FoundSegment(row.number, row.until, bodies.get(row.number)) for row in segments]),
        tuple(found),
        tuple([note for note in pending if note.version <= version]),
    )


def _bodies(
    reads: SpaceReader, command: Postings, segments: Sequence[SegmentRow]
) -> dict[int, bytes]:
    """Return the bodies that the caller does not have, as many as an answer holds."""
    known = set(command.known)
    wanted = [row.number for row in segments if row.number not in known]
    bodies: dict[int, bytes] = {}
    size = 0
    for start in range(0, len(wanted), SEGMENTS_READ_AT_ONCE):
        page = wanted[start : start + SEGMENTS_READ_AT_ONCE]
        found = reads.rows.segment_bodies(reads.number, command.index, page)
        bodies |= found
        size += sum(map(len, found.values()))
        if size >= SEGMENT_ANSWER_BYTES_MAX:
            break
    return bodies
