"""Daily logs out: <root>/<yyyy>/<id>.md, a file for each record.

All names are checked before the first file is written. A file is in place whole or not at all, one
that is as it should be is left alone, and one that is no export is never replaced.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from rote.bridges.daily_logs import NAMESPACE, begins_log, render_log
from rote.bridges.exports import Told
from rote.bridges.folders import Folder, check_file_name, same_name
from rote.errors import InvalidInput, LimitExceeded
from rote.records import Memory
from rote.records.envelope import Envelope
from rote.records.filters import Filters
from rote.records.keys import check_kind
from rote.records.listing import find_records
from rote.records.metadata import instant_of
from rote.values import Json, format_time, micros_of
from rote.values.limits import MARKDOWN_FILE_BYTES_MAX, MARKDOWN_NAMES_MAX

_BEGINNING_BYTES = 64

_begins_with_day = re.compile(r"([0-9]{4})-[0-9]{2}-[0-9]{2}").match


class MarkdownExport(Struct, frozen=True, gc=False):
    """What an export of daily logs did."""

    records: int
    written: int  # files that were not there, or not like this

    def to_dict(self) -> dict[str, Json]:
        return {
            "records": self.records,
            "written": self.written,
            "unchanged": self.records - self.written,
        }


def export_markdown(
    memory: Memory, root: Path, *, kind: str | None = None, progress: Told | None = None
) -> MarkdownExport:
    """Write the living daily logs, of one kind or of all, to a folder, which is made when missing."""
    memory.check_namespace(NAMESPACE)
    if kind is not None:
        check_kind(kind)
    now = micros_of(memory.space.now)
    view = memory.space.at(memory.space.version)

    def logs() -> Iterator[Envelope]:
        return find_records(view, Filters(), namespace=NAMESPACE, kind=kind, id_prefix="", now=now)

    names = _names(logs())
    root.mkdir(parents=True, exist_ok=True)
    with Folder(root) as folder:
        for name in names:
            _check_replaceable(folder, name)
        return _write(folder, logs, progress)


def file_of(record: Envelope) -> str:
    """The file of a daily log: in the year that its id begins with, or in which it was made."""
    day = _begins_with_day(record["record_id"])
    created = instant_of(record["created_at"])
    year = day[1] if day is not None else format_time(created or 0)[:4]
    return f"{year}/{check_file_name(record['record_id'] + '.md')}"


def _names(records: Iterator[Envelope]) -> list[str]:
    """The files of all records; no two may be one."""
    names: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for record in records:
        name, kind = file_of(record), record["record_kind"]
        same = same_name(name)
        if same in names:
            raise InvalidInput(
                f"{kind} {name} and {kinds[same]} {names[same]} would be one file;"
                " export one kind at a time, or as JSON",
                file=name,
            )
        names[same], kinds[same] = name, kind
        if len(names) > MARKDOWN_NAMES_MAX:
            raise LimitExceeded(
                "the number of files", size=len(names), limit=MARKDOWN_NAMES_MAX,
                advice="export it as JSON lines",
            )  # fmt: skip
    return list(names.values())


def _check_replaceable(folder: Folder, name: str) -> None:
    there = folder.read(name, size_bytes_max=_BEGINNING_BYTES)
    if there is not None and not begins_log(there):
        raise InvalidInput(
            f"{name} is there and is no export; move it, or export to another folder", file=name
        )


def _write(
    folder: Folder, logs: Callable[[], Iterator[Envelope]], progress: Told | None
) -> MarkdownExport:
    records = written = 0
    for record in logs():
        name, data = file_of(record), render_log(record).encode()
        if folder.read(name, size_bytes_max=MARKDOWN_FILE_BYTES_MAX) != data:
            folder.write(name, data)
            written += 1
        records += 1
        if progress is not None:
            progress(records)
    return MarkdownExport(records, written)
