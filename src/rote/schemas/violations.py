"""Violations in a value, a schema or a registry: the place, the rule and the reason."""

from msgspec import Struct

from rote.errors import InvalidInput
from rote.values.limits import VIOLATION_CHARACTERS_MAX


class Violation(Struct, frozen=True):
    """The first fault in a value, a schema or a registry."""

    pointer: str  # the place of the fault
    rule: str  # a keyword of JSON Schema, or the name of a rule of Rote's own
    reason: str

    @property
    def place(self) -> str:
        return self.pointer or "its top"


class Violated(InvalidInput):
    """A violation on its way to the public functions of this package, which catch it."""

    def __init__(self, pointer: str, rule: str, reason: str) -> None:
        super().__init__(reason, code=InvalidInput.code)
        self.violation = Violation(pointer, rule, reason)


def shortened(text: str) -> str:
    """Return the text, cut when it is long: the library may name every member of a large value."""
    if len(text) <= VIOLATION_CHARACTERS_MAX:
        return text
    return text[: VIOLATION_CHARACTERS_MAX - 1] + "…"
