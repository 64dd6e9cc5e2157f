"""What is wrong with a value, a schema or a registry: where, by which rule, and why."""

from msgspec import Struct

from rote.errors import InvalidInput
from rote.values.limits import VIOLATION_CHARACTERS_MAX


class Violation(Struct, frozen=True):
    """The first thing that is wrong."""

    pointer: str  # where, in what was judged
    rule: str  # the keyword that says so, or the name of a rule of Rote's own
    reason: str

    @property
    def place(self) -> str:
        return self.pointer or "its top"


class Violated(InvalidInput):
    """Carries a violation to whoever asked. Never leaves this package."""

    def __init__(self, pointer: str, rule: str, reason: str) -> None:
        super().__init__(reason, code=InvalidInput.code)
        self.violation = Violation(pointer, rule, reason)


def shortened(text: str) -> str:
    """Texts of the library may name every member of a large value."""
    if len(text) <= VIOLATION_CHARACTERS_MAX:
        return text
    return text[: VIOLATION_CHARACTERS_MAX - 1] + "…"
