"""Reading vectors: of texts, or all of them for a copy. Each is checked by its seal."""

from collections.abc import Iterable

from rote.contract.commands import GetVectors, ListVectorNames, VectorsOut
from rote.contract.vectors import dimension_of, is_vector, join_rows, split_hashes
from rote.engines.rows import VectorRow
from rote.errors import Corrupt, InvalidInput, LimitExceeded
from rote.kernel.log.seals import vector_record
from rote.kernel.state.open_space import OpenSpace
from rote.values.limits import VECTORS_AT_ONCE_MAX


def get_vectors(space: OpenSpace, command: GetVectors) -> bytes:
    dimension_of(command.name)
    hashes = split_hashes(command.data)
    check_count(len(hashes))
    rows = space.engine.reader().vectors(space.number, command.name, hashes)
    return _sent(space, command.name, rows.values())


def list_names(space: OpenSpace, command: ListVectorNames) -> tuple[str, ...]:
    return tuple(space.engine.reader().vector_names(space.number))


def vectors_out(space: OpenSpace, command: VectorsOut) -> bytes:
    dimension_of(command.name)
    after = b"".join(split_hashes(command.data)[:1])
    rows = space.engine.reader().vector_rows(
        space.number, command.name, after=after, limit=VECTORS_AT_ONCE_MAX
    )
    return _sent(space, command.name, rows)


def check_count(count: int) -> None:
    if count > VECTORS_AT_ONCE_MAX:
        raise LimitExceeded("the number of vectors", size=count, limit=VECTORS_AT_ONCE_MAX)


def is_sound(space: OpenSpace, name: str, row: VectorRow) -> bool:
    """Whether a row is as it was written."""
    try:
        dimension = dimension_of(name)
    except InvalidInput:
        return False
    is_sealed = row == vector_record(space.did, name, row.hash, row.body)
    return is_sealed and is_vector(row.body, dimension)


def _sent(space: OpenSpace, name: str, rows: Iterable[VectorRow]) -> bytes:
    sound = {row.hash: row.body for row in rows if is_sound(space, name, row)}
    if len(sound) < len(list(rows)):
        raise Corrupt(f"a vector of {name} was changed; `rote gc` drops it", name=name)
    return join_rows(sound)
