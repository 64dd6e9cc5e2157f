"""The run whose recordings and partial traces are golden: `recording-1.jsonl`,
`recording-1-failed.jsonl`, and `trace-partial-<n>.jsonl` with `trace-partial-<n>.json`, which says how it
is read. The events of the first do not tell how often they asked the model.

`python -m tests.golden.told_runs` makes those that are missing.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rote
from rote.testing.clocks import FixedClock
from rote.traces.partial import read_partial
from rote.values import canonical

FOLDER = Path(__file__).parent
RECORDING, FAILED = "recording-1.jsonl", "recording-1-failed.jsonl"
PARTIALS = ["trace-partial-1", "trace-partial-2"]  # the last is written today
EVENT = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}
QUESTION = {"query": "vault keys", "budget": {"max_excerpt_tokens": 100}}


class Closed(Exception):
    pass


def shop(item: str) -> None:
    raise Closed("on Sundays")


@contextmanager
def begun(folder: Path, **terms: Any) -> Iterator[rote.Run]:
    """Return a run in an empty space; the model is not fixed."""
    with (
        rote.open(":memory:", clock=FixedClock(), modes=["buffered_write"], traces=folder) as store,
        store.space("golden").run(
            workflow_id="golden",
            model=rote.ModelConfig("acme", "large-1", temperature=0.5),
            policy_set_id="p",
            mode="buffered_write",
            tools=[
                rote.ToolProfile("search", "1", side_effect_fingerprint_fields=["/at"]),
                rote.ToolProfile("shop", "2", normalized_args_fields=["/item"]),
            ],
            run_id="golden",
            **terms,
        ) as run,
    ):
        yield run


def tell(run: rote.Run, *, raises: bool) -> None:
    """Do what golden runs do; those that fail let a tool's error go."""
    run.retrieve(QUESTION)
    with run.event(**EVENT) as event:
        plan = event.model(lambda prompt: {"text": f"look for {prompt}"}, prompt="Öl")
        event.call("search", lambda query: rote.Effects([query, 1.5], {"at": 7}), query=plan)
        run.retrieve(QUESTION)
        event.guardrail("pii")
    run.set("urn:plan", plan)
    run.output({"type": "text", "sections": ["a"]})
    with (
        run.event(**EVENT) as event,
        suppress(*[] if raises else [Closed, rote.errors.RecordedError]),
    ):
        event.call("shop", shop, item="tea")


def recorded(*, raises: bool) -> bytes:
    """Return the recording of a run."""
    with TemporaryDirectory() as folder:
        with suppress(Closed), begun(Path(folder), record=True) as run:
            tell(run, raises=raises)
        return (Path(folder) / "golden" / "recording.jsonl").read_bytes()


def cut() -> bytes:
    """Return the partial trace of a run that is killed in the middle of an event."""
    with TemporaryDirectory() as folder, begun(Path(folder)) as run:
        tell(run, raises=False)
        data = (Path(folder) / "golden" / "trace.partial.jsonl").read_bytes()
    return data[:-50]


def read(data: bytes) -> bytes:
    trace, retrieval = read_partial(data)
    return canonical({"trace": trace, "retrieval": retrieval}) + b"\n"


def add() -> None:
    partial = cut()
    made = {
        RECORDING: recorded(raises=False),
        FAILED: recorded(raises=True),
        f"{PARTIALS[-1]}.jsonl": partial,
        f"{PARTIALS[-1]}.json": read(partial),
    }
    for name, data in made.items():
        if not (FOLDER / name).exists():
            (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    add()
