"""Traces as the command line names them: by a path, or by the id of a run, whole or how it begins."""

from pathlib import Path

from rote.bridges.folders import shown_name
from rote.bridges.run_files import find_trace
from rote.errors import InvalidInput, NotFound
from rote.opening.engines import locate
from rote.opening.opening import TRACES_NAME
from rote.values import check_run_id


def trace_named(named: Path, store: str) -> Path:
    """Return the path that a TRACE names: itself when it exists, else the file of the trace of the run
    with that id beside the store. NotFound when there is neither, InvalidInput for several runs."""
    if named.exists():
        return named
    name = shown_name(str(named))
    try:
        check_run_id(name)
    except InvalidInput:
        raise NotFound(f"there is no {name}; rote runs show ID names the files of a run") from None
    traces = traces_beside(store)
    if traces is None:
        raise NotFound(
            f"there is no {name}; the traces of this store are not beside it: name a file"
        )
    try:
        return find_trace(traces, name)
    except NotFound as error:
        error.args = (f"there is no file {name}, and {error}; --store names the store of a run",)
        raise


def traces_beside(store: str) -> Path | None:
    """Return the folder of traces beside a store; None for a store without a file."""
    path = locate(store).path
    return None if path is None else path.with_name(TRACES_NAME)
