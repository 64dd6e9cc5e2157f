"""Problems of a file of records: everything for which an import would refuse it."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from rote.bridges.record_files import Told, try_records
from rote.bridges.validator import Problem, key_in, validate
from rote.errors import InvalidInput, LimitExceeded, RoteError
from rote.records.keys import entity_id
from rote.records.profiles import V1_1, check_profile
from rote.values import Json
from rote.values.limits import OPERATIONS_MAX


def check_file(
    stream: BinaryIO,
    *,
    namespaces: Iterable[str],
    profile: str = V1_1,
    progress: Told | None = None,
) -> Iterator[tuple[int, list[Problem]]]:
    """(number, problems) for each record; the number is that of its line, or of its array element."""
    check_profile(profile)
    known = tuple(namespaces)
    # No more keys are remembered than one commit takes, so memory has a bound for any file.
    numbers: dict[str, int] = {}
    for number, value in try_records(stream, progress):
        if isinstance(value, RoteError):
            yield number, [_unreadable(value)]
            continue
        problems = validate(value, namespaces=known, profile=profile)
        entity = _entity(value)
        if entity in numbers:
            words = f"it has the key of record {numbers[entity]}; keep one of them"
            problems.append(Problem("error", "", words))
        elif entity is not None and len(numbers) < OPERATIONS_MAX:
            numbers[entity] = number
        yield number, problems


def _unreadable(error: RoteError) -> Problem:
    details = error.details
    return Problem("error", details.get("pointer", ""), details.get("reason", str(error)))


def _entity(value: Json) -> str | None:
    """Return the entity of a record; None when it has no valid key."""
    if type(value) is not dict:
        return None
    try:
        return entity_id(*key_in(value))
    except (InvalidInput, LimitExceeded):
        return None
