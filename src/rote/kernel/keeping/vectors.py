"""Vectors of texts: stored as long as any state has the text, at any version on any branch.

They are content, though no commit has them: a vector tells about its text. An erasure, a compaction
and gc sweep: the vectors of texts that no state has any more are dropped. That takes a walk over all
values, so only spaces that have vectors pay for it, and nobody waits for it:

    1  list vectors, and remove from the list those whose text some value has
    2  in a transaction, do the same for the values that were written since, and drop the rest

A crash before 2 leaves vectors that the next sweep drops: the note of an erasure stays until then
(erasures.py). A vector that is dropped too early is made again by the next question.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import chain, groupby, islice
from operator import itemgetter

from rote.contract import Tell, TextRule
from rote.contract.commands import PutVectors
from rote.contract.vectors import dimension_of, is_vector, split_rows
from rote.engines import Abandoning, check_writable
from rote.errors import InvalidInput
from rote.kernel.keeping.past_values import values_below
from rote.kernel.log.events import compactions_above, erasures
from rote.kernel.log.nonsense import NONSENSE
from rote.kernel.log.seals import vector_record
from rote.kernel.reading.vectors import check_count, is_sound
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values.limits import (
    CACHE_CATCH_UP_MAX,
    INTEGER_MAX,
    PAGE_MAX,
    VECTORS_AT_ONCE_MAX,
    VECTORS_SWEPT_AT_ONCE,
)


def put_vectors(space: OpenSpace, command: PutVectors) -> None:
    name, since = command.name, command.unerased_since
    dimension = dimension_of(name)
    vectors = dict(split_rows(command.data, dimension))
    check_count(len(vectors))
    if not all(is_vector(body, dimension) for body in vectors.values()):
        raise InvalidInput("the data holds something that is no vector", argument="data")
    if type(since) is not int or not 0 <= since <= INTEGER_MAX:
        raise InvalidInput("unerased_since is a version", argument="unerased_since")
    space.engine.check_usable()
    check_writable(space.engine)
    rows = [vector_record(space.did, name, hash, body) for hash, body in sorted(vectors.items())]
    with Abandoning(space.engine), space.engine.writer(space.number) as writes:
        writes.head(space.number)  # NotFound when another process has erased the space
        is_gone = any(erasures(writes, space.number, after=since)) or any(
            compactions_above(writes, space.number, after=since)
        )
        if rows and not is_gone:
            writes.put_vectors(space.number, name, rows)


Vector = tuple[str, bytes]  # name and hash


def sweep_vectors(space: OpenSpace, tell: Tell = lambda what, done, total: None) -> int:
    """Drop the vectors of texts that no state has, and those that are not as they were written.

    Return how many these were.
    """
    rule, reads = space.wiring.texts, space.reader()
    if rule is None:
        return 0
    dropped = 0
    names = reads.rows.vector_names(reads.number)
    listed = _listed(space, reads, names)
    while some := dict(islice(listed, VECTORS_SWEPT_AT_ONCE)):
        broken = {vector for vector, is_whole in some.items() if not is_whole}
        sweep = _Sweep(rule, names, some.keys() - broken, tell)
        sweep.go_on(reads)
        for batch in _batches(sorted(sweep.unused | broken)):
            with Abandoning(space.engine), space.engine.writer(space.number) as rows:
                sweep.go_on(SpaceWriter(space, rows))
                gone = [vector for vector in batch if vector in sweep.unused or vector in broken]
                for name, vectors in groupby(gone, key=itemgetter(0)):
                    rows.drop_vectors(space.number, name, [hash for _, hash in vectors])
            dropped += len(gone)
    return dropped


def _listed(
    space: OpenSpace, reads: SpaceReader, names: Iterable[str]
) -> Iterator[tuple[Vector, bool]]:
    """Yield all vectors, and whether each is as it was written."""
    for name in names:
        after = b""
        while rows := reads.rows.vector_rows(
            reads.number, name, after=after, limit=VECTORS_AT_ONCE_MAX
        ):
            for row in rows:
                yield (name, row.hash), is_sound(space, name, row)
            after = rows[-1].hash


def _batches(vectors: Iterable[Vector]) -> Iterator[list[Vector]]:
    rest = iter(vectors)
    return iter(lambda: list(islice(rest, VECTORS_AT_ONCE_MAX)), [])


class _Sweep:
    """Walk over all values, and remove from some vectors those whose text a value has."""

    def __init__(
        self, rule: TextRule, names: Iterable[str], vectors: Iterable[Vector], tell: Tell
    ) -> None:
        self._rule = rule
        self._names = tuple(names)
        self.unused = set(vectors)
        self._tell = tell
        self._version = 0  # up to which all values were seen

    def go_on(self, reads: SpaceReader) -> None:
        """Look at what was written since the last look."""
        reads.steadily(None, lambda newest: self._go_on(reads, newest))

    def _go_on(self, reads: SpaceReader, newest: int) -> None:
        if newest == self._version or not self.unused:
            return
        values = (
            values_below(reads, prefix, until=newest) for prefix in self._places(reads, newest)
        )
        for count, (id, value) in enumerate(chain.from_iterable(values), 1):
            with suppress(*NONSENSE):  # a value that nobody understands has no text
                self._remove(self._rule.texts(id, value))
            if not self.unused:
                return
            if count % PAGE_MAX == 0:
                self._tell("sweeping", count, count)
        self._version = newest

    def _places(self, reads: SpaceReader, newest: int) -> Iterable[str]:
        """Return the ids that were written since, or the prefix of all if these are too many."""
        prefix, limit = self._rule.prefix, CACHE_CATCH_UP_MAX
        changed = reads.rows.changed(reads.number, after=self._version, until=newest, limit=limit)
        if not self._version or len(changed) == limit:
            return (prefix,)
        return sorted({id for _, id in changed if id.startswith(prefix)})

    def _remove(self, texts: Iterable[str]) -> None:
        for text in texts:
            hash = sha256(text.encode()).digest()
            for name in self._names:
                self.unused.discard((name, hash))
