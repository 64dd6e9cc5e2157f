"""A program that is recorded, and `rote runs replay` with another in its place."""

from pathlib import Path
from typing import Any

from typer.testing import Result

import rote
from rote import ModelConfig, ToolProfile
from rote.values import decode
from tests.unit.cli.command import run, run_json

MODES = ("off", "read_only", "buffered_write", "live_read_write")
# The model has no seed: what people use.
MODEL = ModelConfig("acme", "large-1", temperature=0.5)
TERMS: dict[str, Any] = {
    "workflow_id": "triage",
    "model": MODEL,
    "policy_set_id": "p1",
    "mode": "buffered_write",
    "tools": [ToolProfile("search", "1"), ToolProfile("mail", "2", normalized_args_fields=["/to"])],
}
PROGRAM = """
CALLED = []

def search(query):
    CALLED.append(query)
    return {"hits": [query.upper()]}

def mail(to):
    CALLED.append(to)
    return "sent"

def think(prompt):
    CALLED.append(prompt)
    return {"text": prompt.title()}

def work(run):
    package = run.retrieve({"query": "deploy keys", "budget": {"max_excerpt_tokens": 100}})
    with run.event(role="planner", interceptor="before_tool", decision_type="tool_call") as event:
        thought = event.model(think, prompt="where are the keys?")
        found = event.call("search", search, query="keys")
        event.call("mail", mail, to="ada")
    run.set("urn:answer", found)
    run.memory.put("ops", "fact", "asked", thought)
    run.memory.append("ops", "log", "all", thought)
    run.memory.append("ops", "log", "all", found)
    run.patch("urn:ticket", [{"op": "replace", "path": "/state", "value": "answered"}])
    run.output({"type": "text", "sections": ["answer"]})
"""


def record(
    url: object, program: str = PROGRAM, *, run_id: str = "monday", **other: Any
) -> dict[str, Any]:
    """Run a program, recorded beside its trace; return what it defined."""
    defined: dict[str, Any] = {}
    exec(program, defined)
    settings = {"traces": other.pop("traces")} if "traces" in other else {}
    with rote.open(str(url), modes=MODES, **settings) as store:
        space = store.space("team")
        if not space.version:
            rote.Memory(space).put("long_term", "fact", "keys", {"text": "Deploy keys are here."})
            space.set("urn:ticket", {"state": "open"})
        with space.run(**{**TERMS, "record": True, **other}, run_id=run_id) as recorded:
            defined["work"](recorded)
    return defined


def write(program: str, name: str = "agent") -> None:
    Path(f"{name}.py").write_text(program)


def changed(old: str, new: str, program: str = PROGRAM) -> str:
    assert program.count(old) == 1
    return program.replace(old, new)


def replay(store: Path, function: str = "agent:work", *more: str, run_id: str = "monday") -> Result:
    return run("runs", "replay", run_id, function, *more, store=store)


def answer_of(store: Path, function: str = "agent:work", *more: str, expected: int = 1) -> Any:
    result = replay(store, function, *more, "--json")
    assert (result.exit_code, result.stderr) == (expected, "")
    return decode(result.stdout)


def everything(store: Path) -> tuple[Any, ...]:
    traces = sorted(path for path in store.with_name("observability").rglob("*"))
    return (
        run_json("runs", "list", store=store),
        [(path, path.stat().st_mtime_ns) for path in traces],
        run("log", "--space", "team", "--json", store=store).stdout,
        store.read_bytes(),
    )
