"""Content rules: what entities with a prefix may hold, as the layers above have declared it."""

from collections.abc import Sequence

from msgspec import UNSET

from rote.contract import ContentRule
from rote.errors import InvalidInput
from rote.kernel.log.entries import Entry
from rote.values import Encoded


def content_fault(rules: Sequence[ContentRule], id: str, entry: Entry) -> str | None:
    """Return why an entity may not hold its value; None when it may."""
    for rule in rules:
        if id.startswith(rule.prefix):
            # A value that is not decoded is judged by its bytes, a patched one by its document.
            is_decoded = entry.document is not UNSET
            value = entry.document if is_decoded else Encoded(entry.canonical_value())
            return rule.fault(id, value)
    return None


def check_content(rules: Sequence[ContentRule], id: str, entry: Entry) -> None:
    """Raise InvalidInput when an entity may not hold its value."""
    fault = content_fault(rules, id, entry)
    if fault is not None:
        raise InvalidInput(f"{id} cannot hold this: {fault}", id=id, rule="content")
