"""The files of a mailbox, for agents that know no store:

    tasks/*.jsonl                     a task in each line; ours go to openclaw_agent_tasks.jsonl
    results/<task_id>.json            a result in each file

Others append lines and write files at the same time. A line is appended by one call of the system; after
a torn line it begins on a line of its own. A file is replaced whole. Files are opened as in the fs tier.
"""

import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rote.errors import InvalidValue, LimitExceeded, NotFound, RoteError, system_failure
from rote.tiers.envelopes import bad_envelope, check_result, check_task
from rote.tiers.fs.files import Folder, Root
from rote.values import Json, canonical, decode
from rote.values.limits import VALUE_BYTES_MAX
from rote.values.tier_limits import FS_READ_BYTES

TASKS, RESULTS = "tasks", "results"
OWN_TASKS = "openclaw_agent_tasks.jsonl"
_LINES, _RESULT = ".jsonl", ".json"
_LIMIT = "the size of a file"


class Found(NamedTuple):
    """An envelope in a file, or the reason why there is none."""

    file: str
    line: int | None  # from 1 on; None in a file with one envelope
    envelope: dict[str, Json] | None
    reason: str = ""

    def rejected(self, reason: str) -> dict[str, Json]:
        return {"file": self.file, "line": self.line, "reason": reason}


class TaskLines:
    """The file of our own tasks, while its folder is held."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def append(self, envelopes: Iterable[Json]) -> None:
        """Add a line for each; many at once, because senders wait meanwhile."""
        data = bytearray()
        for envelope in envelopes:
            data += (b"\n" if data else b"") + canonical(envelope)
            if len(data) >= FS_READ_BYTES:
                self._folder.append_line(OWN_TASKS, bytes(data))
                data.clear()
        if data:
            self._folder.append_line(OWN_TASKS, bytes(data))

    def ids(self) -> set[str]:
        """Return the ids of the tasks that it has."""
        try:
            lines = list(_tasks_in(self._folder, OWN_TASKS))
        except NotFound:
            return set()
        return {each.envelope["task_id"] for each in lines if each.envelope is not None}


class MailboxFiles:
    """The folder of a mailbox."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def close(self) -> None:
        self._root.close()

    @contextmanager
    def tasks_held(self) -> Iterator[TaskLines]:
        """Hold the file of our own tasks; Denied (not_plain) when it is a link."""
        with self._folder(TASKS, make=True) as folder, folder.held():
            folder.look_for_file(OWN_TASKS)
            yield TaskLines(folder)

    def write_result(self, envelope: dict[str, Json]) -> None:
        name = f"{envelope['task_id']}{_RESULT}"
        with self._folder(RESULTS, make=True) as folder, folder.held():
            folder.replace(name, canonical(envelope) + b"\n", folder.look_for_file(name))

    def read_result(self, task_id: str) -> dict[str, Json] | None:
        """Return the result of a task; None without a file, bad_envelope when it holds another thing."""
        try:
            with self._folder(RESULTS) as folder:
                return _result_in(folder, task_id)
        except NotFound:
            return None

    def tasks(self) -> Iterator[Found]:
        """Yield the tasks of all files, by file and line."""
        for name in self._names(TASKS, _LINES):
            try:
                with self._folder(TASKS) as folder:
                    yield from _tasks_in(folder, name)
            except (RoteError, OSError) as error:
                yield Found(f"{TASKS}/{name}", None, None, _reason(error, name))

    def results(self) -> Iterator[Found]:
        for name in self._names(RESULTS, _RESULT):
            file = f"{RESULTS}/{name}"
            try:
                with self._folder(RESULTS) as folder:
                    yield Found(file, None, _result_in(folder, name.removesuffix(_RESULT)))
            except (RoteError, OSError) as error:
                yield Found(file, None, None, _reason(error, name))

    def _folder(self, name: str, *, make: bool = False) -> Folder:
        with self._root.open() as root:
            return root.step(name, make=make)

    def _names(self, folder: str, ending: str) -> list[str]:
        try:
            with self._folder(folder) as opened:
                return sorted(
                    name
                    for name, found in opened.entries()
                    if name.endswith(ending)
                    and not name.startswith(".")
                    and not stat.S_ISDIR(found.st_mode)
                )
        except NotFound:
            return []


def _tasks_in(folder: Folder, name: str) -> Iterator[Found]:
    """Yield the tasks of a file; a line that is none, or too long, spoils itself only."""
    file = f"{TASKS}/{name}"
    for number, line in enumerate(folder.lines(name, size_bytes_max=VALUE_BYTES_MAX), 1):
        if line.strip():
            try:
                yield Found(file, number, check_task(_read(line)))
            except RoteError as error:
                yield Found(file, number, None, str(error))


def _reason(error: Exception, name: str) -> str:
    told = system_failure("cannot read", error, name) if isinstance(error, OSError) else error
    return str(told)


def _read(data: bytes) -> Json:
    return decode(data, size_bytes_max=VALUE_BYTES_MAX)


def _result_in(folder: Folder, task_id: str) -> dict[str, Json]:
    try:
        data = folder.read(f"{task_id}{_RESULT}", size_bytes_max=VALUE_BYTES_MAX, limit=_LIMIT)
        envelope = check_result(_read(data))
    except (InvalidValue, LimitExceeded) as error:
        raise bad_envelope("a result", "", f"JSON: {error}") from None
    if envelope["task_id"] != task_id:
        raise bad_envelope("a result", "/task_id", f"{task_id!r}, as its file is named")
    return envelope
