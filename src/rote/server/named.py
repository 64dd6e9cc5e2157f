"""Names in commands: the ids, ranges and selectors that a right with a path is compared with.

Whatever is not of the right form lies outside every path.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rote.access.paths import range_within, selector_within, within
from rote.contract import AnswerRead
from rote.contract import commands as c
from rote.values.ranges import prefix_end

# Whether all that a command names lies within a path.
Named = Callable[[str], bool]


def named_in(command: Any) -> Named:
    """Return the test of a command of the kernel whose rule is `ids`, `range` or `walk`."""
    return lambda path: all(inside for inside in _parts(command, path))


def ids_named(ids_of: Callable[[Any], Iterable[Any]], arguments: Any) -> Named:
    """Return the test of a row of the server's own, by the ids that its arguments name."""
    return lambda path: all(_is_inside(id, path) for id in ids_of(arguments))


def range_named(range_of: Callable[[Any], tuple[Any, Any]], arguments: Any) -> Named:
    """Return the test of a row of the server's own, by the range of ids that it reads."""
    return lambda path: _is_range_inside(*range_of(arguments), path)


def _parts(command: Any, path: str) -> Iterator[bool]:
    """Yield for each part of a command whether it lies within a path; False for an unknown command."""
    match command:
        case c.Read() | c.ReadPage() | c.GetMade():
            yield _is_sequence(command.ids)
            yield from (_is_inside(id, path) for id in command.ids)
        case c.GlanceAt() | c.GetHistory():
            yield _is_inside(command.id, path)
        case c.Scan() | c.Skip():
            yield _is_range_inside(command.start, command.end, path)
        case c.Query() | c.Values() | c.Watch():
            yield from _selectors(command.query, path)
        case c.Rehearse():
            yield from _operations(command.operations, path)
            yield type(command.own) is dict
            yield from (_is_inside(id, path) for id in command.own)
        case c.MakeCommit():
            yield from _operations(command.operations, path)
            yield from _reads(command, path)
            yield not command.guards
        case _:
            yield False


def _operations(operations: Any, path: str) -> Iterator[bool]:
    yield _is_sequence(operations)
    for operation in operations:
        yield type(operation) is dict and _is_inside(operation.get("id"), path)


def _reads(command: c.MakeCommit, path: str) -> Iterator[bool]:
    yield _is_sequence(command.reads)
    for read in command.reads:
        if type(read) is not dict:
            yield False
        elif "id" in read:
            yield _is_inside(read["id"], path)
        elif "prefix" in read:
            prefix = read["prefix"]
            end = prefix_end(prefix) if type(prefix) is str else None
            yield _is_range_inside(prefix, end, path)
        else:
            yield _is_range_inside(read.get("from"), read.get("to"), path)
    yield _is_sequence(command.answers)
    answers: Sequence[Any] = command.answers  # members are as they were sent
    for answer in answers:
        yield type(answer) is AnswerRead and _is_sequence(answer.ranges)
        for each in answer.ranges:
            yield _is_sequence(each) and len(each) == 3 and _is_range_inside(each[1], each[2], path)


def _selectors(query: Any, path: str) -> Iterator[bool]:
    select = query.get("select") if type(query) is dict else None
    yield type(select) is dict
    for selector in select or ():
        yield type(selector) is str and selector_within(selector, path)


def _is_sequence(value: object) -> bool:
    return type(value) in (list, tuple)


def _is_inside(id: Any, path: str) -> bool:
    return type(id) is str and within(id, path)


def _is_range_inside(start: Any, end: Any, path: str) -> bool:
    return type(start) is str and type(end) is str and range_within(start, end, path)
