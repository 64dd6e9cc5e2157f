"""Daily logs out: <root>/<yyyy>/<id>.md, a file for each record.

Everything is checked before the first file is written. A file is written whole or not at all; a
file that is already right is left alone. A file is replaced only when nothing is lost: its content
is a present or past state of its record. An edited file, a file of another record and a file that is
no export stay, and the export is refused.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from os import PathLike

from msgspec import Struct

from rote.bridges.daily_logs import NAMESPACE, begins_log, has_kind, parse_log, render_log
from rote.bridges.exports import Told, living_records
from rote.bridges.folders import Folder, check_file_name, check_path, same_name
from rote.bridges.named import first_named
from rote.bridges.pages import parse_page
from rote.bridges.past import was
from rote.bridges.validator import key_in
from rote.errors import InvalidInput, LimitExceeded
from rote.records.envelope import Envelope
from rote.records.keys import check_kinds, entity_id
from rote.records.memory import Memory
from rote.records.metadata import instant_of
from rote.values import Json, format_time, micros_of
from rote.values.limits import (
    MARKDOWN_FILE_BYTES_MAX,
    MARKDOWN_NAMES_MAX,
    MARKDOWN_WARNINGS_MAX,
    NAMED_IN_ERROR_MAX,
)

# Enough for the first three lines of a log.
_BEGINNING_BYTES = 4096

_begins_with_day = re.compile(r"([0-9]{4})-[0-9]{2}-[0-9]{2}").match


class MarkdownExport(Struct, frozen=True, gc=False):
    """Report of an export of daily logs."""

    records: int
    written: int  # files that were missing or different
    without_record: tuple[str, ...]  # files of records that are gone; an import brings them back

    def to_dict(self) -> dict[str, Json]:
        return {
            "records": self.records,
            "written": self.written,
            "unchanged": self.records - self.written,
            "without_record": list(self.without_record),
        }


def export_markdown(
    memory: Memory,
    root: str | PathLike[str],
    *,
    kind: str | Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Told | None = None,
) -> MarkdownExport:
    """Write the living daily logs, of some kinds or of all, to a folder, which is made when missing.

    overwrite  replace files that were edited, and those of other records, too
    """
    path, kinds = check_path(root), check_kinds(kind)
    memory.check_namespace(NAMESPACE)
    now = micros_of(memory.space.now)
    view = memory.space.at(memory.space.version)

    def logs() -> Iterator[Envelope]:
        return living_records(view, now, NAMESPACE, kinds)

    names = _names(logs())
    path.mkdir(parents=True, exist_ok=True)
    with Folder(path) as folder:
        _check_replaceable(folder, memory, logs(), overwrite=overwrite)
        records, written = _write(folder, logs, progress)
        return MarkdownExport(records, written, _without_record(folder, names, kinds))


def file_of(record: Envelope) -> str:
    """Return the file of a daily log, in the year of its id, or else of its creation."""
    day = _begins_with_day(record["record_id"])
    created = instant_of(record["created_at"])
    year = day[1] if day is not None else format_time(created or 0)[:4]
    return f"{year}/{check_file_name(record['record_id'] + '.md')}"


def _names(records: Iterator[Envelope]) -> set[str]:
    """Return the files of all records; InvalidInput when two records would share a file."""
    names: dict[str, tuple[str, str]] = {}
    refused: list[str] = []
    for record in records:
        id, kind = record["record_id"], record["record_kind"]
        try:
            name = file_of(record)
        except (InvalidInput, LimitExceeded) as error:
            is_long = isinstance(error, LimitExceeded)
            words = "is too long for a name" if is_long else "is no name for a file"
            refused.append(f"{kind} {id!r:.80} {words}")
            continue
        there, other = names.setdefault(same_name(name), (name, kind))
        if (there, other) != (name, kind):
            refused.append(f"{kind} {name} and {other} {there} would be one file")
        if len(names) + len(refused) > MARKDOWN_NAMES_MAX:
            raise LimitExceeded(
                "the number of files", size=len(names) + len(refused), limit=MARKDOWN_NAMES_MAX,
                advice="export it as JSON lines",
            )  # fmt: skip
    if refused:
        raise InvalidInput(
            f"not every daily log can be a file by its name: {_first(refused)};"
            " export one --kind at a time to a folder of its own, or all as JSON lines",
            code="no_file_name",
            records=refused[:MARKDOWN_WARNINGS_MAX],
        )
    return {name for name, _ in names.values()}


def _check_replaceable(
    folder: Folder, memory: Memory, records: Iterator[Envelope], *, overwrite: bool
) -> None:
    """Check that no file would be lost; InvalidInput names those that would."""
    refused: dict[str, str] = {}
    for record in records:
        reason = _reason_to_keep(folder, memory, record, overwrite=overwrite)
        if reason is not None:
            refused[file_of(record)] = reason
        if len(refused) > NAMED_IN_ERROR_MAX:
            break  # enough to act on, and each has cost a look into the past
    if refused:
        told = _first([f"{file} {reason}" for file, reason in refused.items()])
        raise InvalidInput(
            f"nothing was exported, because it would replace what is nowhere else: {told}",
            code="file_in_the_way",
            files=list(refused),
        )


def _reason_to_keep(
    folder: Folder, memory: Memory, record: Envelope, *, overwrite: bool
) -> str | None:
    """Return the reason to keep the file of a record; None when it may be replaced."""
    name = file_of(record)
    data = folder.read(name, size_bytes_max=MARKDOWN_FILE_BYTES_MAX)
    if data is None or data == render_log(record).encode():
        return None
    if not begins_log(data):
        return "is no export: move it, or export to another folder"
    if overwrite:
        return None
    try:
        there = parse_log(parse_page(name, data))
    except (InvalidInput, LimitExceeded) as error:
        return f"was edited and cannot be read ({error}): mend and import it, or --overwrite it"
    key, wanted = key_in(there), key_in(record)
    if key != wanted:
        return (
            f"is the file of {key[1]!s:.80} {key[2]!s:.80}: use one folder per kind,"
            " or --overwrite it"
        )
    if was(memory.space, entity_id(*wanted), there, newest=record):
        return None
    return (
        "was edited (or is from another store, or older than the history):"
        " import it first, or --overwrite it"
    )


def _write(
    folder: Folder, logs: Callable[[], Iterator[Envelope]], progress: Told | None
) -> tuple[int, int]:
    """Write the files that differ; return the numbers of records and of written files."""
    records = written = 0
    for record in logs():
        name, data = file_of(record), render_log(record).encode()
        if folder.read(name, size_bytes_max=MARKDOWN_FILE_BYTES_MAX) != data:
            folder.write(name, data)
            written += 1
        records += 1
        if progress is not None:
            progress(records)
    return records, written


def _without_record(folder: Folder, names: set[str], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the daily logs in a folder that have no record any more."""
    found: list[str] = []
    for name in folder.files()[0]:
        if name in names or len(found) == MARKDOWN_WARNINGS_MAX:
            continue
        data = folder.read(name, size_bytes_max=_BEGINNING_BYTES) or b""
        if begins_log(data) and (not kinds or has_kind(data, kinds)):
            found.append(name)
    return tuple(found)


def _first(refused: list[str]) -> str:
    return first_named(refused, separator="; ", more="and more")
