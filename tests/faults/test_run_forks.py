"""A process that is forked in the middle of a run: the run goes on in the parent, and only there."""

import os
from pathlib import Path

import pytest

import rote
from rote.errors import Unavailable
from rote.recordings.drafts import FileDraft
from tests.faults.children import LEFT, NAME, RIGHT
from tests.faults.run_children import MODES
from tests.faults.test_run_kills import PLACES

TOOLS = [rote.ToolProfile("tool", "1")]
EVENT = {"role": "r", "interceptor": "i", "decision_type": "d"}


@pytest.fixture(params=PLACES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return PLACES[request.param](tmp_path)


@pytest.mark.parametrize("how", ["end", "exception", "exit", "event", "write"])
def test_a_fork_of_a_run_takes_nothing_from_it(url: str, tmp_path: Path, how: str) -> None:
    """The end of the run in the child deleted the files of the traces, and the parent's run was discarded."""
    store = rote.open(url, modes=MODES, traces=tmp_path / "traces", durability="os")
    run = store.space(NAME).run(
        workflow_id="w", model=None, policy_set_id="p", mode="buffered_write", tools=TOOLS,
        record=tmp_path / "calls",
    )  # fmt: skip
    child = 0
    with run:
        run.set(LEFT, 1)
        with run.event(**EVENT) as event:
            event.call("tool", lambda: 1)
        child = os.fork()
        if child == 0:
            os._exit(_in_child(run, how))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with run.event(**EVENT) as event:
            event.call("tool", lambda: 2)
        run.set(RIGHT, 1)
    assert run.commit is not None
    assert len(run.commit.facts) == 2
    events = run.trace["events"]
    assert type(events) is list
    assert len(events) == 2
    assert (tmp_path / "calls").read_bytes().count(b"\n") == 4
    assert list(tmp_path.rglob("*.draft")) == []
    store.close()


def _in_child(run: rote.Run, how: str) -> int:
    """Use a run in a forked child; return 0 when that is refused, or does nothing."""
    try:
        if how == "event":
            with run.event(**EVENT) as event:
                event.call("tool", lambda: 3)
        elif how == "write":
            run.set(RIGHT, 2)
        else:
            error = {"end": None, "exception": ZeroDivisionError(), "exit": SystemExit()}[how]
            run.__exit__(None, error, None)
            return 0 if error is not None else 1
    except Unavailable:
        return 0
    return 1


def test_a_fork_that_reads_the_trace_takes_no_line_from_who_reads_it_in_the_parent(
    tmp_path: Path,
) -> None:
    """The place in the file was shared: the end of the run in the parent left events out, while a fork
    read run.trace."""
    path = tmp_path / "lines"
    draft = FileDraft(path, durable=False, partial=path)
    expected = [b"%d" % number * 100 + b"\n" for number in range(5_000)]
    draft.write(b"".join(expected))
    lines = draft.lines()
    first = next(lines)
    child = os.fork()
    if child == 0:
        os._exit(0 if list(draft.lines()) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [first, *lines] == expected
    draft.drop()


@pytest.mark.parametrize("how", ["leaves", "raises"])
def test_a_fork_that_leaves_an_event_of_its_parent_writes_nothing(tmp_path: Path, how: str) -> None:
    """The end of the event in the child was a line of the partial trace, and the parent wrote it again."""
    with rote.open(":memory:", modes=MODES, traces=tmp_path / "traces") as store:
        run = store.space(NAME).run(
            workflow_id="w", model=None, policy_set_id="p", mode="buffered_write", tools=TOOLS,
            record=True,
        )  # fmt: skip
        with run:
            with run.event(**EVENT) as event:
                event.call("tool", lambda: 1)
                child = os.fork()
                if child == 0:
                    error = None if how == "leaves" else ZeroDivisionError()
                    event.__exit__(None, error, None)
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                [partial] = (tmp_path / "traces").rglob("trace.partial.jsonl")
                assert partial.read_bytes().count(b"\n") == 1
            event_count = len(run.trace["events"])
        assert event_count == len(run.trace["events"]) == 1
        assert rote.check_trace(run.trace, run.retrieval_trace).ok
