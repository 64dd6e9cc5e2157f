"""Progress of long work, drawn on stderr; nothing is drawn when nobody watches."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rote.cli.output import stderr
from rote.contract import CopyProgress


@contextmanager
def bar() -> Iterator[CopyProgress | None]:
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
                tasks[phase] = progress.add_task(f"{phase} commits", total=total)
            progress.update(tasks[phase], completed=done, total=total)

        yield advance


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """For work that cannot say how far it is."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(words):
        yield
