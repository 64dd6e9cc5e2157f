"""The parts that a store was wired with, which its spaces share."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from rote.contract import (
    Clock,
    ContentRule,
    IdSource,
    Index,
    KeyRing,
    Matcher,
    OpenStore,
    PackedIndex,
    Port,
    Questions,
    SideRule,
    TextRule,
    TokenSource,
)
from rote.engines import Engine
from rote.kernel.log.nonsense import NONSENSE, note_of_caller
from rote.values import micros_of


class Wiring(Struct, frozen=True, eq=False):
    """The engine, the sources of time, randomness and keys, and the declarations of layers above."""

    engine: Engine
    clock: Clock
    ids: IdSource
    tokens: TokenSource
    keys: KeyRing
    indexes: Mapping[str, Index]  # by name
    packed: Mapping[str, PackedIndex]  # by name
    questions: Questions  # computes an answer again that a commit relies on
    side_rules: Mapping[str, SideRule]  # by kind of side row
    matchers: Sequence[Matcher]  # read conditions of erasures
    content_rules: tuple[ContentRule, ...]
    guarded: tuple[str, ...]  # their prefixes
    texts: TextRule | None  # finds the texts in values that may have vectors
    port: "Callable[[], Port]"  # returns the store itself, for `questions`
    presumes: bool  # whether entities that are not cached may be assumed to be new, to save a look
    open_store: OpenStore

    def now(self) -> int:
        """Return the time by the store's clock, in microseconds since the epoch."""
        try:
            moment = self.clock.now()
        except NONSENSE as error:
            note_of_caller(error)
            raise
        return micros_of(moment)

    def random_bytes(self, count: int, /) -> bytes:
        """Return bytes of the store's source of ids."""
        try:
            return self.ids.random_bytes(count)
        except NONSENSE as error:
            note_of_caller(error)
            raise

    def shared_now(self) -> int:
        """Return the time by the clock that all processes share: the database's, if it has one."""
        now = self.engine.now()
        return self.now() if now is None else now
