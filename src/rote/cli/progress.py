"""Progress of long work, drawn on stderr; nothing is drawn when nobody watches."""

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
from rote.contract import CopyProgress

# What the library calls what it is doing, in words.
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
def bar() -> Iterator[CopyProgress | None]:
    """Takes what is done, how far, and of how much; one line for each thing that is done."""
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
    """Takes how many bytes have passed since it was last told; of how many is None when unknown."""
    with _drawn(DownloadColumn(), TransferSpeedColumn()) as progress:
        if progress is None:
            yield lambda count: None
            return
        task = progress.add_task(words, total=size)
        yield lambda count: progress.advance(task, count)


@contextmanager
def count_bar(words: str) -> Iterator[Callable[[int], None]]:
    """Takes how many are done, of a number that nobody knows."""
    with _drawn(TextColumn("{task.completed:,}")) as progress:
        if progress is None:
            yield lambda done: None
            return
        task = progress.add_task(words, total=None)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def _drawn(*columns: ProgressColumn) -> Iterator[Progress | None]:
    """Draw a bar with columns behind it; None when nobody watches."""
    console = stderr()
    if not console.is_terminal:
        yield None
        return
    first = (TextColumn("{task.description}"), BarColumn())
    with Progress(*first, *columns, console=console, transient=True) as progress:
        yield progress


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """For work that cannot say how far it is."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(words):
        yield
