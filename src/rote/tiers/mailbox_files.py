"""The files of a mailbox, for agents that know no store:

    tasks/*.jsonl                     a task in each line; ours go to openclaw_agent_tasks.jsonl
    results/<task_id>.json            a result in each file

Others append lines and write files at the same time. A line is appended by one call of the system; after
a torn line it begins on a line of its own. A file is replaced whole. Files are opened as in the fs tier.
"""

import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from rote.errors import InvalidValue, LimitExceeded, NotFound, RoteError, system_failure
from rote.tiers.envelopes import bad_envelope, check_result, check_task
from rote.tiers.fs.files import Folder
from rote.values import Json, canonical, decode
from rote.values.limits import MAILBOX_FILE_BYTES_MAX, VALUE_BYTES_MAX

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


class MailboxFiles:
    """The folder of a mailbox."""

    def __init__(self, root: Folder) -> None:
        self._root = root

    def close(self) -> None:
        self._root.close()

    def append_task(self, envelope: Json) -> None:
        with self._root.step(TASKS, make=True) as folder, folder.held():
            folder.append_line(OWN_TASKS, canonical(envelope))

    def write_result(self, envelope: dict[str, Json]) -> None:
        name = f"{envelope['task_id']}{_RESULT}"
        with self._root.step(RESULTS, make=True) as folder, folder.held():
            folder.replace(name, canonical(envelope) + b"\n", folder.look_for_file(name))

    def read_result(self, task_id: str) -> dict[str, Json] | None:
        """Return the result of a task; None without a file, bad_envelope when it holds another thing."""
        try:
            with self._root.step(RESULTS) as folder:
                data = folder.read(
                    f"{task_id}{_RESULT}", size_bytes_max=VALUE_BYTES_MAX, limit=_LIMIT
                )
        except NotFound:
            return None
        return _result_in(data, task_id)

    def tasks(self) -> Iterator[Found]:
        """Yield the tasks of all files, by file and line."""
        for name in self._names(TASKS, _LINES):
            data = self._read(TASKS, name)
            if isinstance(data, Found):
                yield data
                continue
            for number, line in enumerate(data.split(b"\n"), 1):
                if line.strip():
                    yield _found(
                        f"{TASKS}/{name}", number, lambda line=line: check_task(_read(line))
                    )

    def results(self) -> Iterator[Found]:
        for name in self._names(RESULTS, _RESULT):
            data = self._read(RESULTS, name)
            if isinstance(data, Found):
                yield data
                continue
            task_id = name.removesuffix(_RESULT)
            yield _found(
                f"{RESULTS}/{name}", None, lambda data=data, id=task_id: _result_in(data, id)
            )

    def _names(self, folder: str, ending: str) -> list[str]:
        try:
            with self._root.step(folder) as opened:
                return sorted(
                    name
                    for name, found in opened.entries()
                    if name.endswith(ending)
                    and not name.startswith(".")
                    and not stat.S_ISDIR(found.st_mode)
                )
        except NotFound:
            return []

    def _read(self, folder: str, name: str) -> bytes | Found:
        try:
            with self._root.step(folder) as opened:
                return opened.read(name, size_bytes_max=MAILBOX_FILE_BYTES_MAX, limit=_LIMIT)
        except (RoteError, OSError) as error:
            told = (
                error
                if isinstance(error, RoteError)
                else system_failure("cannot read", error, name)
            )
            return Found(f"{folder}/{name}", None, None, str(told))


def _found(file: str, line: int | None, check: Any) -> Found:
    try:
        return Found(file, line, check())
    except RoteError as error:
        return Found(file, line, None, str(error))


def _read(data: bytes) -> Json:
    return decode(data, size_bytes_max=VALUE_BYTES_MAX)


def _result_in(data: bytes, task_id: str) -> dict[str, Json]:
    try:
        envelope = check_result(_read(data))
    except (InvalidValue, LimitExceeded) as error:
        raise bad_envelope("a result", "", f"JSON: {error}") from None
    if envelope["task_id"] != task_id:
        raise bad_envelope("a result", "/task_id", f"{task_id!r}, as its file is named")
    return envelope
