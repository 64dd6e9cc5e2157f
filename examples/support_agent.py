"""A support agent answers the same question on two days, and Rote says why its answers differ.

Run it: python examples/support_agent.py [FOLDER]. It needs nothing but Rote: no key and no network. The
model client has the shape of a real one, and a few rules in the place of a model. As most models it has
no seed, so two of its runs prove nothing about each other; the comparison shows what differs all the same.
With a new FOLDER, its store stays there; look at it with the commands that the program prints.
"""

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import rote
from rote import ModelConfig, Run, Space, ToolProfile

MODEL = ModelConfig("acme", "chat-large")
CHAT = "urn:chat:ada"
TURNS_MAX = 8
COMMANDS = (
    "trace show monday",
    "trace compare monday tuesday --full",
    "runs replay monday support_agent:answer",
)

orders = {"7": {"item": "teapot", "parcel": "P-31", "ordered": "2026-02-27"}}
parcels = {"P-31": {"state": "on its way", "arrives": "Tuesday"}}


class Client:
    """A client of a model: messages go in, text and tool calls come out."""

    def chat(self, *, messages: list[dict[str, Any]], tools: list[str]) -> dict[str, Any]:
        known, *talk = messages
        found = {m["name"]: m["content"] for m in talk if m["role"] == "tool"}
        if not found:
            asked: list[dict[str, Any]] = [
                {"id": "call-1", "name": "find_order", "arguments": {"order": "7"}},
                {"id": "call-2", "name": "track_parcel", "arguments": {"parcel": "P-31"}},
            ]
            return {"text": "", "tool_calls": [call for call in asked if call["name"] in tools]}
        item, parcel = found["find_order"]["item"], found["track_parcel"]
        if parcel["state"] == "on its way":
            text = f"Your {item} arrives on {parcel['arrives']}."
        elif "refund at once" in known["content"]:
            text = f"Your {item} is {parcel['state']}. We refund it today."
        else:
            text = f"Your {item} is {parcel['state']}. Please wait two weeks."
        return {"text": text, "tool_calls": []}


def find_order(order: str) -> dict[str, str]:
    return orders[order]


def track_parcel(parcel: str) -> dict[str, str]:
    return parcels[parcel]


client = Client()
tools = {"find_order": find_order, "track_parcel": track_parcel}


def answer(run: Run) -> str:
    """Answer the last message of the chat: recall, ask the model, call its tools, and remember."""
    chat: Any = run.get(CHAT)
    question = {"query": "ada refund", "budget": {"max_excerpt_tokens": 60, "max_items": 3}}
    recalled = run.retrieve(question)["selection"]["selected"]
    known = "\n".join(memory["excerpt"] for memory in recalled)
    messages = [{"role": "system", "content": f"Answer in one line. You know:\n{known}"}, *chat]
    for _ in range(TURNS_MAX):
        with run.event(role="support", interceptor="loop", decision_type="next_step") as event:
            reply: Any = event.model(client.chat, messages=messages, tools=sorted(tools))
            calls = reply["tool_calls"]
            if not calls:
                break
            results = event.calls([(c["name"], tools[c["name"]], c["arguments"]) for c in calls])
        messages.append({"role": "assistant", "content": reply["text"], "tool_calls": calls})
        for call, result in zip(calls, results, strict=True):
            said = {"role": "tool", "tool_call_id": call["id"], "name": call["name"]}
            messages.append({**said, "content": result})
    text: str = reply["text"]
    run.patch(CHAT, [{"op": "add", "path": "/-", "value": {"role": "assistant", "content": text}}])
    run.memory.append("daily_log", "support", "ada", {"text": f"Told Ada: {text}"})
    run.output({"type": "text", "sections": ["answer"]})
    return text


def start(space: Space, run_id: str, **more: Any) -> Run:
    return space.run(
        run_id=run_id, workflow_id="support", model=MODEL, policy_set_id="support-1",
        tools=[ToolProfile(name, "1") for name in tools], mode="buffered_write", record=True, **more,
    )  # fmt: skip


def show(folder: Path) -> None:
    with rote.open(folder / "rote.db", modes=["read_only", "buffered_write"]) as store:
        space = store.space("default")
        rule = {"text": "Ada is a regular: refund at once when a parcel of hers is lost."}
        rote.Memory(space).put("long_term", "rule", "ada", rule)
        before = space.set(CHAT, [{"role": "user", "content": "Where is my order 7?"}])

        with start(space, "monday") as monday:
            print(f"monday:  {answer(monday)}")

        # The same question to the same memory, but the carrier says something else. The policy rejects
        # the writes of this run, because Ada was answered on Monday.
        parcels["P-31"] = {"state": "lost"}
        with start(space.at(before.version), "tuesday", commit_policy=lambda _: False) as tuesday:
            print(f"tuesday: {answer(tuesday)}")

    report = rote.compare_traces(
        monday.trace, tuesday.trace,
        left_retrieval=monday.retrieval_trace, right_retrieval=tuesday.retrieval_trace,
        left_recording=recording_of(folder, "monday"), right_recording=recording_of(folder, "tuesday"),
    )  # fmt: skip
    print(f"{report.status}, but this differs:")
    for difference in report.differences:
        print(difference.message)
        print(f"  monday:  {difference.left_value}\n  tuesday: {difference.right_value}")


def recording_of(folder: Path, run_id: str) -> bytes:
    return (folder / "observability" / run_id / "recording.jsonl").read_bytes()


def main() -> None:
    if len(sys.argv) < 2:
        with tempfile.TemporaryDirectory() as passing:
            show(Path(passing))
        return
    folder = Path(sys.argv[1])
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        sys.exit(f"cannot make the folder {folder}: {error.strerror}; name a new one")
    show(folder)
    print(f"\nGo on in {Path(__file__).resolve().parent} with:")
    store = shlex.quote(str(folder.resolve() / "rote.db"))
    for command in COMMANDS:
        print(f"rote {command} --store {store}")


if __name__ == "__main__":
    main()
