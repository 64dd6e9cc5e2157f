"""A disk that is full while the files of a run are written, from any byte on, and a folder that is gone.

The error is typed, nothing half is under a final name and nothing is applied. A block that raised has
its own exception, and a trace can be read as far as it came.
"""

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput, RoteError, Unavailable
from rote.recordings.recordings import Replay
from rote.values import decode
from tests.faults.children import LEFT, NAME
from tests.faults.run_children import EVENT, MODES, TOLD
from tests.lanes import examples

STEP = examples(211, 7)  # bytes between two limits


@pytest.fixture
def store(tmp_path: Path) -> Iterator[rote.Store]:
    """Return a store in memory, so that only the files of runs meet the limit."""
    with rote.open(":memory:", modes=MODES, traces=tmp_path / "traces") as opened:
        yield opened


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Let no file grow beyond a size; the system's error is the same as for a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def work(run: rote.Run, how: str) -> None:
    run.set(LEFT, 1)
    for number in range(4):
        with suppress(*[Unavailable] if how == "goes on" else []), run.event(**EVENT) as event:
            event.call("search", lambda query: "x" * 100, query=number)
            event.model(lambda: "hello")
    if how == "raises":
        raise ZeroDivisionError


def check_files(folder: Path) -> set[str]:
    """Check that what has a final name is whole; return the names."""
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    assert not [name for name in names if name.startswith(".rote")]
    assert ("trace.json" in names) is ("trace.retrieval.json" in names)
    if "trace.json" in names:
        trace, retrieval = (
            decode((folder / name).read_bytes()) for name in ("trace.json", "trace.retrieval.json")
        )
        codes = {failure.code for failure in rote.check_trace(trace, retrieval).failures}
        assert codes <= {"trace:model"}
        digest = trace["metadata"]["recording"]
        assert (digest is not None) is ("recording.jsonl" in names)
        assert digest is not None or trace["metadata"]["discarded"] is True
    assert "recording.jsonl.partial" not in names
    if "recording.jsonl" in names:
        assert digest == sha256((folder / "recording.jsonl").read_bytes()).hexdigest()
        Replay(folder / "recording.jsonl").discard()
    return names


@pytest.mark.parametrize("how", ["ends", "raises", "goes on"])
def test_a_disk_that_is_full_from_any_byte_on_leaves_nothing_half(
    how: str, store: rote.Store, tmp_path: Path
) -> None:
    space, limit, seen, outcomes = store.space(NAME), 0, set[str](), set[bool]()
    while "recording.jsonl" not in seen:
        limit += STEP
        version, raised = space.version, None
        run = space.run(**TOLD)
        with files_end_at(limit):
            try:
                with run:
                    work(run, how)
            except (RoteError, ZeroDivisionError) as error:
                raised = error
        seen = check_files(tmp_path / "traces" / run.run_id)
        if "recording.jsonl" in seen:
            assert type(raised) is (ZeroDivisionError if how == "raises" else type(None))
            continue
        assert isinstance(raised, Unavailable | ZeroDivisionError)
        assert space.version == version
        if not any(record.run_id == run.run_id for record in store.runs()):
            assert seen == set()  # it never began
            continue
        is_cut = run.trace["metadata"]["truncated"]
        expected = {"trace.partial.jsonl"} if is_cut else {"trace.json", "trace.retrieval.json"}
        assert (run.discarded, seen) == (True, expected)
        outcomes.add(is_cut)
        if isinstance(raised, ZeroDivisionError):
            assert how == "raises"
            missing = "not completed: cannot write" if is_cut else "no recording: cannot write"
            assert any(missing in note for note in raised.__notes__)
    assert limit > 2_000
    assert outcomes == {True, False}  # also when only the recording had no room


@pytest.mark.parametrize("how", ["ends", "raises"])
def test_a_folder_that_is_gone_applies_nothing_and_hides_no_exception(
    how: str, store: rote.Store, tmp_path: Path
) -> None:
    expected: Any = ZeroDivisionError if how == "raises" else InvalidInput
    run = store.space(NAME).run(**TOLD)
    with pytest.raises(expected) as caught, run:
        shutil.rmtree(tmp_path / "traces")
        work(run, how)
    assert (run.discarded, store.space(NAME).version) == (True, 0)
    assert list(tmp_path.rglob("*")) == []
    assert how == "ends" or "not completed" in caught.value.__notes__[0]
