"""The block around every engine block: it cleans up when an interruption skips the inner block's end."""

from types import TracebackType

from rote.engines.protocol import Engine
from rote.errors import RoteError


class Abandoning:
    """`with Abandoning(engine), engine.writer(space) as writes:` leaves nothing locked.

    Python notices a signal before the first line of a function, and so before the first line of the
    `__exit__` that would end the block. Such an interruption skips the end of the inner block, but
    this outer block still sees it and abandons the inner one.
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
        # Rote's own errors leave nothing locked, or come from a call inside a block that is still in use.
        if error is not None and not isinstance(error, RoteError):
            self._engine.abandon()
