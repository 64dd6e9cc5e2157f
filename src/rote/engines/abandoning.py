"""What lies around every block of an engine: a block does not see an interruption of its own end."""

from types import TracebackType

from rote.engines.protocol import Engine
from rote.errors import RoteError


class Abandoning:
    """`with Abandoning(engine), engine.writer(space) as writes:` leaves nothing locked.

    Python notices a signal before the first line of a function, and so before the first line of the
    `__exit__` that would end the block. Whoever stands around the block sees what came of it.
    """

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Our own errors are raised with nothing held, or by a call from inside a block that stands.
        if error is not None and not isinstance(error, RoteError):
            self._engine.abandon()
