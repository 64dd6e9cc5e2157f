"""Baselines of traces, and the plugin once in a pytest of its own, as users run it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.testing.trace_baselines import TraceBaseline
from rote.values import canonical, fingerprint
from tests.unit.traces.traces import Change, changed, changing, good_run, recorded_run, without

CONFTEST = 'pytest_plugins = ["rote.testing.trace_baselines"]\n'
TEST = """
from pathlib import Path

def test_run(trace_baseline):
    trace_baseline.check("triage", Path("new.json").read_bytes(), Path("new.retrieval.json").read_text())
"""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a folder that holds the trace of a good run."""
    check(tmp_path / "kept", good_run("first"), is_updating=True)
    return tmp_path / "kept"


def check(
    folder: Path, made: Any, *, is_updating: bool = False, name: str = "triage", **options: Any
) -> None:
    baseline = TraceBaseline(folder, is_updating=is_updating)
    baseline.check(name, made["trace"], made["retrieval"], **options)


def refused(folder: Path, made: Any, **options: Any) -> str:
    with pytest.raises(pytest.fail.Exception) as caught:
        check(folder, made, **options)
    return str(caught.value)


def test_a_run_that_did_the_same_passes(kept: Path) -> None:
    assert {path.name for path in kept.iterdir()} == {"triage.json", "triage.retrieval.json"}
    check(kept, good_run("second"))


def test_a_run_that_did_something_else_fails_with_every_difference(kept: Path) -> None:
    made = changing(changed("trace", "events", 1, "role", to="critic"), "second")
    made["trace"]["output"]["output_type"] = "text"
    assert refused(kept, made).splitlines() == [
        "the trace triage is different",
        "event_mismatch:1:role at /events/1/role: event 1 has another role",
        "output_mismatch:output_type at /output/output_type: the output has another type",
    ]


def answering(folder: Path, run: str, answer: Any) -> tuple[Any, Path]:
    """Return a run whose first tool gives this answer, and the path of its recording."""
    place = ("trace", "events", 0, "tool_calls", 0, "tool_result_fingerprint")
    made = changing(changed(*place, to=fingerprint(answer)), run)
    recorded_run(made, [{"kind": "tool", "result": answer}, *[{"kind": "tool", "result": 0}] * 5])
    path = folder / f"{run}.jsonl"
    path.write_bytes(made["recording"])
    return made, path


def test_a_failure_shows_the_values_that_were_recorded(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first, recording = answering(tmp_path, "first", {"hits": ["a"]})
    check(kept, first, is_updating=True, recording=recording)
    assert (kept / "triage.recording.jsonl").read_bytes() == recording.read_bytes()
    second, path = answering(tmp_path, "second", {"hits": ["\u202e"]})
    words = (
        "tool_result_fingerprint_mismatch:0:0 at /events/0/tool_calls/0/tool_result_fingerprint:"
        " event 0, tool call 0 (search): the tool answered otherwise"
    )
    assert refused(kept, second, recording=str(path)).splitlines()[1:] == [
        words, '  kept: {"hits":["a"]}', "  now:  '{\"hits\":[\"\\u202e\"]}'",
    ]  # fmt: skip
    # Without one of the recordings the other is shown, without both neither.
    assert refused(kept, second).splitlines()[1:] == [
        words,
        '  kept: {"hits":["a"]}',
        "  now:  unknown",
    ]
    check(kept, first, is_updating=True)
    assert not (kept / "triage.recording.jsonl").exists()
    assert refused(kept, second).splitlines()[1:] == [words]


def test_a_recording_of_another_run_is_no_recording_of_this_one(tmp_path: Path) -> None:
    made, path = answering(tmp_path, "first", 1)
    check(tmp_path / "kept", made, is_updating=True, recording=path)
    path.write_bytes(b"{}")
    with pytest.raises(InvalidInput, match="is not the recording of its trace"):
        check(tmp_path / "kept", made, recording=path)


def test_the_full_level_compares_more(kept: Path) -> None:
    made = changing(changed("trace", "metadata", "model_replies", to=["a" * 64]), "second")
    check(kept, made)
    assert "model_reply_mismatch:0" in refused(kept, made, level="full")


def test_a_run_of_something_else_fails(kept: Path) -> None:
    made = changing(changed("trace", "workflow_id", to="other"))
    assert refused(kept, made).startswith("the trace triage is ineligible")


def test_a_run_from_another_history_is_told_how_to_have_the_same(kept: Path) -> None:
    made = changing(changed("trace", "memory_snapshot_id", to="main:1:other"))
    *_, advice = refused(kept, made).splitlines()
    assert "rote.open(clock=FixedClock(), ids=SeededIds(7))" in advice
    assert "docs/traces.md" in advice
    other = changing(changed("trace", "workflow_id", to="other"))
    assert "rote.open" not in refused(kept, other)


def test_a_long_list_of_differences_is_cut(kept: Path) -> None:
    made = good_run("second")
    made["trace"]["events"] = [{} for _ in range(10)]
    lines = refused(kept, made).splitlines()
    assert (len(lines), lines[-1].startswith("and ")) == (22, True)


def test_without_a_baseline_it_fails_and_says_what_to_do(tmp_path: Path) -> None:
    assert "keep one with --update-traces" in refused(tmp_path, good_run())


@pytest.mark.parametrize(
    "change",
    [without("trace", "output"), changed("trace", "visibility_mode", to="live_read_write")],
)
def test_what_is_not_fit_is_not_kept(tmp_path: Path, change: Change) -> None:
    said = refused(tmp_path / "kept", changing(change), is_updating=True)
    assert said.startswith("the trace triage is invalid")
    assert not (tmp_path / "kept").exists()


def test_keeping_again_leaves_no_companion_of_before(kept: Path) -> None:
    made = good_run()
    made["retrieval"] = None
    for event in made["trace"]["events"]:
        event["retrieval_event_ids"] = []
    check(kept, made, is_updating=True)
    assert [path.name for path in kept.iterdir()] == ["triage.json"]
    check(kept, made)


@pytest.mark.parametrize("name", [None, 5, b"a", ["a"]])
def test_a_name_that_is_no_text_is_told(tmp_path: Path, name: Any) -> None:
    assert "no name for a trace" in refused(tmp_path, good_run(), name=name)


def test_a_name_cannot_be_that_of_the_retrieval_trace_of_another(kept: Path) -> None:
    """The trace was kept over the retrieval trace."""
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    said = refused(kept, good_run(), is_updating=True, name="triage.retrieval")
    assert "does not end in .retrieval" in said
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    check(kept, good_run(), is_updating=True, name="triage.retrieval.1")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "a\n", "x" * 101])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    said = refused(tmp_path / "kept", good_run(), is_updating=True, name=name)
    assert "no name for a trace" in said
    assert list(tmp_path.iterdir()) == []


def test_the_folder_begins_at_the_root_of_the_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "test_folder.py").write_text(
        "def test_folder(trace_baseline):\n"
        f"    assert str(trace_baseline.folder) == {str(tmp_path / 'kept')!r}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--trace-baselines", "kept"],
        cwd=tmp_path / "below", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_plugin_keeps_a_trace_and_compares_with_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_run.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run_pytest(made: Any, *options: str) -> tuple[int, str]:
        (tmp_path / "new.json").write_bytes(canonical(made["trace"]))
        (tmp_path / "new.retrieval.json").write_bytes(canonical(made["retrieval"]))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "--trace-baselines", "kept", *options],
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    assert run_pytest(good_run("first"), "--update-traces")[0] == 0
    assert (tmp_path / "kept" / "triage.json").exists()
    code, said = run_pytest(changing(changed("trace", "events", 1, "role", to="x"), "second"))
    assert (code, "the trace triage is different" in said) == (1, True)
