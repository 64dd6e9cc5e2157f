"""The mailbox: envelopes, the first under an id stays, and files beside the space."""

import multiprocessing
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import Denied, InvalidInput, NotFound, PayloadMismatch, RoteError, Unavailable
from rote.tiers import mailbox_files
from rote.tiers.agent import AgentTier
from rote.tiers.fs.adapter import open_root
from rote.tiers.fs.files import Folder
from rote.values import canonical, decode

LEVEL = {"tasks_in": 0, "tasks_out": 0, "results_in": 0, "results_out": 0, "rejected": []}


def task(id: str = "t1", **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.0", "task_id": id, "requester_id": "monitor", "target_agent": "oncall",
        "task_type": "look", "input": {}, **more,
    }  # fmt: skip


def result(id: str = "t1", **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.0", "task_id": id, "agent_id": "oncall", "status": "done",
        "output": {"summary": "it is up"}, **more,
    }  # fmt: skip


@pytest.fixture
def store() -> Iterator[rote.Store]:
    with rote.open(":memory:") as store:
        yield store


@pytest.fixture
def host(store: rote.Store) -> rote.Host:
    return rote.Host("operator-controlled", store=store)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "mailbox"
    folder.mkdir()
    return folder


def filed(store: rote.Store, root: Path) -> rote.Host:
    return rote.Host("operator-controlled", store=store, agent={"root": str(root)})


def code_of(function: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(RoteError) as raised:
        function(*args, **more)
    return raised.value.code


# -- envelopes -------------------------------------------------------------------------------------

FULL: dict[str, Any] = {
    "target_role": "r", "description": "d", "sensitivity": "low", "approval_required": "no",
    "human_approver": None, "deadline": "2026-01-01T12:00:00+02:00", "allowed_tools": ["a", "b"],
    "required_output_contract": {}, "budget_limit": {"usd": 1}, "callback": {}, "policy_context": {},
    "metadata": {}, "other": [1, None], "input": {"refs": [{"kind": "file", "uri": "x"}], "payload": 5},
}  # fmt: skip
FULL_RESULT: dict[str, Any] = {
    "confidence": 0.5, "artifact_refs": [{"kind": "file", "uri": "x", "more": 1}], "cost_used": {},
    "time_used": {}, "needs_review": {}, "error": {}, "provenance_ref": {}, "other": None,
}  # fmt: skip


def test_whole_envelopes_are_kept_as_they_are(host: rote.Host) -> None:
    sent, posted = task(**FULL), result(**FULL_RESULT)
    assert host.agent.send_task(sent) == "t1"
    assert host.agent.read_task("t1") == sent
    assert host.agent.post_result(posted) == {"ok": True, "created": True}
    assert host.agent.read_result("t1") == posted


BAD_TASKS: list[tuple[Any, str]] = [
    ([], ""), ("x", ""), ({}, "/schema_version"), (task(schema_version="2.0"), "/schema_version"),
    (task(schema_version=1.0), "/schema_version"), (task(""), "/task_id"), (task("a/b"), "/task_id"),
    (task(".a"), "/task_id"), (task("x" * 101), "/task_id"), (task(requester_id=""), "/requester_id"),
    (task(target_agent=None), "/target_agent"), (task(task_type=5), "/task_type"), (task(input=[]), "/input"),
    (task(input={"refs": {}}), "/input/refs"), (task(input={"refs": [1]}), "/input/refs/0"),
    (task(input={"refs": [{"kind": "a", "uri": "b"}, {"kind": "a"}]}), "/input/refs/1/uri"),
    (task(target_role=None), "/target_role"), (task(human_approver=5), "/human_approver"),
    (task(deadline="tomorrow"), "/deadline"), (task(deadline="2026-01-01T12:00:00"), "/deadline"),
    (task(allowed_tools="a"), "/allowed_tools"), (task(allowed_tools=["a", 1]), "/allowed_tools/1"),
    (task(metadata=None), "/metadata"), (task(callback="x"), "/callback"),
]  # fmt: skip
BAD_RESULTS: list[tuple[Any, str]] = [
    (5, ""), (result(schema_version=None), "/schema_version"), (result(agent_id=""), "/agent_id"),
    (result(status=None), "/status"), (result(output="x"), "/output"), (result(output={}), "/output/summary"),
    (result(output={"summary": None}), "/output/summary"), (result(confidence=1.5), "/confidence"),
    (result(confidence=True), "/confidence"), (result(artifact_refs=[{}]), "/artifact_refs/0/kind"),
    (result(error="x"), "/error"), (result(cost_used=1), "/cost_used"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "envelope", "pointer"),
    [
        *(("send_task", *bad) for bad in BAD_TASKS),
        *(("post_result", *bad) for bad in BAD_RESULTS),
    ],
)
def test_a_bad_envelope_is_refused_at_its_pointer(
    host: rote.Host, verb: str, envelope: Any, pointer: str
) -> None:
    host.agent.send_task(task("t1"))
    with pytest.raises(InvalidInput) as refused:
        host.call("agent", verb, [envelope])
    assert (refused.value.code, refused.value.details["pointer"]) == ("bad_envelope", pointer)
    assert host.agent.tasks()["items"] == [{"task": task("t1"), "done": False}]


# -- the space -------------------------------------------------------------------------------------


def test_the_first_envelope_stays(store: rote.Store, host: rote.Host) -> None:
    host.agent.send_task(task())
    version = store.space("default").version
    assert host.agent.send_task(task()) == "t1"
    with pytest.raises(PayloadMismatch):
        host.agent.send_task(task(description="another"))
    host.agent.post_result(result())
    assert host.agent.post_result(result()) == {"ok": True, "created": False}
    with pytest.raises(PayloadMismatch):
        host.agent.post_result(result(status="failed"))
    assert host.agent.read_task("t1") == task()
    assert host.agent.read_result("t1") == result()
    space = store.space("default")
    assert space.version == version + 1
    assert [state.id for state in space.scan()] == ["agent:result/t1", "agent:task/t1"]


def test_what_is_not_there_is_told(host: rote.Host) -> None:
    assert code_of(host.agent.read_task, "t1") == "no_task"
    assert code_of(host.agent.read_result, "t1") == "no_result"
    assert code_of(host.agent.post_result, result()) == "no_task"
    for bad in ("", "a b", "../x", 5):
        assert code_of(host.agent.read_task, bad) == "bad_arguments"
    assert code_of(host.agent.bridge) == "adapter_not_configured"


def test_tasks_are_listed_in_pages_by_target_and_status(host: rote.Host) -> None:
    for number in range(7):
        host.agent.send_task(task(f"t{number}", target_agent="ab"[number % 2]))
    for id in ("t1", "t2"):
        host.agent.post_result(result(id))

    def ids(**more: Any) -> list[str]:
        found, after = [], None
        while True:
            page = host.agent.tasks(**more, after=after, limit=2)
            assert len(page["items"]) <= 2
            found += [item["task"]["task_id"] for item in page["items"]]
            after = page["next"]
            if after is None:
                return found

    assert ids() == ["t0", "t3", "t4", "t5", "t6"]
    assert ids(status="done") == ["t1", "t2"]
    assert ids(status="all") == [f"t{number}" for number in range(7)]
    assert ids(target_agent="a") == ["t0", "t4", "t6"]
    assert ids(target_agent="nobody", status="all") == []
    assert [item["done"] for item in host.agent.tasks(status="all")["items"]][:3] == [
        False,
        True,
        True,
    ]
    assert code_of(host.agent.tasks, None, "closed") == "bad_arguments"


def test_a_grant_leaves_its_targets(store: rote.Store, root: Path) -> None:
    host = filed(store, root)
    host.agent.send_task(task("mine", target_agent="a"))
    host.agent.send_task(task("other", target_agent="b"))
    host.agent.post_result(result("other"))
    flow = host.scope(grant={"agent": {"targets": ["a"]}})
    calls: list[tuple[str, Any]] = [
        ("send_task", [task("new", target_agent="b")]), ("tasks", ["b"]), ("read_task", ["other"]),
        ("read_result", ["other"]), ("post_result", [result("other")]),
    ]  # fmt: skip
    for verb, args in calls:
        with pytest.raises(Denied) as refused:
            flow.call("agent", verb, args)
        assert refused.value.code == "grant_denied"
    assert [item["task"]["task_id"] for item in flow.agent.tasks(status="all")["items"]] == ["mine"]
    for path in root.rglob("*.json*"):
        path.unlink()
    told = flow.agent.bridge()
    assert {**told, "rejected": []} == {**LEVEL, "tasks_out": 1}
    places = [("tasks/openclaw_agent_tasks.jsonl", None), ("results", None)]
    assert [(each["file"], each["line"]) for each in told["rejected"]] == places
    assert all(each["reason"].startswith("1 of the space") for each in told["rejected"])
    assert host.agent.bridge() == {**LEVEL, "tasks_out": 1, "results_out": 1}


def test_a_bridge_tells_what_of_the_files_is_outside_its_grant(
    store: rote.Store, root: Path
) -> None:
    host = filed(store, root)
    for folder in ("tasks", "results"):
        (root / folder).mkdir()
    both = [task("mine", target_agent="a"), task("other", target_agent="b")]
    (root / "tasks/a.jsonl").write_bytes(b"\n".join(map(canonical, both)) + b"\n")
    flow = host.scope(grant={"agent": {"targets": ["a"]}})
    told = flow.agent.bridge()
    why = "the target_agent is not among the targets of the grant"
    rejected = [{"file": "tasks/a.jsonl", "line": 2, "reason": why}]
    assert told == {**LEVEL, "tasks_in": 1, "rejected": rejected}
    assert host.agent.bridge() == {**LEVEL, "tasks_in": 1}
    (root / "results/other.json").write_bytes(canonical(result("other")))
    rejected.append({"file": "results/other.json", "line": None, "reason": why})
    assert flow.agent.bridge() == {**LEVEL, "rejected": rejected}
    assert host.agent.bridge() == {**LEVEL, "results_in": 1}


def _send(path: Path, number: int, answers: Any) -> None:
    with rote.open(path) as store:
        host = rote.Host("operator-controlled", store=store)
        try:
            host.agent.send_task(task(description=f"by {number}"))
            answers.put(number)
        except PayloadMismatch:
            answers.put(None)


def test_between_processes_the_first_stays_too(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with rote.open(path) as store:
        store.space("default")
    context = multiprocessing.get_context("fork")
    answers: Any = context.Queue()
    children = [context.Process(target=_send, args=(path, number, answers)) for number in range(4)]
    for child in children:
        child.start()
    told = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    (winner,) = [number for number in told if number is not None]
    with rote.open(path) as store:
        host = rote.Host("operator-controlled", store=store)
        assert host.agent.read_task("t1")["description"] == f"by {winner}"


# -- files -----------------------------------------------------------------------------------------


def lines(root: Path) -> list[Any]:
    data = (root / "tasks" / "openclaw_agent_tasks.jsonl").read_bytes()
    return [decode(line) for line in data.splitlines()]


def test_sent_tasks_and_posted_results_are_in_files_too(store: rote.Store, root: Path) -> None:
    host = filed(store, root)
    for id in ("t1", "t2", "t1"):
        host.agent.send_task(task(id))
    assert lines(root) == [task("t1"), task("t2")]
    host.agent.post_result(result("t2"))
    assert (root / "results" / "t2.json").read_bytes() == canonical(result("t2")) + b"\n"
    assert host.agent.bridge() == LEVEL


def test_a_result_is_read_from_its_file_and_not_stored(store: rote.Store, root: Path) -> None:
    host = filed(store, root)
    host.agent.send_task(task())
    (root / "results").mkdir()
    file = root / "results" / "t1.json"
    assert code_of(host.agent.read_result, "t1") == "no_result"
    for bad in ("", "{", "[]", '{"a": 1}', '{"a": NaN}'):
        file.write_text(bad)
        assert code_of(host.agent.read_result, "t1") == "bad_envelope"
    file.write_bytes(canonical(result("t2")))
    assert code_of(host.agent.read_result, "t1") == "bad_envelope"
    file.write_bytes(canonical(result()))
    assert host.agent.read_result("t1") == result()
    assert store.space("default").get("agent:result/t1") is None
    file.unlink()
    file.symlink_to(root / "secret")
    assert code_of(host.agent.read_result, "t1") == "not_plain"


def test_a_bridge_brings_space_and_files_level(store: rote.Store, root: Path) -> None:
    plain = rote.Host("operator-controlled", store=store)
    plain.agent.send_task(task("ours"))
    plain.agent.post_result(result("ours"))
    (root / "tasks").mkdir()
    (root / "results").mkdir()
    text = canonical(task("theirs")).decode()
    (root / "tasks" / "a.jsonl").write_text(
        f'{text}\n\n{{"torn": \n{text}\nnot json\n{canonical(task("ours", description="x")).decode()}'
    )
    (root / "tasks" / "note.txt").write_text("no tasks")
    (root / "results" / "theirs.json").write_bytes(canonical(result("theirs")))
    (root / "results" / "wrong.json").write_bytes(canonical(result("theirs")))
    (root / "results" / "unknown.json").write_bytes(canonical(result("unknown")))
    (root / "results" / "folder.json").mkdir()
    os.mkfifo(root / "results" / "pipe.json")
    host = filed(store, root)
    told = host.agent.bridge()
    rejected = told.pop("rejected")
    assert told == {"tasks_in": 1, "tasks_out": 0, "results_in": 1, "results_out": 1}
    assert [(each["file"], each["line"]) for each in rejected] == [
        ("tasks/a.jsonl", 3), ("tasks/a.jsonl", 5), ("tasks/a.jsonl", 6),
        ("results/unknown.json", None), ("results/wrong.json", None),
    ]  # fmt: skip
    assert all(each["reason"] for each in rejected)
    assert host.agent.read_task("theirs") == task("theirs")
    assert host.agent.read_task("ours") == task("ours")
    again = host.agent.bridge()
    assert again == {**LEVEL, "rejected": rejected}


def test_a_line_after_a_torn_one_begins_anew(store: rote.Store, root: Path) -> None:
    host = filed(store, root)
    host.agent.send_task(task("t1"))
    path = root / "tasks" / "openclaw_agent_tasks.jsonl"
    with path.open("ab") as file:
        file.write(b'{"schema_version":"1.0","task_id":"to')
    host.agent.send_task(task("t2"))
    told = host.agent.bridge()
    assert [each["line"] for each in told["rejected"]] == [2]
    assert path.read_bytes().splitlines()[2] == canonical(task("t2"))


def test_files_that_are_links_are_left_alone(store: rote.Store, root: Path) -> None:
    host = filed(store, root)
    (root / "tasks").mkdir()
    (root / "secret").write_text("mine\n")
    link = root / "tasks" / "openclaw_agent_tasks.jsonl"
    link.symlink_to(root / "secret")
    assert code_of(host.agent.send_task, task()) == "not_plain"
    link.unlink()
    link.hardlink_to(root / "secret")
    assert code_of(host.agent.send_task, task("t2")) == "not_plain"
    assert (root / "secret").read_text() == "mine\n"
    link.unlink()
    assert host.agent.bridge() == LEVEL  # what was refused is nowhere
    assert host.agent.tasks(status="all")["items"] == []


def test_a_link_in_the_way_of_a_bridge_is_told_and_the_rest_is_written(
    store: rote.Store, root: Path
) -> None:
    plain = rote.Host("operator-controlled", store=store)
    for id in ("t1", "t2", "t3"):
        plain.agent.send_task(task(id))
        plain.agent.post_result(result(id))
    (root / "secret").write_text("mine\n")
    for folder, name in (("results", "t1.json"), ("tasks", "openclaw_agent_tasks.jsonl")):
        (root / folder).mkdir()
        (root / folder / name).symlink_to(root / "secret")
    (root / "results" / "t2.json").mkdir()
    told = filed(store, root).agent.bridge()
    assert [(each["file"], each["line"]) for each in told.pop("rejected")] == [
        ("tasks/openclaw_agent_tasks.jsonl", None),
        ("results/t1.json", None),
        ("results/t2.json", None),
    ]
    assert told == {"tasks_in": 0, "tasks_out": 0, "results_in": 0, "results_out": 1}
    assert (root / "secret").read_text() == "mine\n"


def test_a_file_of_any_size_is_read_and_a_line_that_is_too_long_spoils_itself_only(
    store: rote.Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size_max = len(canonical(task("t0")))
    monkeypatch.setattr(mailbox_files, "VALUE_BYTES_MAX", size_max)
    host = filed(store, root)
    for number in range(3):
        host.agent.send_task(task(f"t{number}"))
    path = root / "tasks" / "openclaw_agent_tasks.jsonl"
    for length in (1, 2, size_max, size_max + 1, size_max + 2, 3 * size_max):
        path.write_bytes(path.read_bytes() + b" " * size_max + b"x" * length + b"\n")
    host.agent.send_task(task("t3"))
    told = host.agent.bridge()
    assert [each["line"] for each in told.pop("rejected")] == [4, 5, 6, 7, 8, 9]
    assert told == dict.fromkeys(told, 0)


def test_a_bridge_holds_the_file_for_few_writes(
    store: rote.Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = rote.Host("operator-controlled", store=store)
    sent = [task(f"t{number:03}", description="x" * 100) for number in range(60)]
    for each in sent:
        plain.agent.send_task(each)
    writes: list[int] = []
    append_line = Folder.append_line

    def counted(self: Folder, name: str, line: bytes) -> None:
        writes.append(len(line))
        append_line(self, name, line)

    monkeypatch.setattr(Folder, "append_line", counted)
    monkeypatch.setattr(mailbox_files, "FS_READ_BYTES", 5_000)
    assert filed(store, root).agent.bridge() == {**LEVEL, "tasks_out": 60}
    assert lines(root) == sent
    assert len(writes) < 6
    assert max(writes) < 6_000


def test_two_bridges_at_once_write_a_line_once(
    store: rote.Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rote.Host("operator-controlled", store=store).agent.send_task(task())
    missing = AgentTier._missing
    outcomes: list[Any] = []

    def missing_before_another_bridge(self: AgentTier, *args: Any) -> Any:
        found = missing(self, *args)
        monkeypatch.undo()
        if not outcomes:
            outcomes.append(filed(store, root).agent.bridge())
        return found

    monkeypatch.setattr(AgentTier, "_missing", missing_before_another_bridge)
    outcomes.append(filed(store, root).agent.bridge())
    assert outcomes == [{**LEVEL, "tasks_out": 1}, LEVEL]
    assert lines(root) == [task()]


def test_a_bridge_between_the_commit_and_the_line_of_a_task_writes_it_once(
    store: rote.Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = AgentTier._keep
    bridge = threading.Thread(target=filed(store, root).agent.bridge)

    def keep_and_meet(self: AgentTier, *args: Any) -> bool:
        is_new = keep(self, *args)
        bridge.start()
        bridge.join(0.1)  # it ends, unless it waits for the line
        return is_new

    monkeypatch.setattr(AgentTier, "_keep", keep_and_meet)
    filed(store, root).agent.send_task(task())
    bridge.join()
    assert lines(root) == [task()]


def test_closed_files_are_not_those_of_others(root: Path, tmp_path: Path) -> None:
    """A thread closes the host while another one writes; the descriptor is soon another folder's."""
    files = mailbox_files.MailboxFiles(open_root(str(root)))
    files.close()
    (tmp_path / "other").mkdir()
    taken = [os.open(tmp_path / "other", os.O_RDONLY) for _ in range(20)]
    with pytest.raises(Unavailable):
        files.write_result(result())
    for descriptor in taken:
        os.close(descriptor)
    assert list((tmp_path / "other").iterdir()) == []


def test_other_entities_under_its_names_are_no_tasks(store: rote.Store, root: Path) -> None:
    store.space("default").set("agent:task/t1", 5)
    host = filed(store, root)
    assert code_of(host.agent.read_task, "t1") == "no_task"
    assert code_of(host.agent.post_result, result()) == "no_task"
    (root / "results").mkdir()
    (root / "results" / "t1.json").write_bytes(canonical(result()))
    assert [each["file"] for each in host.agent.bridge()["rejected"]] == ["results/t1.json"]


def test_lines_of_several_writers_never_mix(tmp_path: Path, root: Path) -> None:
    with rote.open(tmp_path / "memory.db") as store:
        store.space("default")
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=_send_many, args=(tmp_path / "memory.db", root, name))
        for name in "abc"
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert sorted(line["task_id"] for line in lines(root)) == [
        f"{name}{number}" for name in "abc" for number in range(8)
    ]


def _send_many(path: Path, root: Path, name: str) -> None:
    with rote.open(path, durability="os") as store:
        host = filed(store, root)
        for number in range(8):
            host.agent.send_task(task(f"{name}{number}", description="x" * 5_000))


def test_a_missing_root_is_told(store: rote.Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        filed(store, tmp_path / "nowhere")
