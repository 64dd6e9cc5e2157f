"""Details of a memory, which the policies of ranking filter by and find threads with."""

from typing import Any

from msgspec import Struct

from rote.values import Json


class Details(Struct, frozen=True, gc=False):
    """The members of a memory beside its text. A member of another type counts as absent."""

    namespace: str | None = None
    kind: str | None = None
    metadata: dict[str, Json] | None = None

    @property
    def thread(self) -> str | None:
        return self._name("thread")

    @property
    def source(self) -> str | None:
        return self._name("source")

    @property
    def turn(self) -> int | float:
        """The place in a thread: a whole number, 0 without one."""
        turn = (self.metadata or {}).get("turn")
        if type(turn) is int or (type(turn) is float and turn.is_integer()):
            return turn
        return 0

    def _name(self, member: str) -> str | None:
        return _name((self.metadata or {}).get(member))


def details_of(line: dict[str, Any]) -> Details | None:
    """Return the details of a line of a store; None when it has none."""
    return details(line.get("namespace"), line.get("kind"), line.get("metadata"))


def details(namespace: Json, kind: Json, metadata: Json) -> Details | None:
    """Return the details of these members; None when they say nothing."""
    found = Details(
        namespace=_name(namespace),
        kind=_name(kind),
        metadata=metadata if type(metadata) is dict and metadata else None,
    )
    return None if found == _NOTHING else found


_NOTHING = Details()


def _name(value: Json) -> str | None:
    return value if type(value) is str and value else None
