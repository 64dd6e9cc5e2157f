"""rote agent: tasks and results in files, in the mailbox of a space, and between the two."""

from pathlib import Path
from typing import Any

import pytest

import rote
from rote.values import canonical, decode
from tests.unit.cli.command import error_of, json_error_of, run, run_json, run_ok
from tests.unit.tiers.test_agent import result, task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def written(folder: Path, envelope: Any, name: str = "envelope.json") -> str:
    (folder / name).write_bytes(canonical(envelope))
    return str(folder / name)


def send(folder: Path, store: Path, envelope: Any) -> str:
    return run_ok("agent", "send", written(folder, envelope), store=store)


def test_a_task_is_sent_read_and_answered(store_path: Path, folder: Path) -> None:
    assert send(folder, store_path, task()) == "t1\n"
    assert decode(run_ok("agent", "task", "t1", store=store_path)) == task()
    assert run_json("agent", "task", "t1", store=store_path) == task()
    none = run("agent", "result", "t1", store=store_path)
    assert (none.exit_code, none.stderr) == (1, "there is no result of t1 yet\n")
    posted = run_ok("agent", "post", "-", store=store_path, stdin=canonical(result()))
    assert posted == "the result of t1 posted\n"
    assert run_json("agent", "result", "t1", store=store_path) == result()
    again = run_ok("agent", "post", written(folder, result()), store=store_path)
    assert again == "the result of t1 was posted before; nothing was written\n"


def test_no_task_and_no_result_exit_with_1(store_path: Path, folder: Path) -> None:
    send(folder, store_path, task())
    for words, code in (
        (["task", "none"], "no_task"),
        (["result", "t1"], "no_result"),
        (["post", written(folder, result("none"))], "no_task"),
    ):
        none = run("agent", *words, "--json", store=store_path)
        assert (none.exit_code, none.stdout) == (1, "")
        assert json_error_of(none)["code"] == code


def test_another_envelope_under_an_id_is_refused(store_path: Path, folder: Path) -> None:
    send(folder, store_path, task())
    assert send(folder, store_path, task()) == "t1\n"
    other = run("agent", "send", written(folder, task(sensitivity="high")), store=store_path)
    assert "t1" in error_of(other)
    assert run_json("agent", "task", "t1", store=store_path) == task()


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        (b"{", "envelope.json: "),
        (b"\xff", "envelope.json: "),
        (b"[]", "the envelope must be an object"),
        (canonical(task(task_id="a b")), "/task_id must be"),
        (canonical(task(schema_version="2.0")), "/schema_version must be"),
        (canonical(task(input={"refs": [{"kind": "file"}]})), "/input/refs/0/uri"),
        (canonical({"task_id": "t1"}), "must be there"),
    ],
)
def test_a_bad_envelope_makes_no_store(
    store_path: Path, folder: Path, envelope: bytes, why: str
) -> None:
    (folder / "envelope.json").write_bytes(envelope)
    refused = run("agent", "send", str(folder / "envelope.json"), store=store_path)
    assert why in error_of(refused)
    assert not store_path.exists()


def test_what_is_refused_makes_no_store(store_path: Path, folder: Path) -> None:
    file = written(folder, result())
    for words, why in (
        (["send", str(folder / "none.json")], "none.json"),
        (["post", file], "no store at"),
        (["tasks"], "no store at"),
        (["task", "t1"], "no store at"),
        (["result", "t1"], "no store at"),
        (["send", '{"task_id": "t1"}'], "give - for FILE"),
        (["bridge"], "name the folder ROOT"),
        (["bridge", str(folder / "none")], "make it first"),
        (["bridge", file], "is no folder"),
        (["bridge", "/"], "the whole file system"),
    ):
        assert why in error_of(run("agent", *words, store=store_path))
    assert not store_path.exists()


def test_ids_and_options_are_judged(store_path: Path, folder: Path) -> None:
    send(folder, store_path, task())
    for words, why in (
        (["task", "a b"], "the id of a task"),
        (["result", ".hidden"], "the id of a task"),
        (["tasks", "--status", "closed"], "'open', 'done', 'all'"),
        (["tasks", "--limit", "0"], "1"),
        (["tasks", "--limit", "1001"], "1000"),
    ):
        assert why in error_of(run("agent", *words, store=store_path))


def test_tasks_are_listed_by_id_target_and_state(store_path: Path, folder: Path) -> None:
    for number in range(3):
        target = "oncall" if number < 2 else "night"
        more = {"target_agent": target, "description": f"look at {number}"}
        send(folder, store_path, task(f"t{number}", **more))
    run_ok("agent", "post", written(folder, result("t1")), store=store_path)

    def listed(*options: str) -> list[str]:
        lines = run_ok("agent", "tasks", *options, store=store_path).splitlines()
        return [line.split("\t")[0] for line in lines]

    assert listed() == ["t0", "t2"]
    assert listed("--status", "all") == ["t0", "t1", "t2"]
    assert listed("--status", "done") == ["t1"]
    assert listed("--target-agent", "night") == ["t2"]
    assert listed("--after", "t0") == ["t2"]
    shown = run_ok("agent", "tasks", "--status", "done", store=store_path)
    assert shown == "t1\tmonitor\toncall\tlook\tdone\tlook at 1\n"
    page = run("agent", "tasks", "--limit", "1", store=store_path)
    assert (page.exit_code, page.stderr) == (0, "more follow: --after t0\n")
    assert run_json("agent", "tasks", "--limit", "1", store=store_path)["next"] == "t0"
    assert listed("--target-agent", "nobody") == []


def test_a_bridge_brings_the_space_and_the_files_level(store_path: Path, folder: Path) -> None:
    root = folder / "mailbox"
    (root / "tasks").mkdir(parents=True)
    lines = [canonical(task("theirs")), b"{torn", canonical(task("also"))]
    (root / "tasks" / "theirs.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    first = run("agent", "bridge", str(root), store=store_path)
    assert first.exit_code == 0
    assert first.stdout == (
        "2 tasks from the files, 0 tasks to them\n0 results from the files, 0 results to them\n"
    )
    assert first.stderr.startswith("not taken: tasks/theirs.jsonl:2: ")
    send(folder, store_path, task("ours"))
    run_ok("agent", "post", written(folder, result("theirs")), store=store_path)
    told = run_json("agent", "bridge", str(root), store=store_path)
    assert {**told, "rejected": len(told["rejected"])} == {
        "tasks_in": 0, "tasks_out": 1, "results_in": 0, "results_out": 1, "rejected": 1,
    }  # fmt: skip
    assert decode((root / "results" / "theirs.json").read_bytes()) == result("theirs")
    again = run_json("agent", "bridge", str(root), store=store_path)
    assert {name: again[name] for name in again if name != "rejected"} == {
        "tasks_in": 0, "tasks_out": 0, "results_in": 0, "results_out": 0,
    }  # fmt: skip


def test_the_root_of_the_settings_is_used_and_judged(store_path: Path, folder: Path) -> None:
    settings = store_path.with_name("rote.toml")
    settings.write_text('[host.agent]\nroot = "mailbox"')
    refused = run("agent", "send", written(folder, task()), store=store_path)
    assert f"{settings}: host: the folder" in error_of(refused)
    assert not store_path.exists()
    root = settings.with_name("mailbox")
    root.mkdir()
    refused = run("agent", "send", written(folder, {}), store=store_path)
    assert "must be there" in error_of(refused)
    assert list(root.iterdir()) == []
    send(folder, store_path, task())
    [line] = (root / "tasks" / "openclaw_agent_tasks.jsonl").read_bytes().splitlines()
    assert decode(line) == task()
    with rote.open(store_path) as opened:
        assert opened.space("default").get("agent:task/t1") == task()


def test_a_bridge_takes_the_root_of_the_settings(store_path: Path, folder: Path) -> None:
    send(folder, store_path, task("t1"))
    (folder / "mailbox").mkdir()
    store_path.with_name("rote.toml").write_text('[host.agent]\nroot = "mailbox"\n')
    assert run_json("agent", "bridge", store=store_path)["tasks_out"] == 1
    (folder / "other").mkdir()
    named = run_json("agent", "bridge", str(folder / "other"), store=store_path)
    assert named["tasks_out"] == 1
