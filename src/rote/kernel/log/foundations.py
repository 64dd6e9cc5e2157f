"""The foundation of a compacted space: the facts below its horizon that are still needed.

The horizon is a version, `before`. Everything from it on is kept. Below it a fact is kept if it is
the newest of its entity

    at the horizon, on the line of any branch (deleted ones too);
    or at a base of a merge that may still come.

All later commits descend from the last nodes of the branches at the horizon. So a later merge can
have a base below the horizon only where two of these nodes have a common ancestor. When a merge has
several bases, they are merged first, and need the common ancestors of two bases, and so on. `points`
returns all of these nodes. A later fork needs no more, because it is made at or above the horizon.

The compaction signs the digest of what is kept. Frozen: docs/formats/checkpoint.md.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any

from msgspec import Struct

from rote.contract.operations import DELETE, PATCH, SET
from rote.engines import Reader
from rote.engines.rows import CommitRow, FactPlace, FactRow, Line, SideRecord
from rote.errors import Corrupt
from rote.kernel.log.branches import NEWEST, Branches
from rote.kernel.log.chain import OPERATION_NAMES
from rote.kernel.log.commit_graph import CommitGraph, Descent, Point, Writes, last_node, merge_bases
from rote.kernel.log.erased_facts import remains_in
from rote.kernel.log.page_sizes import next_page, size_of
from rote.kernel.log.seals import COMPACTION, side_record
from rote.values import Json, canonical, decode_canonical, digest, format_time
from rote.values.limits import PAGE_MAX

# The key of the one side row of kind COMPACTION, which holds the horizon. Its stored value is frozen.
HORIZON = "line"


class Foundation(Struct, frozen=True):
    """The last compaction of a space."""

    before: int  # the horizon: the oldest version that can be read
    version: int  # of the commit that records it
    checkpoint: dict[str, Any]  # of the commit at the horizon, signed
    fence: int  # of the side row that holds the other three

    def body(self) -> dict[str, Json]:
        return {"before": self.before, "version": self.version, "checkpoint": self.checkpoint}


def foundation_of(reads: Reader, space: int) -> Foundation | None:
    row = reads.side(space, COMPACTION, HORIZON)
    if row is None:
        return None
    body = decode_canonical(row.body)
    if type(body) is dict and body.keys() == {"before", "version", "checkpoint"}:
        return Foundation(**body, fence=row.fence)
    raise Corrupt("the row of the last compaction was changed; run `rote verify`")


def horizon_record(did: str, foundation: Foundation) -> SideRecord:
    """Return the side row that holds a foundation."""
    return side_record(did, COMPACTION, HORIZON, foundation.fence, canonical(foundation.body()))


# -- points ----------------------------------------------------------------------------------------


class _Remembered:
    """Tell when branches were last written to; the store is asked once for each."""

    def __init__(self, reads: Writes) -> None:
        self._reads = reads
        self._known: dict[Point, int] = {}

    def last_written(self, space: int, line: Line, /) -> dict[int, int]:
        unknown = tuple([part for part in line if part not in self._known])
        if unknown:
            found = self._reads.last_written(space, unknown)
            self._known.update({part: found.get(part[0], 0) for part in unknown})
        return {part[0]: self._known[part] for part in line if self._known[part]}


def points(
    graph: CommitGraph, reads: Writes, space: int, branches: Branches, *, before: int
) -> set[Point]:
    """Return the last nodes of all branches at the horizon, and every base that later merges of
    their descendants can have below it."""
    writes = _Remembered(reads)
    nodes = {
        last_node(graph, writes, space, branches, (row.branch, before)) for row in branches.rows()
    }
    found = {node for node in nodes if node is not None}
    waiting = sorted(found)
    reaches = {node: _reach(graph, branches, node) for node in waiting}
    while waiting:
        node = waiting.pop()
        for other in sorted(found):
            if _comes_from(reaches[node], other) or _comes_from(reaches[other], node):
                continue  # the base is one of the two
            for base in merge_bases(graph, writes, space, branches, left=[node], right=[other]):
                if base not in found:
                    found.add(base)
                    waiting.append(base)
                    reaches[base] = _reach(graph, branches, base)
    return found


def _reach(graph: CommitGraph, branches: Branches, node: Point) -> dict[int, int]:
    walk = Descent(graph, branches, 1)
    walk.start(0, node)
    walk.down_to(0)
    return walk.reach[0]


def _comes_from(reach: dict[int, int], node: Point) -> bool:
    return reach.get(node[0], 0) >= node[1]


def lines_to_keep(
    graph: CommitGraph, reads: Writes, space: int, branches: Branches, *, before: int
) -> list[Line]:
    """Return the lines on which the newest fact of each entity is kept."""
    found = {branches.line(row.name, before) for row in branches.rows()}
    for point in points(graph, reads, space, branches, before=before):
        if point[1] < before:
            found.add(branches.line_of(*point))
    return sorted(found)


# -- facts to keep ---------------------------------------------------------------------------------


def judged(
    reads: Reader, space: int, lines: Sequence[Line], *, before: int
) -> Iterator[tuple[FactPlace, bool]]:
    """Yield every place below the horizon, and whether its fact is kept.

    It holds one page of places, and those of one entity that may be kept.
    """
    caps: dict[int, list[int]] = {}
    for branch, cap in sorted({part for line in lines for part in line}):
        caps.setdefault(branch, []).append(cap)
    for _, found in groupby(_places(reads, space, branch=None, until=before), key=itemgetter(0)):
        for place, stays in _judged(found, lines, caps):
            if place[1] < before:
                yield place, stays


def _judged(
    found: Iterable[FactPlace], lines: Sequence[Line], caps: dict[int, list[int]]
) -> Iterator[tuple[FactPlace, bool]]:
    """Yield the places of one entity, and whether each is kept; `found` comes oldest first."""
    last: dict[int, FactPlace] = {}
    candidates: dict[int, list[FactPlace]] = {}  # by branch: the newest places at some cap
    for place in found:
        branch = place[3]
        earlier, last[branch] = last.get(branch), place
        if earlier is None:
            continue
        if _is_newest_somewhere(caps.get(branch, []), earlier[1], place[1]):
            candidates.setdefault(branch, []).append(earlier)
        else:
            yield earlier, False
    for branch, place in last.items():
        if _is_newest_somewhere(caps.get(branch, []), place[1], NEWEST):
            candidates.setdefault(branch, []).append(place)
        else:
            yield place, False
    kept = _on_lines(candidates, lines) if len(candidates) > 1 else None
    for places in candidates.values():
        for place in places:
            yield place, kept is None or place in kept


def _is_newest_somewhere(caps: list[int], version: int, superseded: int) -> bool:
    return bisect_left(caps, version) < bisect_left(caps, superseded)


def _on_lines(candidates: dict[int, list[FactPlace]], lines: Sequence[Line]) -> set[FactPlace]:
    """Return the candidates that are the newest on some line.

    A branch's own facts are newer than those that it inherits, so the first branch of a line that
    has one decides.
    """
    versions = {branch: [place[1] for place in places] for branch, places in candidates.items()}
    kept = set()
    for line in lines:
        for branch, cap in line:
            place = bisect_right(versions.get(branch, ()), cap)
            if place:
                kept.add(candidates[branch][place - 1])
                break
    return kept


def _places(
    reads: Reader, space: int, *, branch: int | None, until: int, after: FactPlace | None = None
) -> Iterator[FactPlace]:
    while True:
        page = reads.places(space, branch=branch, until=until, after=after, limit=PAGE_MAX)
        yield from page
        if len(page) < PAGE_MAX:
            return
        after = page[-1]


# -- facts and commits that are left ---------------------------------------------------------------


def facts_at(
    reads: Reader, space: int, places: Iterable[FactPlace], *, until: int
) -> Iterator[FactRow]:
    """Yield the facts at some places up to a version, each the last of its entity in its commit."""
    page: list[FactPlace] = []
    wanted = 1
    for place in places:
        page.append(place)
        if len(page) >= wanted:
            facts = _load(reads, space, page, until)
            yield from facts
            wanted = next_page(wanted, sum(size_of(fact) for fact in facts))
            page = []
    yield from _load(reads, space, page, until)


def _load(reads: Reader, space: int, places: Sequence[FactPlace], until: int) -> list[FactRow]:
    by_branch: dict[int, dict[str, None]] = {}
    for id, _, _, branch in places:
        by_branch.setdefault(branch, {})[id] = None
    newest = {
        (fact.id, fact.version, fact.index, fact.branch): fact
        for branch, ids in by_branch.items()
        for fact in reads.newest(space, list(ids), ((branch, until),))
    }
    return [newest.get(place) or _load_one(reads, space, place) for place in places]


def _load_one(reads: Reader, space: int, place: FactPlace) -> FactRow:
    """Return a fact that is not the newest of its entity on its branch."""
    id, version, index, branch = place
    for fact in reads.newest(space, [id], ((branch, version),)):
        if (fact.version, fact.index) == (version, index):
            return fact
    raise Corrupt(f"the fact of {id} at version {version} is missing; run `rote verify`")


def facts_below(
    reads: Reader, space: int, branch: int, *, until: int, above: tuple[str, int] | None = None
) -> Iterator[FactRow]:
    """Yield the facts of a branch up to a version, by id and version, above an id at a version.

    Of several facts of an entity in one commit only the last is included.
    """
    after = None if above is None else (*above, NEWEST, NEWEST)
    places = _places(reads, space, branch=branch, until=until, after=after)
    return facts_at(reads, space, _last_places(places), until=until)


def _last_places(places: Iterator[FactPlace]) -> Iterator[FactPlace]:
    for _, found in groupby(places, key=itemgetter(0, 1)):
        *_, last = found
        yield last


def commits_below(reads: Reader, space: int, *, before: int, after: int = 0) -> Iterator[CommitRow]:
    """Yield the commits that are left below a version and above another, oldest first."""
    while True:
        page = reads.commits(space, after=after, limit=PAGE_MAX)
        for row in page:
            if row.version >= before:
                return
            yield row
        if len(page) < PAGE_MAX:
            return
        after = page[-1].version


# -- its digest ------------------------------------------------------------------------------------


class Standing(Struct, frozen=True):
    """Digest and counts of what is left up to the horizon."""

    state: str  # the digest of all facts and commits
    facts: int  # below the horizon
    commits: int  # below the horizon


def standing(
    reads: Reader, space: int, branches: Branches, *, before: int, version: int
) -> Standing:
    """Return the digest of everything up to the horizon, as it was when the commit `version` compacted.

    It is the digest of one JSON list, hashed item by item.
    """
    hasher, facts, commits = sha256(b"["), 0, 0
    items = _items(reads, space, branches, before, version)
    for number, (item, at) in enumerate(items):
        hasher.update((b"," if number else b"") + canonical(item))
        if at < before:
            is_fact = item[1] is not None
            facts, commits = facts + is_fact, commits + (not is_fact)
    hasher.update(b"]")
    return Standing(hasher.hexdigest(), facts, commits)


def _items(
    reads: Reader, space: int, branches: Branches, before: int, version: int
) -> Iterator[tuple[list[Json], int]]:
    """Yield the items of the hashed list, each with its version."""
    for branch in sorted(branches.rows(), key=lambda row: row.name):
        for fact in facts_below(reads, space, branch.branch, until=before):
            yield _fact_item(branch.name, fact, before, version), fact.version
    for row in commits_below(reads, space, before=before):
        yield _commit_item(branches.name(row.branch), row), row.version


def _fact_item(branch: str, fact: FactRow, before: int, version: int) -> list[Json]:
    salted = _salted_value(fact, version)
    item: list[Json] = [branch, fact.id, fact.version, fact.hash.hex(), salted]
    if fact.version < before:
        # The hash of its commit proved these before. A patch without operations cannot prove them.
        item += [fact.index, OPERATION_NAMES.get(fact.op), fact.parent.hex()]
    return item


def _salted_value(fact: FactRow, version: int) -> str | None:
    """Return the salted digest of the value after a fact; None if it was erased before `version`.

    An erasure after the compaction at `version` has kept this digest in the remains, because the
    checkpoint is signed and cannot change.
    """
    if fact.salt is None:
        remains = remains_in(fact)
        if remains.version < version:
            return None
        return remains.body if fact.op == SET else remains.value
    value = {SET: fact.body, PATCH: fact.value, DELETE: b""}.get(fact.op)
    if value is None:
        raise Corrupt(f"{fact.id} has no value at version {fact.version}")
    return sha256(fact.salt + value).hexdigest()


def _commit_item(branch: str, row: CommitRow) -> list[Json]:
    record: Json = {
        "at": format_time(row.at),
        "author": row.author,
        "event": None if row.event is None else decode_canonical(row.event),
        "key": row.key,
        "meta": None if row.meta is None else sha256(row.meta).hexdigest(),
    }
    return [branch, None, row.version, row.hash.hex(), digest(record)]
