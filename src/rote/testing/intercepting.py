"""Stepping in between a layer and the port below it."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from rote.contract import Port
from rote.contract.commands import Command

C = TypeVar("C", bound=Command[Any])


def intercept(
    patches: pytest.MonkeyPatch,
    port: Port,
    kind: type[C],
    instead: Callable[[str, C, Callable[[C], Any]], Any],
) -> None:
    """Let `instead` answer commands of a kind: it takes the space, the command, and the function that
    answers a command as the port would."""
    answer = port.answer

    def answered(space: str, command: Command[Any], /) -> Any:
        if not isinstance(command, kind):
            return answer(space, command)
        return instead(space, command, lambda asked: answer(space, asked))

    patches.setattr(port, "answer", answered)
