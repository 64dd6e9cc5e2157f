"""The parts that a store was wired with, which its spaces share."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from rote.contract import Clock, IdSource, Index, KeyRing, Port, Questions, SideRule, TokenSource
from rote.engines import Engine
from rote.values import micros_of


class Wiring(Struct, frozen=True, eq=False):
    """Where bytes, time, randomness and keys come from, and the indexes that were declared."""

    engine: Engine
    clock: Clock
    ids: IdSource
    tokens: TokenSource
    keys: KeyRing
    indexes: Mapping[str, Index]  # by name
    questions: Questions  # how an answer that a commit relies on is computed again
    side_rules: Mapping[str, SideRule]  # by kind of side row
    port: "Callable[[], Port]"  # the store itself, for those who ask again
    presumes: bool  # whether an entity that is not known may be taken for new, which saves a look

    def now(self) -> int:
        """Return the store's clock, microseconds since the epoch."""
        return micros_of(self.clock.now())

    def shared_now(self) -> int:
        """Return the clock that all processes of the store go by: the database's, if it has one."""
        now = self.engine.now()
        return self.now() if now is None else now
