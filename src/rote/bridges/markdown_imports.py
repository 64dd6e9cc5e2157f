"""Markdown in: a file, or a folder with everything below it.

    a daily log that was exported      that record, exactly
    a file named after a day           a daily log
    MEMORY.md, or a file by itself     facts and preferences

Other files of a folder are left out and links are not followed; the report names them. An import
writes all or nothing, unless it runs in batches.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from os import PathLike
from pathlib import Path

from msgspec import Struct

from rote.bridges.batches import Incoming, Keys
from rote.bridges.daily_logs import check_no_log, is_daily_log, odd_times, parse_log
from rote.bridges.differences import NEWER, OUTDATED, Counts, Difference
from rote.bridges.folders import Folder, check_path, is_markdown
from rote.bridges.imports import ImportReport, Manner, problems_of, write_incoming
from rote.bridges.named import first_named
from rote.bridges.notes import LONG_TERM, SOURCE, Notes, day_in, facts_of, is_memory, log_of
from rote.bridges.pages import Page, parse_page
from rote.bridges.validator import Problem
from rote.errors import InvalidInput, LimitExceeded, RoteError
from rote.records.filters import Filters
from rote.records.listing import find_records
from rote.records.memory import Memory
from rote.records.profiles import V1_1, check_profile
from rote.values import Json, micros_of
from rote.values.limits import (
    MARKDOWN_FILE_BYTES_MAX,
    MARKDOWN_FOLDER_BYTES_MAX,
    MARKDOWN_WARNINGS_MAX,
)

Told = Callable[[int], None]  # how many files are done
_OTHER = "it is neither MEMORY.md, nor named after a day, nor an export; it is left out"


class Made(Struct, frozen=True):
    """Numbers of the records of one kind."""

    namespace: str
    record_kind: str
    counts: Counts

    @property
    def records(self) -> int:
        return self.counts.records

    def to_dict(self) -> dict[str, Json]:
        key = {"namespace": self.namespace, "record_kind": self.record_kind}
        return {**key, **self.counts.to_dict()}


class MarkdownReport(ImportReport, frozen=True):
    """Report of an import of Markdown, or of a dry run."""

    files: int  # the number of files with records
    made: tuple[Made, ...]  # by namespace and kind
    warnings: tuple[Problem, ...]  # about files and records that were left out

    def to_dict(self) -> dict[str, Json]:
        return {
            "files": self.files,
            **ImportReport.to_dict(self),
            "made": [made.to_dict() for made in self.made],
            "warnings": [problem.to_dict() for problem in self.warnings],
        }


def is_markdown_path(path: Path) -> bool:
    """Whether a path is imported as Markdown: a folder, or a file that ends with .md."""
    return path.is_dir() or is_markdown(path.name)


def import_markdown(
    memory: Memory,
    path: str | PathLike[str],
    *,
    batch: int | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Told | None = None,
) -> MarkdownReport:
    """Bring in a file or a folder of Markdown.

    batch      records in one commit; without it everything is one commit or nothing
    dry_run    everything but the commits, and what would be refused as newer is a warning
    overwrite  replace what is newer there, too
    """
    reading = _Reading(
        progress, size_bytes_max=MARKDOWN_FOLDER_BYTES_MAX if batch is None else None
    )
    counts: dict[tuple[str, str], Counts] = {}
    commits = 0
    manner = Manner(batch, dry_run, overwrite)
    for found in write_incoming(memory, reading.records(check_path(path)), manner):
        for key, some in _by_kind(found):
            counts[key] = counts.get(key, Counts()).plus(Counts.of(some))
        written = any(difference.value is not None for difference in found)
        commits += 1 if written and not dry_run else 0
        reading.warn(_warnings(found, overwrite=overwrite))
    reading.warn(_not_in_files(memory, reading.facts_of, reading.facts))
    made = tuple(Made(*key, counted) for key, counted in sorted(counts.items()))
    total = reduce(Counts.plus, counts.values(), Counts())
    return MarkdownReport(total, commits, reading.files, made, tuple(reading.warnings))


def _by_kind(found: list[Difference]) -> Iterator[tuple[tuple[str, str], list[Difference]]]:
    kinds: dict[tuple[str, str], list[Difference]] = {}
    for difference in found:
        record = difference.item.record
        kinds.setdefault((record["namespace"], record["record_kind"]), []).append(difference)
    yield from kinds.items()


def _warnings(found: list[Difference], *, overwrite: bool) -> Iterator[Problem]:
    for difference in found:
        place = difference.item.place
        if difference.has_expired:
            yield Problem("warning", place, "it has expired, so nobody will see it")
        if difference.outcome == OUTDATED:
            yield Problem("warning", place, "the record has gone on since; it is left alone")
        elif difference.outcome == NEWER:
            words = "it is replaced" if overwrite else "an import refuses to replace it"
            yield Problem("warning", place, f"the record is newer; {words}")


def _not_in_files(memory: Memory, files: set[str], facts: set[str]) -> Iterator[Problem]:
    """Return a warning for each file that lacks facts that were imported from a file of its name.

    An edited fact is a new record; the record of the old text stays.
    """
    if not files or LONG_TERM not in memory.namespaces:
        return
    view, now = memory.space.at(memory.space.version), micros_of(memory.space.now)
    missing: dict[str, list[str]] = {}
    for record in find_records(
        view, Filters(source=SOURCE), namespace=LONG_TERM, kind=None, id_prefix="", now=now
    ):
        file = record["metadata"].get("file")
        if type(file) is str and file in files and record["record_id"] not in facts:
            missing.setdefault(file, []).append(f"{record['record_kind']} {record['record_id']}")
    for file, keys in sorted(missing.items()):
        named = first_named(keys, separator=", ", more="…")
        # The store knows the file by its path in a folder, but not which folder that was.
        if len(keys) == 1:
            words = (
                "1 record that came from a file of this name, here or in another folder, is not in"
                " it; it stays"
            )
        else:
            words = (
                f"{len(keys):,} records that came from files of this name, here or in other folders,"
                " are not in it; they stay"
            )
        yield Problem("warning", file, f"{words}: {named}")


class _Reading:
    """A reader of the records of a path; it also collects warnings."""

    def __init__(self, progress: Told | None, *, size_bytes_max: int | None) -> None:
        self.files = 0
        self.warnings: list[Problem] = []
        self.facts_of: set[str] = set()  # the files whose notes are facts
        self.facts: set[str] = set()  # their ids
        self._progress = progress
        self._size_bytes_max = size_bytes_max

    def records(self, path: Path) -> Iterator[Incoming]:
        size = done = 0
        for item in _pages(path):
            if isinstance(item, Problem):
                self.warn([item])
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
            self.warn(notes.warnings)
            if notes.facts_of is not None:
                self.facts_of.add(notes.facts_of)
                self.facts.update(item.record["record_id"] for item in notes.records)
            yield from notes.records
            done += 1
            if self._progress is not None:
                self._progress(done)

    def warn(self, problems: Iterable[Problem]) -> None:
        self.warnings += problems
        del self.warnings[MARKDOWN_WARNINGS_MAX:]


def validate_markdown(
    path: str | PathLike[str], *, namespaces: Iterable[str], profile: str = V1_1
) -> Iterator[tuple[int, list[Problem]]]:
    """(number of records, problems) for each file; paths of problems begin with file and line."""
    check_profile(profile)
    root, known, keys = check_path(path), tuple(namespaces), Keys()
    for item in _pages(root):
        if isinstance(item, Problem):
            yield 0, [item]
            continue
        name, data = item
        try:
            notes = _notes_of(parse_page(name, data), alone=not root.is_dir())
        except RoteError as error:
            place = f"{name}:{error.details['line']}" if "line" in error.details else name
            yield 0, [Problem("error", place, error.details.get("reason", str(error)))]
            continue
        count, problems = 0, list(notes.warnings)
        for record in notes.records:
            found = problems_of(record, namespaces=known, profile=profile)
            problems += [
                Problem(problem.kind, record.place + problem.path, problem.message)
                for problem in found
            ]
            try:
                count += keys.is_new(record)
            except InvalidInput as error:
                problems.append(Problem("error", record.place, error.details["reason"]))
        yield count, problems


def _pages(path: Path) -> Iterator[tuple[str, bytes] | Problem]:
    """(name, bytes) of each Markdown file, and a problem for each other file."""
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
        return Notes([Incoming(page.place(1), record)], odd_times(page))
    check_no_log(page)
    day = day_in(page.stem)
    if day is not None:
        notes = log_of(page, day)
        return Notes(notes.records, notes.warnings + odd_times(page))
    if alone or is_memory(page):
        return facts_of(page)
    return Notes([], [Problem("warning", page.name, _OTHER)])
