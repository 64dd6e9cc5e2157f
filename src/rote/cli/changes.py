"""Changes in words: the operations of a patch, the facts and the event of a commit."""

from collections.abc import Iterable
from typing import Any

from rote.cli.naming import shown
from rote.cli.output import compact, digits, print_line
from rote.contract import Commit, Fact
from rote.values import Json

_FACTS_SHOWN = 3
# Members of events that name their subject.
_ABOUT = ("source", "name", "id", "ids", "before")


def print_operations(operations: Iterable[dict[str, Any]]) -> None:
    """Print the operations of a patch: removals in red, additions in green."""
    for operation in operations:
        op, place = operation["op"], operation["path"] or "(all)"
        if op == "splice":
            change = f"{operation['remove']} out, {compact(operation['add'])} in"
            print_line(f"    {place} at {operation['index']}: {change}", style="yellow")
        elif op == "remove":
            print_line(f"    {place} removed", style="red")
        elif "from" in operation:
            print_line(f"    {place} {op} from {operation['from'] or '(all)'}", style="yellow")
        else:
            words = f"{place} must be" if op == "test" else place
            print_line(f"    {words} {compact(operation['value'])}", style="green")


def words_of(commit: Commit) -> list[str]:
    """Return the event of a commit and its first facts in words."""
    words = [] if commit.event is None else [_event_words(commit.event)]
    words += [
        f"{fact.op} {shown(fact.id)}{' (erased)' if fact.erased else ''}"
        for fact in commit.facts[:_FACTS_SHOWN]
    ]
    if len(commit.facts) > _FACTS_SHOWN:
        words.append(f"{digits(len(commit.facts) - _FACTS_SHOWN)} more")
    return words


def _event_words(event: dict[str, Any]) -> str:
    about = next((event[name] for name in _ABOUT if name in event), "")
    if isinstance(about, list):
        words = f"{digits(len(about))} entities, {shown(about[0])} …"
    else:
        words = shown(str(about))
    reason = f" ({event['reason']})" if "reason" in event else ""
    return f"{event['type']} {words}".rstrip() + reason


def why(meta: Json) -> str:
    """Return the meta of a commit as text: whoever made the commit says in it why."""
    if meta is None:
        return ""
    return meta if type(meta) is str else compact(meta)


def body_of(fact: Fact) -> str:
    if fact.erased:
        return "(erased)"
    if fact.op == "delete":
        return ""
    # A compaction keeps the result of a patch, but not its operations.
    return "(compacted)" if fact.op == "patch" and fact.body is None else compact(fact.body)
