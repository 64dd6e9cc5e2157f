from pathlib import Path

import pytest

from rote.cli.run_traces import trace_named, traces_beside
from rote.errors import InvalidInput, NotFound


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return a store that need not be there, with the folders of four runs beside it."""
    for run_id, name in [
        ("monday", "trace.json"),
        ("monday", "trace.partial.jsonl"),
        ("mond", "trace.json"),
        ("morning", "trace.partial.jsonl"),
        ("empty", "recording.jsonl"),
    ]:
        folder = tmp_path / "observability" / run_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    (tmp_path / "observability" / "note.txt").write_text("")
    (tmp_path / "observability" / "unbegun").mkdir()
    (tmp_path / "observability" / "unbegun" / "trace.partial.jsonl").write_text("")
    return str(tmp_path / "rote.db")


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("monday", "monday/trace.json"),
        ("mond", "mond/trace.json"),
        ("monda", "monday/trace.json"),
        ("mor", "morning/trace.partial.jsonl"),
    ],
)
def test_a_run_names_its_trace(store: str, named: str, found: str) -> None:
    traces = traces_beside(store)
    assert traces is not None
    assert trace_named(Path(named), store) == traces / found


def test_a_path_that_exists_comes_before_a_run(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("monday").mkdir()
    assert trace_named(Path("monday"), store) == Path("monday")


@pytest.mark.parametrize(
    ("named", "kind", "said"),
    [
        ("mo", InvalidInput, "3 runs in .* begin with mo; there are mond, monday, morning$"),
        ("note", NotFound, "no file note, and no run in .* begins with note; --store names"),
        ("empty", InvalidInput, r"empty is a folder without a trace\.json; name the file"),
        ("unbegun", InvalidInput, r"unbegun is a folder without a trace\.json; name the file"),
        ("x/y", NotFound, "there is no x/y; rote runs show ID names the files of a run$"),
        ("a b", NotFound, "there is no a b; rote runs show ID names the files of a run$"),
    ],
)
def test_what_names_no_trace_is_told(
    store: str, named: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        trace_named(Path(named), store)


def test_a_store_without_traces_beside_it_has_no_runs_to_name(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no run in .* begins with monday"):
        trace_named(Path("monday"), str(tmp_path / "rote.db"))
    with pytest.raises(NotFound, match="there is no monday; the traces of this store are not"):
        trace_named(Path("monday"), "postgresql://localhost/rote")
