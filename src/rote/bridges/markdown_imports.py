"""Markdown in: a file, or a folder with everything below it.

    a daily log that was exported      that record, exactly
    a file named after a day           a daily log
    MEMORY.md, or a file by itself     facts and preferences

Other files of a folder are left out, and links are not followed; the report says so. All or nothing,
unless it is written in batches.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from rote.bridges.batches import Checked, Incoming
from rote.bridges.daily_logs import is_daily_log, parse_log
from rote.bridges.folders import Folder, is_markdown
from rote.bridges.imports import problems_of, write_incoming
from rote.bridges.notes import Notes, day_in, facts_of, is_memory, log_of
from rote.bridges.pages import Page, parse_page
from rote.bridges.validator import Problem
from rote.errors import LimitExceeded, RoteError
from rote.records import Memory
from rote.records.profiles import V1_1, check_profile
from rote.values import Json
from rote.values.limits import (
    MARKDOWN_FILE_BYTES_MAX,
    MARKDOWN_FOLDER_BYTES_MAX,
    MARKDOWN_WARNINGS_MAX,
)

Told = Callable[[int], None]  # how many files are done
_OTHER = "it is neither MEMORY.md, nor named after a day, nor an export; it is left out"


class Made(Struct, frozen=True, gc=False):
    """The records of one kind."""

    namespace: str
    record_kind: str
    records: int
    changed: int

    def to_dict(self) -> dict[str, Json]:
        return {
            "namespace": self.namespace,
            "record_kind": self.record_kind,
            "records": self.records,
            "changed": self.changed,
        }


class MarkdownReport(Struct, frozen=True):
    """What an import of Markdown did, or would do."""

    files: int  # that records came from
    made: tuple[Made, ...]  # by namespace and kind
    commits: int
    warnings: tuple[Problem, ...]  # what was left out

    @property
    def records(self) -> int:
        return sum(made.records for made in self.made)

    @property
    def changed(self) -> int:
        return sum(made.changed for made in self.made)

    def to_dict(self) -> dict[str, Json]:
        return {
            "files": self.files,
            "records": self.records,
            "changed": self.changed,
            "unchanged": self.records - self.changed,
            "commits": self.commits,
            "made": [made.to_dict() for made in self.made],
            "warnings": [problem.to_dict() for problem in self.warnings],
        }


def is_markdown_path(path: Path) -> bool:
    """Whether a path is brought in as Markdown: a folder, or a file that is named so."""
    return path.is_dir() or is_markdown(path.name)


def import_markdown(
    memory: Memory,
    path: Path,
    *,
    batch: int | None = None,
    dry_run: bool = False,
    progress: Told | None = None,
) -> MarkdownReport:
    """Bring in a file or a folder of Markdown.

    batch    records in one commit; without it everything is one commit or nothing
    dry_run  everything but the commits
    """
    reading = _Reading(
        progress, size_bytes_max=MARKDOWN_FOLDER_BYTES_MAX if batch is None else None
    )
    counts: dict[tuple[str, str], list[int]] = {}
    commits = 0
    written = write_incoming(memory, reading.records(path), batch=batch, dry_run=dry_run)
    for records, changed in written:
        _count(counts, records, 0)
        _count(counts, changed, 1)
        commits += 1 if changed and not dry_run else 0
    made = tuple(Made(*key, *counted) for key, counted in sorted(counts.items()))
    return MarkdownReport(reading.files, made, commits, tuple(reading.warnings))


def _count(counts: dict[tuple[str, str], list[int]], items: list[Checked], place: int) -> None:
    for item in items:
        key = item.record["namespace"], item.record["record_kind"]
        counts.setdefault(key, [0, 0])[place] += 1


class _Reading:
    """The records of a path, and what was met on the way to them."""

    def __init__(self, progress: Told | None, *, size_bytes_max: int | None) -> None:
        self.files = 0
        self.warnings: list[Problem] = []
        self._progress = progress
        self._size_bytes_max = size_bytes_max

    def records(self, path: Path) -> Iterator[Incoming]:
        size = done = 0
        for item in _pages(path):
            if isinstance(item, Problem):
                self._warn([item])
                continue
            name, data = item
            size += len(data)
            if self._size_bytes_max is not None and size > self._size_bytes_max:
                raise LimitExceeded(
                    "the folder in bytes", size=size, limit=self._size_bytes_max,
                    advice="import it in batches",
                )  # fmt: skip
            notes = _notes_of(parse_page(name, data), alone=not path.is_dir())
            self.files += 1 if notes.records else 0
            self._warn(notes.warnings)
            yield from notes.records
            done += 1
            if self._progress is not None:
                self._progress(done)

    def _warn(self, problems: Iterable[Problem]) -> None:
        self.warnings += problems
        del self.warnings[MARKDOWN_WARNINGS_MAX:]


def validate_markdown(
    path: Path, *, namespaces: Iterable[str], profile: str = V1_1
) -> Iterator[tuple[int, list[Problem]]]:
    """For each file how many records it has, and all problems; their paths begin with file and line."""
    check_profile(profile)
    known = tuple(namespaces)
    for item in _pages(path):
        if isinstance(item, Problem):
            yield 0, [item]
            continue
        name, data = item
        try:
            notes = _notes_of(parse_page(name, data), alone=not path.is_dir())
        except RoteError as error:
            place = f"{name}:{error.details['line']}" if "line" in error.details else name
            yield 0, [Problem("error", place, error.details.get("reason", str(error)))]
            continue
        problems = notes.warnings + [
            Problem(problem.kind, item.place + problem.path, problem.message)
            for item in notes.records
            for problem in problems_of(item, namespaces=known, profile=profile)
        ]
        yield len(notes.records), problems


def _pages(path: Path) -> Iterator[tuple[str, bytes] | Problem]:
    """The names and bytes of files, and what is no such file."""
    if not path.is_dir():
        with path.open("rb") as stream:
            yield path.name, stream.read(MARKDOWN_FILE_BYTES_MAX + 1)
        return
    with Folder(path) as folder:
        files, others = folder.files()
        for name, reason in others:
            yield Problem("warning", name, reason)
        for name in files:
            data = folder.read(name, size_bytes_max=MARKDOWN_FILE_BYTES_MAX)
            if data is not None:
                yield name, data


def _notes_of(page: Page, *, alone: bool) -> Notes:
    if is_daily_log(page):
        record = parse_log(page)
        if record["record_id"] != page.stem:
            raise page.fault(1, f"the record_id is not the name of the file, {page.stem!r:.80}")
        return Notes([Incoming(page.place(1), record)], [])
    day = day_in(page.stem)
    if day is not None:
        return log_of(page, day)
    if alone or is_memory(page):
        return facts_of(page)
    return Notes([], [Problem("warning", page.name, _OTHER)])
