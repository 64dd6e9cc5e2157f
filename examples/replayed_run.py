"""An agent's run that is recorded, replayed without its tools, and compared.

Run it: python examples/replayed_run.py [FOLDER]. It needs nothing but Rote: the model is a function that
decides by rules. Its two tools are real; one reads files, the other one adds. With a FOLDER, which must be
new or empty, its files stay there.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import rote
from rote import ModelConfig, Report, Run, Space, ToolProfile

MODEL = ModelConfig("example", "rules-1", temperature=0, seed=7)
TOOLS = [ToolProfile("read_receipt", "1"), ToolProfile("add", "1")]
RECEIPTS = {"hotel.txt": "320", "train.txt": "140"}


class Tools:
    """The tools of the agent, and the number of their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = 0

    def read_receipt(self, name: str) -> str:
        self.calls += 1
        return (self.folder / name).read_text()

    def add(self, numbers: list[int]) -> int:
        self.calls += 1
        return sum(numbers)


def model(names: list[str], amounts: list[int], total: int | None, rule: str) -> dict[str, Any]:
    """Return the next step, in the place of a language model."""
    if len(amounts) < len(names):
        return {"tool": "read_receipt", "args": {"name": names[len(amounts)]}}
    if total is None:
        return {"tool": "add", "args": {"numbers": amounts}}
    return {"verdict": "approve" if total <= int(rule.rpartition(" ")[2]) else "ask the manager"}


def audit(run: Run, tools: Tools) -> str:
    """Run the agent: it asks its memory for the rule, then does what the model says."""
    package = run.retrieve({"query": "travel limit", "budget": {"max_excerpt_tokens": 50}})
    seen: dict[str, Any] = {
        "names": sorted(RECEIPTS),
        "amounts": [],
        "total": None,
        "rule": package["selection"]["selected"][0]["excerpt"],
    }
    for _ in range(10):
        with run.event(role="auditor", interceptor="loop", decision_type="next_step") as event:
            step: Any = event.model(model, **seen)
            if "verdict" in step:
                break
            answer: Any = event.call(step["tool"], getattr(tools, step["tool"]), **step["args"])
        if step["tool"] == "add":
            seen["total"] = answer
        else:
            seen["amounts"].append(int(answer))
    verdict: str = step["verdict"]
    run.memory.put("ops", "verdict", "travel", {"text": f"{seen['total']}: {verdict}"})
    run.output({"type": "plan", "steps": [{"id": 1, "action": verdict}]})
    return verdict


def start(space: Space, run_id: str, **more: Any) -> Run:
    return space.run(
        run_id=run_id, workflow_id="audit", model=MODEL, tools=TOOLS, policy_set_id="travel-1",
        mode="buffered_write", **more,
    )  # fmt: skip


def compare(left: Run, right: Run) -> Report:
    return rote.compare_traces(
        left.trace,
        right.trace,
        left_retrieval=left.retrieval_trace,
        right_retrieval=right.retrieval_trace,
    )


def show(folder: Path) -> None:
    receipts = folder / "receipts"
    receipts.mkdir()
    for name, amount in RECEIPTS.items():
        (receipts / name).write_text(amount)
    recording = folder / "audit.jsonl"

    with rote.open(folder / "memory.db", modes=["read_only", "buffered_write"]) as store:
        space = store.space("assistant")
        rule = {"text": "Travel is approved up to a limit of 500"}
        before = rote.Memory(space).put("long_term", "rule", "travel", rule)["version"]

        tools = Tools(receipts)
        with start(space, "recorded", record=recording) as recorded:
            verdict = audit(recorded, tools)
        print(f"recorded: {verdict!r} after {tools.calls} tool calls; {recorded.state}")

        # The files are gone: every answer comes from the recording. Nothing is written either.
        for name in RECEIPTS:
            (receipts / name).unlink()
        tools = Tools(receipts)
        with start(space, "replayed", replay=recording) as replayed:
            verdict = audit(replayed, tools)
        print(f"replayed: {verdict!r} after {tools.calls} tool calls")
        print(f"recorded and replayed are {compare(recorded, replayed).status}")

        # The same run from the same memory, but the hotel has become dearer. The policy rejects the
        # result, because nobody wants it.
        for name, amount in {**RECEIPTS, "hotel.txt": "420"}.items():
            (receipts / name).write_text(amount)
        tools = Tools(receipts)
        with start(space.at(before), "changed", commit_policy=lambda _: False) as changed:
            verdict = audit(changed, tools)
        print(f"changed:  {verdict!r} after {tools.calls} tool calls; {changed.reason_code}")
        report = compare(recorded, changed)
        print(f"recorded and changed are {report.status}:")
        for failure in report.failures:
            print(f"  {failure.code}: {failure.message}")


def main() -> None:
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"cannot make the folder {folder}: {error.strerror}")
        if any(folder.iterdir()):
            sys.exit(f"{folder} is not empty; name a new folder, or remove what is in it")
        show(folder)
        return
    with tempfile.TemporaryDirectory() as passing:
        show(Path(passing))


if __name__ == "__main__":
    main()
