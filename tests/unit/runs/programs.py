"""Random programs that make calls side by side, and their replays in a process of its own:
`python -m tests.unit.runs.programs URL FOLDER COUNT SEED`.

A program is drawn from its number and a seed, so that both processes know it. Its functions end in a
drawn order, which a replay does not have. Everything that it gets, it writes.
"""

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

import rote
from rote import Effects, ModelConfig, Run, ToolProfile
from rote.runs.events import Event
from rote.testing.clocks import FixedClock
from rote.values import canonical
from tests.draws import Draws

NAME = "programs"
CALLS_MAX = 8
WAIT_SECONDS = 30
NAMES = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}
TOOLS = (
    ToolProfile("whole", "1"),
    ToolProfile("part", "1", normalized_args_fields=["/n"], tool_result_fingerprint_fields=["/x"]),
    ToolProfile("effects", "1", side_effect_fingerprint_fields=[""]),
)
ERRORS: tuple[Callable[[str], BaseException], ...] = (
    ValueError,
    KeyError,
    TimeoutError,
    SystemExit,
    rote.errors.Unavailable,
)

Function = Callable[..., Any]


class Asked(Struct, frozen=True):
    """One call of a program."""

    tool_name: str
    args: dict[str, Any]
    reply: Any  # what its function returns or raises


class Step(Struct, frozen=True):
    """Calls that are made at once, or a single one alone."""

    calls: tuple[Asked, ...]
    endings: tuple[int, ...]  # the places of the calls, in the order in which they end
    is_alone: bool
    return_exceptions: bool


def program_of(number: int, seed: int) -> list[Step]:
    chance = random.Random(f"{seed}/{number}")
    draws = Draws(chance.getrandbits(64))
    return [_step(chance, draws) for _ in range(chance.randint(1, 4))]


def _step(chance: random.Random, draws: Draws) -> Step:
    calls = tuple(_asked(chance, draws) for _ in range(chance.randint(1, CALLS_MAX)))
    endings = chance.sample(range(len(calls)), len(calls))
    is_alone = len(calls) == 1 and chance.random() < 0.5
    return Step(calls, tuple(endings), is_alone, chance.random() < 0.5)


def _asked(chance: random.Random, draws: Draws) -> Asked:
    args = {"n": chance.randrange(3), "text": f"{chance.random()}"}
    tool_name = chance.choice(TOOLS).tool_name
    if chance.random() < 0.3:
        return Asked(tool_name, args, chance.choice(ERRORS)(draws.text()))
    reply = {"x": draws.float(), "y": [draws.integer(), draws.text()]}
    is_plain = tool_name != "effects" or chance.random() < 0.3
    return Asked(tool_name, args, reply if is_plain else Effects(reply, {"z": draws.integer()}))


class World:
    """The functions of one step, which end in its order."""

    def __init__(self, step: Step) -> None:
        self.ended: list[int] = []
        self._step = step
        self._turns = [threading.Event() for _ in step.calls]

    def function(self, place: int) -> Function:
        def answer(**args: Any) -> Any:
            turn = self._step.endings.index(place)
            if turn > 0:
                assert self._turns[turn - 1].wait(WAIT_SECONDS)
            self.ended.append(place)
            self._turns[turn].set()
            asked = self._step.calls[place]
            assert args == asked.args
            if isinstance(asked.reply, BaseException):
                raise asked.reply
            return asked.reply

        return answer


def never(**args: Any) -> None:
    raise AssertionError("a replay calls nothing")


def play(run: Run, program: list[Step], *, live: bool) -> None:
    """Run a program; its run writes what the program gets."""
    for number, step in enumerate(program):
        world = World(step)
        with run.event(**NAMES) as event:
            got = _outcome(event, step, world.function if live else lambda place: never)
        assert world.ended == (list(step.endings) if live else [])
        run.set(f"urn:step:{number}", got)
    run.output({"type": "plan", "steps": [{"id": 1, "action": "calls"}]})


def _outcome(event: Event, step: Step, function: Callable[[int], Function]) -> Any:
    calls = [(asked.tool_name, function(n), asked.args) for n, asked in enumerate(step.calls)]
    try:
        if step.is_alone:
            [(tool_name, alone, args)] = calls
            return event.call(tool_name, alone, **args)
        results = event.calls(calls, return_exceptions=step.return_exceptions)
    except BaseException as error:
        return _shown(error)
    return [_shown(got) if isinstance(got, BaseException) else got for got in results]


def _shown(error: BaseException) -> dict[str, Any]:
    kind = error.details["type"] if isinstance(error, rote.errors.RecordedError) else None
    return {"error": kind or type(error).__name__, "message": str(error)}


def begin(store: rote.Store, **how: Any) -> Run:
    model = ModelConfig("example", "none", seed=1)
    return store.space(NAME).run(
        workflow_id="w", model=model, policy_set_id="p", mode="buffered_write", tools=TOOLS, **how
    )


def told(run: Run) -> dict[str, Any]:
    return {"trace": run.trace, "payload_fingerprint": run.payload_fingerprint}


def main(url: str, folder: str, count: str, seed: str) -> None:
    with rote.open(url, clock=FixedClock(), modes=["buffered_write"], create=False) as store:
        for number in range(int(count)):
            with begin(store, replay=Path(folder) / f"{number}.jsonl") as run:
                play(run, program_of(number, int(seed)), live=False)
            sys.stdout.buffer.write(canonical(told(run)) + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
