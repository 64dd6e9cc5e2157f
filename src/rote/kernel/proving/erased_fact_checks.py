"""Checks of erased facts by verify: an erasure explains each, and no erased entity has content left."""

from rote.contract.operations import PATCH
from rote.engines import Reader
from rote.engines.rows import FactRow
from rote.errors import Corrupt
from rote.kernel.keeping.erasures import facts_of
from rote.kernel.log.branches import Branches
from rote.kernel.log.chain import fact_hash_of
from rote.kernel.log.erased_facts import remains_in
from rote.kernel.log.events import erased_by
from rote.values.canonical import quoted
from rote.values.limits import ERASE_ENTITIES_MAX

UNEXPLAINED = "its content is missing, and no erasure explains it"


class Erasers:
    """Remembers which entities commits have erased: of several, each of their facts asks for one."""

    def __init__(self) -> None:
        self._known: dict[int, frozenset[str]] = {}  # ids by version

    def has_erased(self, reads: Reader, space: int, version: int, id: str) -> bool:
        """Whether the commit at a version erases an entity."""
        if version not in self._known:
            if sum(map(len, self._known.values())) > ERASE_ENTITIES_MAX:
                self._known.clear()
            rows = reads.events(space, after=version - 1, limit=1)
            found = (erased_by(row) for row in rows if row.version == version)
            self._known[version] = frozenset(next(found, ()))
        return id in self._known[version]


def fault_of_erased(
    reads: Reader, space: int, fact: FactRow, erasers: Erasers, *, is_left: bool = False
) -> str | None:
    """Return the fault of a fact without a salt, or None.

    A later commit must record its erasure, and its remains must still give its hash. The hash of a
    patch that a compaction kept cannot be recomputed; the signed digest covers it instead.
    """
    try:
        remains = remains_in(fact)
    except Corrupt:
        return UNEXPLAINED
    if not erasers.has_erased(reads, space, remains.version, fact.id):
        return UNEXPLAINED
    if fact.op == PATCH and remains.body is None:
        return None if is_left else UNEXPLAINED
    if fact_hash_of(quoted(fact.id), fact.op, remains.body, fact.parent) != fact.hash:
        return "what remains of it does not match its hash"
    return None


def left_over(
    reads: Reader, space: int, branches: Branches, id: str, *, until: int
) -> FactRow | None:
    """Return a fact whose content an erasure should have removed and did not, or None."""
    for rows in facts_of(reads, space, branches, id, until=until):
        for row in rows:
            if row.salt is not None or row.body is not None:
                return row
    return None
