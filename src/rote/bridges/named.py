"""The first few of many names, for an error or a report."""

from collections.abc import Sequence

from rote.values.limits import NAMED_IN_ERROR_MAX


def first_named(names: Sequence[str], *, separator: str, more: str) -> str:
    """Return the first names in one text, which ends with `more` when there are others."""
    shown = list(names[:NAMED_IN_ERROR_MAX])
    if len(names) > len(shown):
        shown.append(more)
    return separator.join(shown)
