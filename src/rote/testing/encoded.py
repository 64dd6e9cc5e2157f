"""A second answerer: a port that passes every command and answer through bytes, as a server would."""

from collections.abc import Callable
from typing import Any, TypeVar

from rote.contract import PortLayer, Task, Tell, Watching
from rote.contract.commands import Command, Watch, Work
from rote.contract.wire import (
    decode_answer,
    decode_command,
    decode_error,
    encode_answer,
    encode_command,
    encode_error,
)
from rote.errors import RoteError
from rote.kernel.kernel import TABLE
from rote.values import canonical, decode

R = TypeVar("R")


class Encoded(PortLayer):
    """Implements contract.Port on another one."""

    def answer(self, space: str, command: Command[R], /) -> R:
        row = TABLE.row(type(command))
        try:
            answer = self._port.answer(space, sent(command))
        except RoteError as error:
            raise decode_error(encode_error(error)) from error
        received: R = decode_answer(row, encode_answer(row, answer))
        return received

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        return EncodedTask(command, self._port.begin(space, sent(command)))

    def watch(self, space: str, command: Watch, /) -> Watching:
        return EncodedWatching(self._port.watch(space, sent(command)))


def sent(command: Command[R]) -> Any:
    """Return a command as it arrives."""
    return decode_command(type(command), encode_command(command))


class EncodedTask(Task[R]):
    """Long work whose answer comes as bytes."""

    def __init__(self, command: Work[R], task: Task[R]) -> None:
        self._row = TABLE.row(type(command))
        self._task = task

    def result(self, tell: Tell | None = None) -> R:
        try:
            answer = self._task.result(tell)
        except RoteError as error:
            raise decode_error(encode_error(error)) from error
        received: R = decode_answer(self._row, encode_answer(self._row, answer))
        return received

    def cancel(self) -> None:
        self._task.cancel()


class EncodedWatching:
    """A watch whose frames come as bytes."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        return _frame(lambda: self._watching.next(timeout))

    def advance(self, version: int) -> dict[str, Any] | None:
        return _frame(lambda: self._watching.advance(version))

    def close(self) -> None:
        self._watching.close()


def _frame(ask: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    try:
        frame = ask()
    except RoteError as error:
        raise decode_error(encode_error(error)) from error
    if frame is None:
        return None
    received: dict[str, Any] = decode(canonical(frame, depth_max=80), depth_max=80)
    return received
