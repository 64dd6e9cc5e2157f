"""Progress of long work, drawn on stderr; nothing is drawn when nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from rote.cli.output import stderr
from rote.contract import Tell

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
def bar() -> Iterator[Tell | None]:
    """Takes what is done, how far, and of how much; one line for each thing that is done."""
    console = stderr()
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks = {}

        def advance(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(_PHASES[phase], total=total)
            progress.update(tasks[phase], completed=done, total=total)

        yield advance


@contextmanager
def byte_bar(words: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """Takes how many bytes have passed since it was last told; of how many is None when unknown."""
    console = stderr()
    if not console.is_terminal:
        yield lambda count: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(words, total=size)
        yield lambda count: progress.advance(task, count)


@contextmanager
def count_bar(words: str) -> Iterator[Callable[[int], None]]:
    """Takes how many are done, of a number that nobody knows."""
    console = stderr()
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(words, total=None)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """For work that cannot say how far it is."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(words):
        yield
