import os
import re
from pathlib import Path
from typing import Any

import pytest

import rote
from rote import ModelConfig, ToolProfile
from rote.bridges.trace_files import read_timeline
from rote.values import canonical, decode, sha256_hex
from tests.unit.cli.command import error_of, run, run_ok
from tests.unit.inspector.pages import read_page

SHOWN = """\
workflow	triage
run	monday
mode	buffered_write
model	acme large-1, seed 7
snapshot	main:0:none
policy	p1
output	text, {output}…
writes	{writes}…, version 1

event 0  planner  before_tool  tool_call
    model large-1 {{"prompt":"where?"}}
        → "in the\\nvault"
    tool search {{"query":"vault"}}
        → {{"hits":["vault"]}}
    tool mail {{}}
        raised TimeoutError: no\\u001b[31m answer
    guardrail pii ×2

writes of version 1
    set urn:keys {{"place":"vault"}}
"""


def refuse() -> None:
    raise TimeoutError("no\x1b[31m answer")


def work(each: rote.Run, query: str = "vault") -> None:
    with each.event(role="planner", interceptor="before_tool", decision_type="tool_call") as event:
        event.model(lambda prompt: "in the\nvault", prompt="where?")
        event.call("search", lambda query: {"hits": [query]}, query=query)
        with pytest.raises(TimeoutError):
            event.call("mail", refuse)
        event.guardrail("pii")
        event.guardrail("pii")
    each.set("urn:keys", {"place": "vault"})
    each.output({"type": "text", "sections": ["answer"]})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with the runs monday and tuesday, which differ in one argument."""
    path = tmp_path / "memory.db"
    with rote.open(path, modes=("buffered_write",)) as opened:
        for run_id, query in (("monday", "vault"), ("tuesday", "safe")):
            space = opened.space(run_id)
            with space.run(
                run_id=run_id,
                workflow_id="triage",
                model=ModelConfig("acme", "large-1", seed=7),
                policy_set_id="p1",
                mode="buffered_write",
                tools=[ToolProfile("search", "1"), ToolProfile("mail", "1")],
                record=True,
            ) as each:
                work(each, query)
    return path


def folder(store: Path, run_id: str = "monday") -> Path:
    return store.with_name("observability") / run_id


def shown(store: Path) -> str:
    return shown_of(str(folder(store) / "trace.json"), str(folder(store) / "recording.jsonl"))


def test_a_run_is_shown_event_by_event_with_what_it_wrote(store: Path) -> None:
    result = run("trace", "show", str(folder(store)), store=store)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == shown(store)
    assert run("trace", "show", "mond", store=store).stdout == shown(store)


def test_without_its_store_a_run_is_shown_with_the_fingerprint_of_its_writes(
    store: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    result = run("trace", "show", str(folder(store)), store=elsewhere)
    assert result.stdout == shown(store).partition("\nwrites of")[0].replace(", version 1", "")
    assert not elsewhere.exists()


def test_a_store_that_cannot_be_read_costs_only_the_writes(store: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    foreign.write_text("this is no store " * 100)
    result = run("trace", "show", str(folder(store)), store=foreign)
    assert result.exit_code == 0
    assert "event 0  planner" in result.stdout
    assert result.stderr.startswith("what the run wrote is not shown: ")


def test_a_run_of_the_same_id_in_another_store_has_other_writes(
    store: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "memory.db"
    other.parent.mkdir()
    with rote.open(other, modes=("buffered_write",)) as opened:
        space = opened.space("x")
        space.set("urn:other", 1)
        with space.run(
            run_id="monday", workflow_id="w", model=None, policy_set_id="p1", mode="buffered_write"
        ) as each:
            each.set("urn:other", 2)
    assert "writes of" not in run("trace", "show", str(folder(store)), store=other).stdout


def test_whole_values_are_shown_when_asked_for(store: Path) -> None:
    result = run("trace", "show", "monday", "--full", store=store)
    assert (
        '    model large-1\n        {\n          "prompt": "where?"\n        }\n' in result.stdout
    )
    assert "        →\n            in the\n            vault\n" in result.stdout


def test_programs_get_the_whole_timeline(store: Path) -> None:
    result = run("trace", "show", "monday", "--json", store=store)
    told: Any = decode(result.stdout)
    assert told["events"][0]["calls"][2]["error"] == {
        "type": "TimeoutError", "message": "no\x1b[31m answer",
    }  # fmt: skip
    assert told["writes"]["facts"][0]["id"] == "urn:keys"
    del told["writes"]
    without = read_timeline(folder(store) / "trace.json").to_dict()
    del without["writes"]
    assert told == decode(canonical(without))


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_lines_fit_a_terminal_of_any_width(store: Path, width: int) -> None:
    terminal = {"COLUMNS": str(width), "FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"}
    result = run("trace", "show", "monday", store=store, **terminal)
    _, *lines = result.stdout.partition("event 0")[2].splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= width
    assert any("search" in line for line in plain)
    assert "[31m" not in "".join(lines) or width >= 40


def test_a_long_value_tells_its_size(store: Path) -> None:
    recording = folder(store) / "recording.jsonl"
    assert b'"vault"' in recording.read_bytes()
    long = changed_recording(store, b'{"hits":["vault"]}', canonical({"hits": ["v" * 500]}))
    result = run("trace", "show", str(long), store=store)
    assert "v… (513 characters)\n" in result.stdout
    assert "v" * 500 in run("trace", "show", str(long), "--full", store=store).stdout


def changed_recording(store: Path, old: bytes, new: bytes) -> Path:
    """Return the folder of a run with another result in its recording, which its trace names."""
    place = folder(store)
    data = (place / "recording.jsonl").read_bytes().replace(old, new)
    trace: Any = decode((place / "trace.json").read_bytes())
    trace["metadata"]["recording"] = sha256_hex(data)
    (place / "recording.jsonl").write_bytes(data)
    (place / "trace.json").write_bytes(canonical(trace))
    return place


def test_files_may_lie_elsewhere(store: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("trace.json", "trace.retrieval.json", "recording.jsonl"):
        (folder(store) / name).rename(moved / f"x-{name}")
    trace, retrieval, recording = (
        str(moved / f"x-{name}")
        for name in ("trace.json", "trace.retrieval.json", "recording.jsonl")
    )
    assert "→ fingerprint" in run("trace", "show", trace, store=store).stdout
    named = ("--retrieval", retrieval, "--recording", recording)
    assert run("trace", "show", trace, *named, store=store).stdout == shown_of(trace, recording)


def shown_of(trace: str, recording: str) -> str:
    told = read_timeline(Path(trace), recording=Path(recording))
    writes = told.commit_payload_fingerprint or ""
    return SHOWN.format(output=told.output_shape_hash[:12], writes=writes[:12])


# -- bad input ----------------------------------------------------------------------------------------


def test_what_cannot_be_shown_says_why(store: Path, tmp_path: Path) -> None:
    said = error_of(run("trace", "show", "nobody", store=store))
    assert "there is no file nobody" in said
    place = folder(store)
    other = folder(store, "tuesday") / "recording.jsonl"
    said = error_of(run("trace", "show", str(place), "--recording", str(other), store=store))
    assert "is not the recording of its trace: its SHA-256 is" in said
    missing = str(tmp_path / "missing")
    assert "missing" in error_of(
        run("trace", "show", str(place), "--recording", missing, store=store)
    )
    (place / "trace.json").write_bytes(b"{")
    assert "trace.json: " in error_of(run("trace", "show", str(place), store=store))
    (place / "trace.json").write_bytes(b"{}")
    assert "rote trace check lists all" in error_of(run("trace", "show", str(place), store=store))


# -- pages --------------------------------------------------------------------------------------------


def test_a_page_is_written_to_a_new_file(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "monday.html"
    result = run("trace", "show", "monday", "--html", str(page), store=store)
    assert (result.exit_code, result.stdout) == (0, shown(store))
    read = read_page(page.read_bytes())
    assert "in the\nvault" in read.blocks
    assert "TimeoutError: no\\u{1B}[31m answer" in read.blocks
    assert "urn:keys" in read.names
    again = error_of(run("trace", "show", "monday", "--html", str(page), store=store))
    assert "exists already; remove it, or name another file" in again


def test_a_page_of_a_comparison_has_both_values(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "both.html"
    places = (str(folder(store)), str(folder(store, "tuesday")))
    result = run("trace", "compare", *places, "--html", str(page), store=store)
    assert result.exit_code == run("trace", "compare", *places, store=store).exit_code
    read = read_page(page.read_bytes())
    assert "tool_args_mismatch:0:0" in read.codes
    assert read.blocks[:2] == ['{"query": "vault"}', '{"query": "safe"}']


def test_a_page_shows_two_runs_and_not_folders_of_them(store: Path, tmp_path: Path) -> None:
    above = str(folder(store).parent)
    page = str(tmp_path / "x.html")
    said = error_of(run("trace", "compare", above, above, "--html", page, store=store))
    assert "is a folder without a trace.json" in said
    assert not Path(page).exists()


def test_records_have_the_names_that_are_typed(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with rote.open(path, modes=("buffered_write",)) as opened:
        terms: Any = {"workflow_id": "w", "policy_set_id": "p", "mode": "buffered_write"}
        with opened.space("team").run(run_id="monday", model=None, **terms) as each:
            each.memory.put("ops", "fact", "asked", {"text": "yes"})
    shown = run("trace", "show", "monday", store=path).stdout
    assert "    set ops fact asked {" in shown
    assert "record:" not in shown


# -- what differs, on a terminal and on a page --------------------------------------------------------

PARTS = ToolProfile(
    "search", "1", normalized_args_fields=("/q",), side_effect_fingerprint_fields=("",)
)


def compared_run(
    store: Path, run_id: str, *, result: Any = 1, effects: Any = None, replies: int = 1, **args: Any
) -> None:
    """Make a run of one call."""
    with (
        rote.open(store, modes=("buffered_write",)) as opened,
        opened.space("same").run(
            run_id=run_id,
            workflow_id="triage",
            model=ModelConfig("acme", "large-1", seed=7),
            policy_set_id="p1",
            mode="buffered_write",
            tools=[PARTS],
            record=True,
        ) as each,
        each.event(role="r", interceptor="i", decision_type="d") as event,
    ):
        for number in range(replies):
            event.model(lambda n: f"reply {n}", n=number)
        answer = result if effects is None else rote.Effects(result, effects)
        event.call("search", lambda **given: answer, **args)


@pytest.mark.parametrize(
    ("left", "right", "values"),
    [
        ({"q": "a", "id": 1}, {"q": "b", "id": 2}, [{"/q": "a"}, {"/q": "b"}]),
        ({"result": 1}, {"result": True}, [1, True]),
        ({"effects": {"sent": 1}}, {}, [{"sent": 1}, {}]),
        ({"replies": 1}, {"replies": 2}, [None, "reply 1"]),
    ],
)
def test_a_page_has_the_values_that_a_terminal_has(
    tmp_path: Path, left: Any, right: Any, values: list[Any]
) -> None:
    store, page = tmp_path / "memory.db", tmp_path / "page.html"
    compared_run(store, "left", **left)
    compared_run(store, "right", **right)
    asked = ("trace", "compare", "left", "right", "--full", "--json")
    result = run(*asked, "--html", str(page), store=store)
    [failure] = decode(result.stdout)["failures"]
    told = [failure[name] for name in ("left_value", "right_value")]
    assert [each and decode(each) for each in told] == values
    blocks = read_page(page.read_bytes()).blocks[:2]
    assert blocks == [canonical(each).decode().replace(":", ": ") for each in values]


def piped(path: Path) -> str:
    """Return the name of a pipe that gives the bytes of a file once."""
    source, target = os.pipe()
    with os.fdopen(target, "wb") as file:
        file.write(path.read_bytes())
    return f"/dev/fd/{source}"


def test_a_page_of_a_comparison_can_be_made_from_pipes(store: Path, tmp_path: Path) -> None:
    options = {
        "": "trace.json",
        "retrieval": "trace.retrieval.json",
        "recording": "recording.jsonl",
    }
    args = []
    for side, run_id in (("left", "monday"), ("right", "tuesday")):
        for name, file in options.items():
            option = [f"--{side}-{name}"] if name else []
            args += [*option, piped(folder(store, run_id) / file)]
    page = tmp_path / "page.html"
    result = run("trace", "compare", *args, "--html", str(page))
    assert (result.exit_code, result.stderr) == (1, "")
    assert read_page(page.read_bytes()).blocks[:2] == ['{"query": "vault"}', '{"query": "safe"}']


def test_a_comparison_is_not_told_when_its_page_cannot_be_written(
    store: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.touch()
    result = run("trace", "compare", "monday", "tuesday", "--html", str(page), store=store)
    assert "exists already" in error_of(result)
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["show", "compare"])
def test_a_recording_that_never_ends_is_refused(store: Path, command: str) -> None:
    names = ["monday"] if command == "show" else ["monday", "tuesday"]
    option = "--recording" if command == "show" else "--left-recording"
    said = error_of(run("trace", command, *names, option, "/dev/zero", store=store))
    assert "/dev/zero is not the recording of its trace: a line is not of a recording" in said


def test_a_recording_that_is_there_and_does_not_fit_is_told(store: Path) -> None:
    (folder(store) / "recording.jsonl").write_bytes(
        (folder(store, "tuesday") / "recording.jsonl").read_bytes()
    )
    told = run_ok("trace", "show", "monday", store=store)
    assert "The recording beside the trace is not used (its SHA-256 is " in told
    assert "There is no recording" not in told


def test_a_run_that_wrote_nothing_says_so(store: Path) -> None:
    compared_run(store, "left")
    for place in (store, store.with_name("elsewhere.db")):
        assert "writes\tnone\n" in run_ok("trace", "show", str(folder(store, "left")), store=place)


def test_writes_that_were_not_applied_are_no_writes(store: Path) -> None:
    with rote.open(store, modes=("buffered_write",)) as opened:
        space = opened.space("same")
        run_of = space.run(
            run_id="late", workflow_id="w", model=None, policy_set_id="p", mode="buffered_write"
        )
        with pytest.raises(rote.errors.RunAborted), run_of as each:
            each.get("urn:a")
            each.set("urn:a", 1)
            space.set("urn:a", 2)
    told = run_ok("trace", "show", "late", store=store)
    assert ", not applied\n" in told
    assert "writes of version" not in told
