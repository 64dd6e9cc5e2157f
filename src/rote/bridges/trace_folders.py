"""Two folders of traces, compared pair by pair."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from rote.bridges.folders import shown_name
from rote.bridges.trace_files import (
    RETRIEVAL_ENDING,
    TRACE_ENDING,
    compare_files,
    is_partial,
    read_found,
    read_plain,
)
from rote.errors import InvalidInput, LimitExceeded, RoteError
from rote.runs.trace_files import PARTIAL_NAME, TRACE_NAME
from rote.traces import Failure, Report
from rote.traces.reports import Level
from rote.values.limits import TRACE_BYTES_MAX, TRACE_FOLDERS_DEPTH_MAX, TRACE_NAMES_MAX


class Pair(Struct, frozen=True):
    """A trace in one folder, and the one in another folder that it is compared with."""

    name: str  # of both, relative to their folders, with slashes; or of both and their workflow
    report: Report
    left: str | None  # the names of the two; None on the side where there is none
    right: str | None


def compare_trace_folders(
    left: Path, right: Path, *, level: Level = "contract", size_bytes_max: int = TRACE_BYTES_MAX
) -> Iterator[Pair]:
    """Compare each trace of either folder with its namesake in the other, in order of names.

    Traces without a namesake are paired by their workflow, where each side has one such trace of it.
    A trace that is alone or cannot be read is ineligible. InvalidInput when there is none at all.
    """
    lefts, rights = _traces_in(left), _traces_in(right)
    if not lefts and not rights:
        raise InvalidInput(f"there are no traces in {left} nor in {right}")
    alone = _Alone(
        {name: left / lefts[name].path for name in lefts.keys() - rights.keys()},
        {name: right / rights[name].path for name in rights.keys() - lefts.keys()},
    )
    for name in sorted(lefts.keys() | rights.keys()):
        shown, partner = shown_name(name), alone.partners.get(name)
        names = shown if name in lefts else None, shown if name in rights else None
        if any(name in side and side[name].is_link for side in (lefts, rights)):
            message = f"{shown} is a link to a folder; linked folders are not followed"
            yield Pair(shown, _ineligible("unreadable", message, level), *names)
        elif name in lefts and name in rights:
            paths = left / lefts[name].path, right / rights[name].path
            yield Pair(shown, _compare_found(*paths, level, size_bytes_max), *names)
        elif partner is not None and name in lefts:
            other = shown_name(partner.name)
            title = f"{partner.workflow_id}: {shown} and {other}"
            paths = left / lefts[name].path, right / rights[partner.name].path
            yield Pair(title, _compare_found(*paths, level, size_bytes_max), shown, other)
        elif partner is None:
            yield Pair(shown, _ineligible("unpaired", alone.reason(name, shown), level), *names)


class _Partner(Struct, frozen=True):
    name: str  # of the trace on the other side
    workflow_id: str


class _Alone:
    """Traces without a namesake, and those of them that are the only ones of their workflow."""

    def __init__(self, left: dict[str, Path], right: dict[str, Path]) -> None:
        both = bool(left and right)  # otherwise nothing needs to be read
        self._left, self._right = (
            {name: _workflow_of(path) if both else None for name, path in sorted(side.items())}
            for side in (left, right)
        )
        self._counts = Counter(self._left.values()), Counter(self._right.values())
        lefts, rights = (
            {of: name for name, of in side.items()} for side in (self._left, self._right)
        )
        self.partners: dict[str, _Partner] = {}  # by the names of both sides
        for of, name in lefts.items():
            if of is not None and self._counts[0][of] == self._counts[1][of] == 1:
                self.partners[name] = _Partner(rights[of], of)
                self.partners[rights[of]] = _Partner(name, of)

    def reason(self, name: str, shown: str) -> str:
        """Return why a trace has no partner."""
        side, other = ("left", "right") if name in self._left else ("right", "left")
        alone = f"{shown} is only on the {side}"
        of = self._left.get(name) or self._right.get(name)
        if of is None:
            return alone
        left, right = (count[of] for count in self._counts)
        if not left or not right:
            return (
                f"{alone}, and no trace of its workflow {of!r:.80} on the {other} lacks a namesake"
            )
        return (
            f"{alone}, and nothing says which traces of its workflow {of!r:.80} belong together:"
            f" {left:,} on the left and {right:,} on the right have no namesake"
        )


class _Workflow(Struct):
    workflow_id: str


def _workflow_of(path: Path) -> str | None:
    """Return the workflow of a trace; None when it cannot be read."""
    try:
        data = read_plain(path).data
        first = data.partition(b"\n")[0] if is_partial(path) else data
        return msgspec.json.decode(first, type=_Workflow).workflow_id
    except (RoteError, OSError, msgspec.MsgspecError, RecursionError):
        return None


def _compare_found(left: Path, right: Path, level: Level, size_bytes_max: int) -> Report:
    try:
        return compare_files((read_found(left), read_found(right)), level, size_bytes_max)
    except RoteError as error:
        return _ineligible("unreadable", str(error), level)
    except OSError as error:
        message = f"{shown_name(str(error.filename))}: {error.strerror}"
        return _ineligible("unreadable", message, level)


def _ineligible(code: str, message: str, level: Level) -> Report:
    return Report(False, "ineligible", (Failure(code, "", None, None, message),), level=level)


class _Found(Struct, frozen=True):
    """A file that has the name of a trace, or a linked folder."""

    path: str  # in the folder that is looked through
    is_link: bool = False


def _traces_in(folder: Path) -> dict[str, _Found]:
    """Return the traces and the linked folders in a folder and below it, by their names.

    Only the name decides whether a file is a trace. Companions and hidden files are left out. A trace
    of which there is only a part has the name that the whole would have.
    """
    found: dict[str, _Found] = {}
    parts: dict[str, _Found] = {}
    waiting, count = [(folder, "", 0)], 0
    while waiting:
        here, prefix, depth = waiting.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                count += 1
                check_name_count(count)
                if entry.name.startswith("."):
                    continue
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if depth == TRACE_FOLDERS_DEPTH_MAX:
                        raise LimitExceeded("the folders in folders", size=depth + 1, limit=depth)
                    waiting.append((here / entry.name, f"{name}/", depth + 1))
                elif _is_folder(entry):
                    found[name] = _Found(name, is_link=True)
                elif name.endswith(TRACE_ENDING):
                    found[name] = _Found(name)
                elif entry.name == PARTIAL_NAME and entry.stat(follow_symlinks=False).st_size:
                    parts[prefix + TRACE_NAME] = _Found(name)
    found = parts | found
    return {name: each for name, each in found.items() if _owner_of(name) not in found}


def check_name_count(count: int) -> None:
    """Check that a folder has no more names than a walk may look at."""
    if count > TRACE_NAMES_MAX:
        raise LimitExceeded("the names in the folder", size=count, limit=TRACE_NAMES_MAX)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a folder or a link to one; a link in a circle is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _owner_of(name: str) -> str | None:
    """Return the trace that a file is the companion of, by its name; None when it is none."""
    return (
        name.removesuffix(RETRIEVAL_ENDING) + TRACE_ENDING
        if name.endswith(RETRIEVAL_ENDING)
        else None
    )
