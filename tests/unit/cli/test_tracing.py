import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rote
from rote import check_trace, compare_traces
from rote.bridges import trace_folders
from rote.bridges.trace_keeping import find_old_runs, remove_run
from rote.values import canonical, decode
from tests.unit.cli.command import error_of, run
from tests.unit.cli.test_outcome import on_terminal
from tests.unit.traces.traces import Change, changed, changing, good_run, without

DAY = 86_400


def write(folder: Path, made: Any, name: str = "x") -> Path:
    """Write a trace and its companion to a folder, and its recording if it has one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(canonical(made["trace"]))
    if made["retrieval"] is not None:
        (folder / f"{name}.retrieval.json").write_bytes(canonical(made["retrieval"]))
    if "recording" in made:
        (folder / "recording.jsonl").write_bytes(made["recording"])
    return folder / f"{name}.json"


# -- check --------------------------------------------------------------------------------------------


def test_a_good_trace_is_fit_with_the_companion_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path, good_run())
    result = run("trace", "check", str(path))
    assert (result.exit_code, result.stdout) == (0, "fit: the trace is complete\n")


def test_a_retrieval_trace_may_lie_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path, good_run())
    elsewhere = (tmp_path / "x.retrieval.json").rename(tmp_path / "other")
    assert run("trace", "check", str(path)).exit_code == 1
    assert run("trace", "check", str(path), "--retrieval", str(elsewhere)).exit_code == 0


def test_the_folder_of_a_run_stands_for_its_trace(tmp_path: Path) -> None:
    write(tmp_path / "monday", good_run(), "trace")
    result = run("trace", "check", str(tmp_path / "monday"))
    assert (result.exit_code, result.stdout) == (0, "fit: the trace is complete\n")


def test_another_folder_is_no_trace(tmp_path: Path) -> None:
    write(tmp_path, good_run())
    said = error_of(run("trace", "check", str(tmp_path)))
    assert said.startswith(f"error: {tmp_path} is a folder without a trace.json; name the file")


def test_what_is_not_fit_is_told_first_in_words_then_all(tmp_path: Path) -> None:
    made = changing(changed("trace", "events", 1, "role", to=5))
    del made["trace"]["policy_set_id"]
    result = run("trace", "check", str(write(tmp_path, made)))
    assert result.exit_code == 1
    first, *rows = result.stdout.splitlines()
    assert first == (
        "not fit: 2 failures; the first: /policy_set_id is missing;"
        " it must be a text that is not empty"
    )
    assert rows == [
        'trace:missing\t/policy_set_id\tnull\t"a text that is not empty"',
        'trace:type\t/events/1/role\t5\t"a text that is not empty"',
    ]


def test_json_is_the_report(tmp_path: Path) -> None:
    made = changing(without("trace", "output"))
    result = run("trace", "check", str(write(tmp_path, made)), "--json")
    assert result.exit_code == 1
    assert decode(result.stdout) == check_trace(made["trace"], made["retrieval"]).to_dict()


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a":1,"a":1}'])
def test_a_file_that_is_no_json_cannot_be_read_and_is_named(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, good_run())
    (tmp_path / "x.retrieval.json").write_bytes(data)
    assert "x.retrieval.json: " in error_of(run("trace", "check", str(path)))
    assert "x.retrieval.json: " in error_of(run("trace", "compare", str(path), str(path)))
    assert "nothing" in error_of(run("trace", "check", str(tmp_path / "nothing")))
    assert error_of(run("trace", "check", str(tmp_path)))


def test_a_larger_cap_may_be_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, good_run())
    size = str(path.stat().st_size)
    assert run("trace", "check", str(path), "--max-bytes", size).exit_code == 0
    result = run("trace", "check", str(path), "--max-bytes", str(int(size) - 1))
    assert (result.exit_code, "trace:size" in result.stdout) == (1, True)


# -- compare ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda made: None, 0, "equivalent\n"),
        (changed("trace", "events", 1, "role", to="critic"), 1,
         "different: 1 difference; the first: event 1 has another role\n"
         'event_mismatch:1:role\t/events/1/role\t"planner"\t"critic"\n'),
        (changed("trace", "workflow_id", to="w"), 2,
         "ineligible: 1 reason; the first: the runs differ in workflow_id, so they are not the same"
         ' run twice\nenvelope_mismatch:workflow_id\t/workflow_id\t"triage"\t"w"\n'),
    ],
)  # fmt: skip
def test_two_files_are_compared(tmp_path: Path, change: Change, code: int, said: str) -> None:
    runs = good_run("left"), changing(change, "right")
    paths = [str(write(tmp_path / name, made)) for name, made in zip("lr", runs, strict=True)]
    result = run("trace", "compare", *paths)
    assert (result.exit_code, result.stdout) == (code, said)
    report = compare_traces(
        runs[0]["trace"], runs[1]["trace"],
        left_retrieval=runs[0]["retrieval"], right_retrieval=runs[1]["retrieval"],
    )  # fmt: skip
    told = run("trace", "compare", *paths, "--json")
    assert (told.exit_code, decode(told.stdout)) == (code, report.to_dict())


def test_a_code_stays_whole_on_a_narrow_terminal_and_hashes_are_short(tmp_path: Path) -> None:
    place = ("trace", "events", 1, "tool_calls", 0, "tool_result_fingerprint")
    write(tmp_path, changing(changed(*place, to="a" * 64)), "left")
    write(tmp_path, changing(changed(*place, to="b" * 64)), "right")
    shown = on_terminal(
        "trace", "compare", "left.json", "right.json", cwd=tmp_path, expected=1, COLUMNS="80"
    )
    assert "tool_result_fingerprint_mismatch:1:0" in shown
    assert "a" * 13 not in shown
    result = run("trace", "compare", str(tmp_path / "left.json"), str(tmp_path / "right.json"))
    assert result.stdout.endswith(f"\t{'a' * 12}…\t{'b' * 12}…\n")


def test_retrieval_traces_may_be_named_for_each_side(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, good_run(name)) for name in ("left", "right")]
    options = []
    for path in paths:
        moved = path.with_name("x.retrieval.json").rename(path.with_name("moved"))
        options += [f"--{path.parent.name}-retrieval", str(moved)]
    assert run("trace", "compare", *map(str, paths)).exit_code == 2
    assert run("trace", "compare", *map(str, paths), *options).exit_code == 0


def test_folders_are_paired_by_name_and_the_worst_decides(tmp_path: Path) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    for name in ("a", "b", "deep/c"):
        place = Path(name)
        write(left / place.parent, good_run("1"), place.name)
        write(right / place.parent, good_run("2"), place.name)
    (left / "notes.txt").write_text("no trace")
    (left / ".hidden.json").write_text("no trace")
    command = ("trace", "compare", str(left), str(right))
    result = run(*command)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "equivalent a.json", "equivalent b.json", "equivalent deep/c.json",
        "3 pairs: 3 equivalent, 0 different, 0 ineligible",
    ]  # fmt: skip
    write(right, changing(changed("trace", "events", 0, "role", to="x"), "2"), "b")
    assert run(*command).exit_code == 1
    write(right, good_run("2"), "alone")
    result = run(*command, "--json")
    assert result.exit_code == 2
    told: Any = decode(result.stdout)
    assert (told["ok"], told["status"]) == (False, "ineligible")
    assert {pair["name"]: pair["status"] for pair in told["pairs"]} == {
        "a.json": "equivalent", "alone.json": "ineligible", "b.json": "different",
        "deep/c.json": "equivalent",
    }  # fmt: skip
    assert told["pairs"][1]["failures"][0]["code"] == "unpaired"


def test_a_file_in_a_folder_that_cannot_be_read_is_ineligible_and_the_rest_is_compared(
    tmp_path: Path,
) -> None:
    for side in ("left", "right"):
        for name in ("a", "b"):
            write(tmp_path / side, good_run(side), name)
    (tmp_path / "right" / "a.json").write_text("{")
    result = run("trace", "compare", str(tmp_path / "left"), str(tmp_path / "right"))
    assert result.exit_code == 2
    assert "unreadable" in result.stdout
    assert "equivalent b.json" in result.stdout


def test_folders_without_traces_do_not_pass(tmp_path: Path) -> None:
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
    command = ("trace", "compare", str(tmp_path / "left"), str(tmp_path / "right"))
    assert "there are no traces" in error_of(run(*command))
    # A retrieval trace without its trace is not skipped either.
    for side in ("left", "right"):
        write(tmp_path / side, good_run()).unlink()
    assert run(*command).exit_code == 2


def test_a_file_and_a_folder_that_is_no_run_cannot_be_compared(tmp_path: Path) -> None:
    path = write(tmp_path / "a", good_run())
    assert "two folders" in error_of(run("trace", "compare", str(path), str(tmp_path)))
    folder = write(tmp_path / "run", good_run(), "trace").parent
    assert run("trace", "compare", str(path), str(folder)).exit_code == 0
    both = ("trace", "compare", str(tmp_path), str(tmp_path), "--left-retrieval", str(path))
    assert "by their names" in error_of(run(*both))


def test_names_and_depth_in_a_folder_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "/".join("abcdefghij"), good_run())
    assert "the limit is" in error_of(run("trace", "compare", str(tmp_path), str(tmp_path)))
    monkeypatch.setattr(trace_folders, "TRACE_NAMES_MAX", 1)
    write(tmp_path / "flat", good_run())
    flat = str(tmp_path / "flat")
    assert "the limit is" in error_of(run("trace", "compare", flat, flat))


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_linked_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


# A pipe that nobody writes to would be read for ever.
NO_FILES = [make_pipe, make_dangling, make_loop, make_linked_pipe]


@pytest.mark.parametrize("make", [*NO_FILES, Path.mkdir])
def test_a_companion_that_is_no_file_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """Such a companion passed for a missing one, also where the trace needs none."""
    made = good_run()
    for event in made["trace"]["events"]:
        event["retrieval_event_ids"] = []
    path = write(tmp_path, {**made, "retrieval": None})
    assert run("trace", "compare", str(path), str(path)).exit_code == 0
    make(tmp_path / "x.retrieval.json")
    assert "x.retrieval.json: " in error_of(run("trace", "check", str(path)))
    assert "x.retrieval.json: " in error_of(run("trace", "compare", str(path), str(path)))
    folders = run("trace", "compare", str(tmp_path), str(tmp_path))
    assert folders.exit_code == 2
    assert "unreadable" in folders.stdout


@pytest.mark.parametrize("make", NO_FILES)
@pytest.mark.parametrize("sides", [("left",), ("right",), ("left", "right")])
def test_what_is_called_like_a_trace_in_a_folder_is_never_skipped(
    tmp_path: Path, make: Callable[[Path], None], sides: tuple[str, ...]
) -> None:
    """A gate passed although a trace was never compared."""
    for side in ("left", "right"):
        write(tmp_path / side, good_run(side), "good")
    for side in sides:
        make(tmp_path / side / "x.json")
    result = run("trace", "compare", str(tmp_path / "left"), str(tmp_path / "right"), "--json")
    assert result.exit_code == 2
    told: Any = decode(result.stdout)
    assert [(pair["name"], pair["status"]) for pair in told["pairs"]] == [
        ("good.json", "equivalent"), ("x.json", "ineligible"),
    ]  # fmt: skip
    code = "unreadable" if len(sides) == 2 else "unpaired"
    assert [failure["code"] for failure in told["pairs"][1]["failures"]] == [code]


def test_a_linked_trace_is_a_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "left", good_run("left"))
    (tmp_path / "right").mkdir()
    for name in ("x.json", "x.retrieval.json"):
        (tmp_path / "right" / name).symlink_to(path.with_name(name))
    result = run("trace", "compare", str(tmp_path / "left"), str(tmp_path / "right"))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "equivalent x.json")


@pytest.mark.parametrize("sides", [("left",), ("right",), ("left", "right")])
@pytest.mark.parametrize("name", ["more", "more.json"])
def test_a_linked_folder_is_told_and_not_followed(
    tmp_path: Path, sides: tuple[str, ...], name: str
) -> None:
    """The content of the linked folder was left out, and the rest passed."""
    write(tmp_path / "elsewhere", good_run())
    for side in ("left", "right"):
        write(tmp_path / side, good_run(side), "good")
        (tmp_path / side / ".hidden").symlink_to(tmp_path / "elsewhere")
    command = ("trace", "compare", str(tmp_path / "left"), str(tmp_path / "right"))
    assert run(*command).exit_code == 0
    for side in sides:
        (tmp_path / side / name).symlink_to(tmp_path / "elsewhere")
    result = run(*command, "--json")
    assert result.exit_code == 2
    told: Any = decode(result.stdout)
    assert [pair["name"] for pair in told["pairs"]] == ["good.json", name]
    [failure] = told["pairs"][1]["failures"]
    assert failure["code"] == "unreadable"
    assert failure["message"] == f"{name} is a link to a folder; linked folders are not followed"


@pytest.mark.parametrize("other", ["x.json", "."])
def test_what_is_not_there_is_named_with_what_to_do(tmp_path: Path, other: str) -> None:
    write(tmp_path, good_run())
    there, gone = str(tmp_path / other), str(tmp_path / "gone")
    why = "rote runs show ID names the files of a run\n"
    for paths in ((there, gone), (gone, there)):
        said = error_of(run("trace", "compare", *paths))
        assert said == f"error: there is no {gone}; {why}"


# -- prune --------------------------------------------------------------------------------------------


def write_run(folder: Path, run_id: str, *, days: float, mode: str = "read_only") -> Path:
    place = folder / run_id
    write(place, changing(changed("trace", "visibility_mode", to=mode)), "trace")
    age(place, days)
    return place


def age(place: Path, days: float) -> None:
    then = time.time() - days * DAY
    for path in place.iterdir():
        os.utime(path, (then, then), follow_symlinks=False)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "observability"
    write_run(folder, "old", days=14.01)
    write_run(folder, "young", days=13.99)
    write_run(folder, "live", days=2, mode="live_read_write")
    write_run(folder, "live-old", days=20, mode="live_read_write")
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def pruned(folder: Path, *options: str) -> Any:
    result = run("trace", "prune", str(folder), *options, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return decode(result.stdout)


def test_what_is_older_than_14_days_goes(traces: Path) -> None:
    assert pruned(traces)["runs"] == ["live-old", "old"]
    assert names(traces) == {"young", "live"}


@pytest.mark.parametrize("days", ["0", "1", "13"])
def test_traces_of_deterministic_runs_stay_for_14_days_whatever_is_asked(
    traces: Path, days: str
) -> None:
    pruned(traces, "--days", days, "--yes")
    assert "young" in names(traces)
    assert ("live" in names(traces)) is (days == "13")


def test_more_days_keep_more(traces: Path) -> None:
    assert pruned(traces, "--days", "15")["runs"] == ["live-old"]


def test_a_dry_run_removes_nothing_and_says_what_would_go(traces: Path) -> None:
    before = names(traces)
    result = run("trace", "prune", str(traces), "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["live-old", "old"]
    assert result.stdout.splitlines()[2].startswith("the traces of 2 runs (")
    assert result.stdout.endswith("would go\n")
    assert names(traces) == before


_LIVE = b'"visibility_mode":"live_read_write"'


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b'{"visibility_mode":5}', b"{}", b"[]",
        # These ended the whole command, or passed for something else.
        b'{"visibility_mode":"\xff"}', b"{" + _LIVE + b',"x":' + b"[" * 100_000,
        b'{"visibility_mode":"read_only",' + _LIVE + b"}", b'{"x":NaN,' + _LIVE + b"}",
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_read_stays_for_14_days_too(traces: Path, data: bytes) -> None:
    (traces / "live" / "trace.json").write_bytes(data)
    age(traces / "live", 2)
    pruned(traces, "--days", "0")
    assert "live" in names(traces)


def test_one_young_file_keeps_its_run(traces: Path) -> None:
    (traces / "old" / ".rote-abc.draft").write_bytes(b"")
    assert pruned(traces)["runs"] == ["live-old"]
    age(traces / "old", 15)
    assert pruned(traces)["runs"] == ["old"]
    assert "old" not in names(traces)


def test_all_that_a_run_has_left_goes_with_it(traces: Path) -> None:
    """Also of a run that was killed, which left no trace."""
    for name in ("recording.jsonl", "recording.jsonl.partial", "trace.partial.jsonl"):
        for run_id in ("old", "killed"):
            (traces / run_id).mkdir(exist_ok=True)
            (traces / run_id / name).write_bytes(b"x")
            age(traces / run_id, 15)
    assert pruned(traces)["runs"] == ["killed", "live-old", "old"]
    assert names(traces) == {"young", "live"}


def test_a_killed_run_stays_for_14_days(traces: Path) -> None:
    (traces / "killed").mkdir()
    (traces / "killed" / "trace.partial.jsonl").write_bytes(b"x")
    age(traces / "killed", 13)
    pruned(traces, "--days", "0")
    assert "killed" in names(traces)


def test_a_run_that_goes_on_is_not_pruned_however_long_it_was_silent(tmp_path: Path) -> None:
    with rote.open(":memory:", traces=tmp_path) as store:
        with store.space("s").run(workflow_id="w", model=None, policy_set_id="p") as going:
            age(tmp_path / going.run_id, 90)
            assert pruned(tmp_path)["runs"] == []
            assert names(tmp_path) == {going.run_id}
        age(tmp_path / going.run_id, 90)
        assert pruned(tmp_path)["runs"] == [going.run_id]


def test_what_was_written_after_it_was_looked_for_stays(traces: Path) -> None:
    """On a terminal the question in between may wait for any time."""
    found = find_old_runs(traces, days=14, now=time.time())
    (traces / "old" / "trace.json").write_bytes(b"new")
    other = write_run(traces, "other", days=20)
    (other / "trace.json").replace(traces / "live-old" / "trace.json")
    for each in found:
        remove_run(traces, each)
    assert names(traces / "old") == names(traces / "live-old") == {"trace.json"}


def test_what_somebody_else_removed_is_no_error(traces: Path) -> None:
    found = find_old_runs(traces, days=14, now=time.time())
    for each in (*found, *found):
        remove_run(traces, each)
    assert names(traces) == {"young", "live"}


def test_names_that_are_not_utf8_can_be_told(tmp_path: Path) -> None:
    """The answer could not be written: after everything was removed, or instead of a comparison."""
    odd = os.fsdecode(b"\xff")
    write_run(tmp_path, odd, days=20)
    left, right = str(tmp_path), str(tmp_path / odd)
    compared = run("trace", "compare", left, right, "--json")
    assert compared.exit_code == 0
    told: Any = decode(compared.stdout)
    [pair] = told["pairs"]
    assert pair["name"] == "triage: \\xff/trace.json and trace.json"
    assert (pair["left"], pair["right"]) == ("\\xff/trace.json", "trace.json")
    assert pruned(tmp_path)["runs"] == ["\\xff"]


def test_only_what_runs_write_is_removed(traces: Path, tmp_path: Path) -> None:
    (traces / "old" / "notes.txt").write_text("mine")
    outside = write_run(tmp_path / "outside", "kept", days=90)
    (traces / "link").symlink_to(outside)
    (traces / "file").write_text("mine")
    (traces / "empty").mkdir()
    linked = traces / "linked"
    linked.mkdir()
    (linked / "trace.json").symlink_to(outside / "trace.json")
    age(linked, 90)
    pruned(traces)
    assert names(traces / "old") == {"notes.txt"}
    assert names(outside) == {"trace.json", "trace.retrieval.json"}
    assert {"link", "file", "empty", "linked"} <= names(traces)


def test_on_a_terminal_it_asks_first(traces: Path, tmp_path: Path) -> None:
    refused = on_terminal("trace", "prune", cwd=tmp_path, typed="n\n", expected=1)
    assert "remove the traces of 2 runs" in refused
    assert "nothing was removed" in refused
    assert "old" in names(traces)
    assert "removed" in on_terminal("trace", "prune", cwd=tmp_path, typed="y\n")
    assert "old" not in names(traces)
    assert "for good?" not in on_terminal("trace", "prune", cwd=tmp_path)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert "nowhere" in error_of(run("trace", "prune", str(tmp_path / "nowhere")))
