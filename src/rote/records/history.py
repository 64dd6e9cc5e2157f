"""The history of a record: each fact of its entity, with the record as it was after it."""

from collections.abc import Iterator, Sequence
from itertools import islice

from rote.contract import Fact, State
from rote.errors import InvalidInput
from rote.patch import apply
from rote.records.envelope import Envelope, record_of
from rote.space import Space
from rote.values import Json, canonical, decode_canonical
from rote.values.limits import HISTORY_LIMIT_MAX


def history(view: Space, entity: str, *, limit: int) -> list[dict[str, Json]]:
    """Return what happened to a record, newest first: {version, at, author, op, record or null}."""
    if type(limit) is not int or not 0 <= limit <= HISTORY_LIMIT_MAX:
        raise InvalidInput(
            f"limit must be an integer from 0 to {HISTORY_LIMIT_MAX:,}", argument="limit"
        )
    items: list[dict[str, Json]] = [
        {
            "version": fact.version,
            "at": fact.at,
            "author": fact.author,
            "op": fact.op,
            "record": record,
        }
        for fact, record in _records(view, entity, _facts(view, entity, limit))
    ]
    return items[::-1][:limit]


def _facts(view: Space, entity: str, limit: int) -> list[Fact]:
    """Return the newest facts of an entity, oldest first.

    Of the oldest commit among them come all facts, so that its patches can be applied to the state
    before it.
    """
    stream = view.facts(entity)
    facts = list(islice(stream, limit))
    if facts and facts[-1].op == "patch":
        for fact in stream:
            if fact.version != facts[-1].version:
                break
            facts.append(fact)
    return facts[::-1]


def _records(
    view: Space, entity: str, facts: Sequence[Fact]
) -> Iterator[tuple[Fact, Envelope | None]]:
    """Yield each fact with the record after it: None where it was deleted or erased, or where a
    compaction has left nothing to tell it by."""
    oldest = view.oldest
    before: State | None = None  # None when it is not known
    for fact in facts:
        after: State | None
        if fact.op == "delete" or fact.erased:
            after = _after(fact, None, exists=False)
        elif fact.op == "set":
            after = _after(fact, fact.body)
        else:
            after = _patched(before, fact) or _read_after(view, fact, oldest)
        yield fact, None if after is None else record_of(after)
        before = after


def _after(fact: Fact, value: Json, *, exists: bool = True) -> State:
    return State(fact.id, value, exists, fact.version, fact.hash)


def _patched(before: State | None, fact: Fact) -> State | None:
    """Return the state after a patch of this state; None when it is not one of this state.

    A compaction leaves gaps in a history, and the results of patches without their operations.
    """
    if before is None or before.hash != fact.parent or fact.data is None:
        return None
    # A value of its own: no two records of an answer share parts.
    return _after(fact, decode_canonical(canonical(apply(before.value, fact.body))))


def _read_after(view: Space, fact: Fact, oldest: int) -> State | None:
    """Return the state after a patch, as it can be read; None when it was compacted away."""
    state = view.at(max(fact.version, oldest)).read(fact.id)
    if state.hash == fact.hash:
        return state
    # Later operations of the same commit have changed it, too.
    return (
        _patched(view.at(fact.version - 1).read(fact.id), fact) if fact.version > oldest else None
    )
