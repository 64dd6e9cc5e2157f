"""Markdown in: a file, or a folder with everything below it.

    a daily log that was exported      that record, exactly
    a file named after a day           a daily log
    MEMORY.md, or a file by itself     facts and preferences
    any other page of a folder         one fact or preference, the page as a whole

Other files of a folder are left out and links are not followed; the report names them. An import
writes all or nothing, unless it runs in batches.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import reduce
from os import PathLike
from pathlib import Path

from msgspec import Struct

from rote.bridges.batches import Incoming, Keys
from rote.bridges.daily_logs import check_no_log, is_daily_log, odd_times, parse_log
from rote.bridges.differences import NEWER, OUTDATED, Counts, Difference
from rote.bridges.folders import Folder, Skip, check_path, is_markdown
from rote.bridges.front_matter import read_front_matter
from rote.bridges.imports import ImportReport, Manner, problems_of, write_incoming
from rote.bridges.named import first_named
from rote.bridges.notes import LONG_TERM, SOURCE, Notes, notes_of
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

    pages: int  # the number of files that were read
    files: int  # the number of those with records
    made: tuple[Made, ...]  # by namespace and kind
    warnings: tuple[Problem, ...]  # about files and records that were left out

    def to_dict(self) -> dict[str, Json]:
        return {
            "pages": self.pages,
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
    skip: Sequence[str] = (),
    batch: int | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Told | None = None,
) -> MarkdownReport:
    """Bring in a file or a folder of Markdown.

    skip       patterns of files and folders to leave out
    batch      records in one commit; without it everything is one commit or nothing
    dry_run    everything but the commits, and what would be refused as newer is a warning
    overwrite  replace what is newer there, too
    """
    pages = _pages(check_path(path), skip)
    reading = _Reading(
        memory.namespaces,
        progress,
        alone=not check_path(path).is_dir(),
        size_bytes_max=MARKDOWN_FOLDER_BYTES_MAX if batch is None else None,
    )
    counts: dict[tuple[str, str], Counts] = {}
    commits = 0
    manner = Manner(batch, dry_run, overwrite)
    for found in write_incoming(memory, reading.records(pages), manner):
        for key, some in _by_kind(found):
            counts[key] = counts.get(key, Counts()).plus(Counts.of(some))
        written = any(difference.value is not None for difference in found)
        commits += 1 if written and not dry_run else 0
        reading.warn(_warnings(found, overwrite=overwrite))
    reading.warn(_not_in_files(memory, reading.facts_of, reading.facts))
    made = tuple(Made(*key, counted) for key, counted in sorted(counts.items()))
    total = reduce(Counts.plus, counts.values(), Counts())
    return MarkdownReport(
        total, commits, reading.pages, reading.files, made, tuple(reading.all_warnings())
    )


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
    """A reader of the records of pages; it also collects warnings."""

    def __init__(
        self,
        namespaces: Collection[str],
        progress: Told | None,
        *,
        alone: bool,
        size_bytes_max: int | None,
    ) -> None:
        self.pages = self.files = 0
        self.facts_of: set[str] = set()  # the files whose notes are facts
        self.facts: set[str] = set()  # their ids
        self._namespaces = namespaces
        self._progress = progress
        self._alone = alone
        self._size_bytes_max = size_bytes_max
        self._warnings: list[Problem] = []
        self._more = 0  # warnings beyond those
        self._known: dict[tuple[str, ...], tuple[str, Json]] = {}  # by key: place, metadata

    def records(self, pages: Iterable[tuple[str, bytes] | Problem]) -> Iterator[Incoming]:
        size = 0
        for item in pages:
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
            notes = _notes_of(parse_page(name, data), self._namespaces, alone=self._alone)
            self.files += 1 if notes.records else 0
            self.warn(notes.warnings)
            if notes.facts_of is not None:
                self.facts_of.add(notes.facts_of)
                self.facts.update(item.record["record_id"] for item in notes.records)
                self.warn(filter(None, map(self._repeated, notes.records)))
            yield from notes.records
            self.pages += 1
            if self._progress is not None:
                self._progress(self.pages)

    def _repeated(self, item: Incoming) -> Problem | None:
        """Return a warning for a fact that another page has too, under other headings."""
        record = item.record
        said = {name: record["metadata"].get(name) for name in ("title", "tags")}
        key = record["namespace"], record["record_kind"], record["record_id"]
        place, known = self._known.setdefault(key, (item.place, said))
        if known == said:
            return None
        words = f"the text of {place} again, so one record; its headings here are left out"
        return Problem("warning", item.place, words)

    def warn(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if len(self._warnings) < MARKDOWN_WARNINGS_MAX:
                self._warnings.append(problem)
            else:
                self._more += 1

    def all_warnings(self) -> Iterator[Problem]:
        yield from self._warnings
        if self._more:
            yield Problem("warning", "", f"{self._more:,} more warnings; validate lists them all")


def validate_markdown(
    path: str | PathLike[str],
    *,
    namespaces: Iterable[str],
    profile: str = V1_1,
    skip: Sequence[str] = (),
) -> Iterator[tuple[int, list[Problem]]]:
    """(number of records, problems) for each file; paths of problems begin with file and line."""
    check_profile(profile)
    root, known, keys = check_path(path), tuple(namespaces), Keys()
    for item in _pages(root, skip):
        if isinstance(item, Problem):
            yield 0, [item]
            continue
        name, data = item
        try:
            notes = _notes_of(parse_page(name, data), known, alone=not root.is_dir())
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


def _pages(path: Path, skip: Sequence[str]) -> Iterator[tuple[str, bytes] | Problem]:
    """(name, bytes) of each Markdown file, and a problem for everything else in a folder."""
    skipping = Skip(skip)
    return _pages_of_folder(path, skipping) if path.is_dir() else _page(path, skipping)


def _page(path: Path, skip: Skip) -> Iterator[tuple[str, bytes]]:
    if skip.unused:
        raise InvalidInput("--skip leaves files of a folder out, and this is no folder")
    with path.open("rb") as stream:
        yield path.name, stream.read(MARKDOWN_FILE_BYTES_MAX + 1)


def _pages_of_folder(path: Path, skip: Skip) -> Iterator[tuple[str, bytes] | Problem]:
    with Folder(path) as folder:
        files, others = folder.files(skip)
        for name, reason in others:
            yield Problem("warning", name, reason)
        for glob in skip.unused:
            yield Problem("warning", glob, "--skip leaves nothing out: no name here is like this")
        for name in files:
            data = folder.read(name, size_bytes_max=MARKDOWN_FILE_BYTES_MAX)
            if data is not None:
                yield name, data


def _notes_of(page: Page, namespaces: Collection[str], *, alone: bool) -> Notes:
    if is_daily_log(page):
        record = parse_log(page)
        if record["record_id"] != page.stem:
            raise page.fault(1, f"the record_id is not the name of the file, {page.stem!r:.80}")
        return Notes([Incoming(page.place(1), record)], odd_times(page))
    check_no_log(page)
    return notes_of(page, read_front_matter(page, namespaces), alone=alone)
