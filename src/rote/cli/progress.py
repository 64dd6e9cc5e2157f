"""Progress of long work, drawn on stderr when that is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from rote.cli.output import stderr
from rote.contract import Tell

# The names of phases in the library, and the words that people see.
_PHASES = {
    "blobs": "copying blobs",
    "copying": "copying commits",
    "dropping": "dropping what nothing needs",
    "foundation": "copying what was left",
    "indexing": "indexing commits",
    "keeping": "looking for what is needed",
    "reading": "reading commits",
    "scrubbing": "writing the files anew",
    "thinning": "looking at entities",
    "verifying": "verifying commits and blobs",
}


@contextmanager
def bar() -> Iterator[Tell | None]:
    """Draw a line for each phase; yield the function that takes phase, done and total."""
    with _drawn(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        if progress is None:
            yield None
            return
        tasks = {}

        def advance(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(_PHASES[phase], total=total)
            progress.update(tasks[phase], completed=done, total=total)

        yield advance


@contextmanager
def byte_bar(words: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """Draw bytes; yield the function that takes how many more have passed. `size` may be unknown."""
    with _drawn(DownloadColumn(), TransferSpeedColumn()) as progress:
        if progress is None:
            yield lambda count: None
            return
        task = progress.add_task(words, total=size)
        yield lambda count: progress.advance(task, count)


@contextmanager
def count_bar(words: str) -> Iterator[Callable[[int], None]]:
    """Draw a count without a total; yield the function that takes how many are done."""
    with _drawn(TextColumn("{task.completed:,}")) as progress:
        if progress is None:
            yield lambda done: None
            return
        task = progress.add_task(words, total=None)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def _drawn(*columns: ProgressColumn) -> Iterator[Progress | None]:
    """Draw bars with columns behind them; yield None when stderr is no terminal."""
    console = stderr()
    if not console.is_terminal:
        yield None
        return
    first = (TextColumn("{task.description}"), BarColumn())
    with Progress(*first, *columns, console=console, transient=True) as progress:
        yield progress


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """Draw a spinner, for work that cannot say how far it is."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(words):
        yield
