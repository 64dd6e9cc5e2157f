"""trace check and compare: values from recordings, pairs by workflow, and traces that are not whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rote.bridges import trace_files
from rote.traces import partial
from rote.values import canonical, decode, fingerprint
from tests.unit.cli.command import error_of, run
from tests.unit.cli.test_tracing import FIT, NO_FILES, write
from tests.unit.traces.traces import Change, changed, changing, good_run, recorded_run

# -- values, and all that the contract leaves out -----------------------------------------------------

ANSWER = ("trace", "events", 1, "tool_calls", 0, "tool_result_fingerprint")


def answering_run(name: str, answer: Any, change: Change = lambda made: None) -> Any:
    """Return the good run with a recording in which a tool gives this answer in its second event."""
    answers: list[Any] = [None, None, answer, None, None, None]
    made = changing(changed(*ANSWER, to=fingerprint(answer)), name)
    change(made)
    return recorded_run(made, [{"kind": "tool", "result": each} for each in answers])


def write_two(folder: Path, *answers: Any) -> list[str]:
    """Write two run folders whose tool answered otherwise; return the paths of their traces."""
    sides = zip(("left", "right"), answers, strict=True)
    return [
        str(write(folder / side, answering_run(side, answer), "trace")) for side, answer in sides
    ]


def test_values_stand_in_the_place_of_fingerprints_and_the_first_above_all(tmp_path: Path) -> None:
    paths = write_two(tmp_path, {"hits": 1}, {"hits": 2})
    result = run("trace", "compare", *paths)
    assert (result.exit_code, result.stdout.splitlines()) == (1, [
        "different: 1 difference; the first: event 1, tool call 0 (search): the tool answered otherwise",
        '  left:  {"hits":1}',
        '  right: {"hits":2}',
        "tool_result_fingerprint_mismatch:1:0\t/events/1/tool_calls/0/tool_result_fingerprint"
        '\t{"hits":1}\t{"hits":2}',
    ])  # fmt: skip
    told: Any = decode(run("trace", "compare", *paths, "--json").stdout)
    [failure] = told["failures"]
    assert (failure["left_value"], failure["right_value"]) == ('{"hits":1}', '{"hits":2}')
    assert failure["left"] == fingerprint({"hits": 1})
    # Folders show the same.
    folders = run("trace", "compare", str(tmp_path / "left"), str(tmp_path / "right"))
    assert '  right: {"hits":2}' in folders.stdout.splitlines()


def test_a_row_is_cut_where_its_values_differ_and_steers_no_terminal(tmp_path: Path) -> None:
    common = "x" * 100
    *_, row = run(
        "trace", "compare", *write_two(tmp_path, common + "1", common + "2")
    ).stdout.splitlines()
    assert row.endswith(f'\t…{"x" * 58}1"\t…{"x" * 58}2"')
    shown = run("trace", "compare", *write_two(tmp_path, "\u202ea", "\u202eb")).stdout
    assert "\u202e" not in shown
    assert '  left:  "\\u202ea"' in shown.splitlines()


def test_a_recording_beside_that_does_not_fit_is_not_used_and_a_named_one_is_refused(
    tmp_path: Path,
) -> None:
    paths = write_two(tmp_path, 1, 2)
    beside = tmp_path / "left" / "recording.jsonl"
    elsewhere = tmp_path / "kept"
    elsewhere.write_bytes(beside.read_bytes())
    for wrong in (
        b"",
        b"\xff",
        elsewhere.read_bytes()[:-1],
        (tmp_path / "right/recording.jsonl").read_bytes(),
    ):
        beside.write_bytes(wrong)
        result = run("trace", "compare", *paths)
        assert result.exit_code == 1
        assert result.stdout.endswith(f"\t{fingerprint(1)[:12]}…\t2\n")
        said = error_of(run("trace", "compare", *paths, "--left-recording", str(beside)))
        assert f"{beside} is not the recording of its trace: " in said
    assert "its SHA-256 is " in said
    named = (
        "--left-recording",
        str(elsewhere),
        "--right-recording",
        str(tmp_path / "right/recording.jsonl"),
    )
    assert run("trace", "compare", *paths, *named).stdout.endswith("\t1\t2\n")
    assert "gone" in error_of(
        run("trace", "compare", *paths, "--left-recording", str(tmp_path / "gone"))
    )
    folders = ("trace", "compare", str(tmp_path / "left"), str(tmp_path / "right"))
    assert "by their names" in error_of(run(*folders, *named))


@pytest.mark.parametrize("make", [*NO_FILES, Path.mkdir])
def test_what_is_called_like_a_recording_and_is_none_is_not_used(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    paths = write_two(tmp_path, 1, 2)
    beside = tmp_path / "left" / "recording.jsonl"
    beside.unlink()
    make(beside)
    assert run("trace", "compare", *paths).exit_code == 1


def test_a_recording_may_have_the_name_of_its_trace(tmp_path: Path) -> None:
    paths = write_two(tmp_path, 1, 2)
    beside = tmp_path / "left" / "recording.jsonl"
    beside.rename(tmp_path / "left" / "trace.recording.jsonl")
    assert run("trace", "compare", *paths).stdout.endswith("\t1\t2\n")


def test_full_compares_what_the_contract_leaves_out(tmp_path: Path) -> None:
    def wrote(data: str) -> Change:
        return changed("trace", "metadata", "commit_payload_fingerprint", to=data * 64)

    sides = {side: tmp_path / side for side in "ab"}
    paths = [str(write(folder, changing(wrote(side)))) for side, folder in sides.items()]
    for places in (paths, list(map(str, sides.values()))):
        assert run("trace", "compare", *places).exit_code == 0
        result = run("trace", "compare", *places, "--full")
        assert (result.exit_code, "writes_mismatch" in result.stdout) == (1, True)
    told: Any = decode(run("trace", "compare", *paths, "--full", "--json").stdout)
    assert told["level"] == "full"


def unfixed_run(name: str, answer: Any) -> Any:
    return answering_run(
        name, answer, lambda made: made["trace"]["metadata"].update(model_fixed=False)
    )


def test_runs_of_unfixed_models_are_told_as_no_proof_with_all_that_differs(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / side, unfixed_run(side, side), "trace")) for side in "ab"]
    result = run("trace", "compare", *paths)
    headline, *lines = result.stdout.splitlines()
    assert result.exit_code == 2
    assert headline.startswith(
        "ineligible: 2 reasons; the first: left: the model may reply otherwise"
    )
    # The run is recorded, so it is not advised to record it.
    assert "rote runs replay a MODULE:FUNCTION" in headline
    assert "record=True" not in headline
    assert lines == [
        "trace:model\t/metadata/model_fixed\tfalse\t",
        "trace:model\t/metadata/model_fixed\t\tfalse",
        "no proof, but here is what differs: 1 difference; the first: event 1, tool call 0 (search):"
        " the tool answered otherwise",
        '  left:  "a"',
        '  right: "b"',
        "tool_result_fingerprint_mismatch:1:0\t/events/1/tool_calls/0/tool_result_fingerprint"
        '\t"a"\t"b"',
    ]
    told: Any = decode(run("trace", "compare", *paths, "--json").stdout)
    assert [each["left_value"] for each in told["differences"]] == ['"a"']
    page = tmp_path / "page.html"
    assert run("trace", "compare", *paths, "--html", str(page)).exit_code == 2
    assert "tool_result_fingerprint_mismatch:1:0" in page.read_text()


def test_runs_of_unfixed_models_that_differ_in_nothing_are_no_proof_either(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / side, unfixed_run(side, "same"), "trace")) for side in "ab"]
    result = run("trace", "compare", *paths)
    assert result.exit_code == 2
    words = "no proof, but nothing differs in what is compared"
    assert result.stdout.splitlines()[-1] == f"{words}; --full compares replies of the model, too"
    assert run("trace", "compare", *paths, "--full").stdout.splitlines()[-1] == words


# -- folders by workflow ------------------------------------------------------------------------------


def write_workflows(folder: Path, **workflows: str) -> None:
    """Write run folders with these names, and the workflows of their runs."""
    for name, workflow_id in workflows.items():
        write(
            folder / name, changing(changed("trace", "workflow_id", to=workflow_id), name), "trace"
        )


def pairs_of(left: Path, right: Path, *, code: int) -> dict[str, Any]:
    result = run("trace", "compare", str(left), str(right), "--json")
    assert result.exit_code == code
    told: Any = decode(result.stdout)
    return {pair["name"]: pair for pair in told["pairs"]}


def test_folders_of_runs_are_paired_by_workflow(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write_workflows(before, z9="billing", a1="triage", same="both")
    write_workflows(after, c3="triage", same="both", b2="billing")
    pairs = pairs_of(before, after, code=0)
    assert [(name, pair["left"], pair["right"]) for name, pair in pairs.items()] == [
        ("triage: a1/trace.json and c3/trace.json", "a1/trace.json", "c3/trace.json"),
        ("same/trace.json", "same/trace.json", "same/trace.json"),
        ("billing: z9/trace.json and b2/trace.json", "z9/trace.json", "b2/trace.json"),
    ]
    assert {pair["status"] for pair in pairs.values()} == {"equivalent"}
    mirrored = pairs_of(after, before, code=0)
    assert {pair["left"] for pair in mirrored.values()} == {
        pair["right"] for pair in pairs.values()
    }


def test_a_workflow_that_ran_twice_is_not_guessed(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write_workflows(before, a="triage", b="triage", c="billing", d="alone")
    write_workflows(after, e="triage", f="billing", g="other")
    pairs = pairs_of(before, after, code=2)
    assert {name: pair["status"] for name, pair in pairs.items()} == {
        "a/trace.json": "ineligible", "b/trace.json": "ineligible", "d/trace.json": "ineligible",
        "billing: c/trace.json and f/trace.json": "equivalent", "e/trace.json": "ineligible",
        "g/trace.json": "ineligible",
    }  # fmt: skip
    [failure] = pairs["e/trace.json"]["failures"]
    assert (failure["code"], failure["message"]) == (
        "unpaired",
        "e/trace.json is only on the right, and nothing says which traces of its workflow 'triage'"
        " belong together: 2 on the left and 1 on the right have no namesake",
    )
    [failure] = pairs["d/trace.json"]["failures"]
    assert failure["message"] == (
        "d/trace.json is only on the left, and no trace of its workflow 'alone' on the right lacks a"
        " namesake"
    )
    assert (pairs["e/trace.json"]["left"], pairs["e/trace.json"]["right"]) == (None, "e/trace.json")


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"[]", b'{"workflow_id":5}', b"\xff"])
def test_what_has_no_workflow_is_unpaired(tmp_path: Path, data: bytes) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write_workflows(before, a="triage")
    write_workflows(after, b="triage")
    (after / "b" / "trace.json").write_bytes(data)
    pairs = pairs_of(before, after, code=2)
    assert [pair["failures"][0]["code"] for pair in pairs.values()] == ["unpaired", "unpaired"]


# -- partial traces -----------------------------------------------------------------------------------


CUT = "cut: the end of the run is not in the trace, so it cannot be compared"


def write_partial(folder: Path, made: Any, *, tail: bytes = b"", name: str = "trace") -> Path:
    """Write what a run that was killed leaves of its traces."""
    trace = made["trace"]
    start = {
        key: part for key, part in trace.items() if key not in ("events", "output", "metadata")
    }
    metadata: Any = {"model_fixed": True, "replayed": False, "model": None, "tools": []}
    lines: list[Any] = [{**start, "kind": "trace_partial/1", "metadata": metadata}]
    for event in trace["events"]:
        for row in made["retrieval"]["events"]:
            if row["event_id"] == event["event_id"]:
                lines.append({"retrieval": row})
        lines += [{"model_reply": "a" * 64}, {"event": event}]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.partial.jsonl"
    path.write_bytes(b"".join(canonical(line) + b"\n" for line in lines) + tail)
    return path


@pytest.mark.parametrize("tail", [b"", b'{"event":{"ev', b'{"model_reply":"' + b"b" * 64 + b'"}\n'])
def test_a_partial_trace_is_read_as_one_that_is_cut(tmp_path: Path, tail: bytes) -> None:
    path = write_partial(tmp_path / "run", good_run(), tail=tail)
    for place in (path, path.parent):
        result = run("trace", "check", str(place))
        cut = f"fit, but {CUT}\n"
        assert (result.exit_code, result.stdout) == (0, cut)
        told: Any = decode(run("trace", "check", str(place), "--json").stdout)
        assert told == {"ok": True, "status": "valid", "failures": [], "truncated": True}
    whole = write(tmp_path / "whole", good_run())
    for left, right in ((path, whole), (whole, path.parent)):
        result = run("trace", "compare", str(left), str(right))
        assert (result.exit_code, "trace:truncated" in result.stdout) == (2, True)


def test_of_a_partial_trace_that_is_too_long_the_beginning_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_partial(tmp_path, good_run())
    for module in (trace_files, partial):
        monkeypatch.setattr(module, "TRACE_READ_BYTES_MAX", path.stat().st_size - 10)
    assert run("trace", "check", str(path)).stdout.startswith("fit, but cut")


def test_a_partial_trace_without_a_line_is_none(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        write(folder / "run", good_run())
    (before / "unbegun").mkdir()
    (before / "unbegun" / "trace.partial.jsonl").write_bytes(b"")
    assert run("trace", "compare", str(before), str(after)).exit_code == 0
    assert "without a trace.json" in error_of(run("trace", "check", str(before / "unbegun")))


def test_what_is_wrong_in_a_partial_trace_is_told(tmp_path: Path) -> None:
    made = changing(changed("trace", "events", 1, "role", to=5))
    result = run("trace", "check", str(write_partial(tmp_path, made)))
    assert (result.exit_code, "trace:type\t/events/1/role" in result.stdout) == (1, True)
    assert result.stdout.splitlines()[1] == f"and {CUT}"
    path = write_partial(tmp_path, good_run())
    path.write_bytes(b'{"kind":"other"}\n')
    for said in (
        error_of(run("trace", "check", str(path))),
        error_of(run("trace", "compare", str(path), str(path))),
    ):
        assert said.startswith(f"error: {path}: ")
    options = ("--retrieval", str(write(tmp_path, good_run())))
    assert "holds its retrievals" in error_of(run("trace", "check", str(path), *options))


def test_a_whole_trace_is_taken_before_a_partial_one(tmp_path: Path) -> None:
    write(tmp_path / "run", good_run(), "trace")
    write_partial(tmp_path / "run", good_run())
    result = run("trace", "check", str(tmp_path / "run"))
    assert (result.exit_code, result.stdout) == (0, FIT)
    assert run("trace", "compare", str(tmp_path), str(tmp_path)).exit_code == 0


def test_a_partial_trace_in_a_folder_pairs_like_the_whole(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write_workflows(before, a="triage", same="billing")
    write_partial(after / "same", changing(changed("trace", "workflow_id", to="billing")))
    write_partial(after / "b", good_run())
    # A companion that is there already does not stand for itself.
    (after / "b" / "trace.retrieval.json").write_bytes(b"{}")
    (after / "other.partial.jsonl").write_bytes(b"no trace")
    pairs = pairs_of(before, after, code=2)
    codes = {name: [each["code"] for each in pair["failures"]] for name, pair in pairs.items()}
    cut = ["trace:truncated", "retrieval:truncated"]
    assert codes == {"triage: a/trace.json and b/trace.json": cut, "same/trace.json": cut}
