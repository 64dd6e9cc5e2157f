"""Making the commit of a run: what it read is validated, its operations are applied, and the ledger says
so, in one transaction.

Whether the same questions still have the same answers is found out without holding anyone up: what could
have changed them is looked at, and where something did, they are asked again at the newest version; the
commit then only has to show that nothing has happened since. When others always do, it is done at last
while they wait.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from rote.contract import Commit, CommitRequest, Guard, Port, SpaceInfo
from rote.contract.runs import (
    COMMIT_APPLIED,
    RUN,
    AnswerRead,
    PendingCommit,
    RunBody,
    pending_in,
)
from rote.errors import Conflict, ReadConflict, RoteError, Unavailable
from rote.runs.answers import Moment, digest_at
from rote.runs.ledger import RunRow
from rote.runs.reads import Range, holds_ids
from rote.values.limits import ANSWER_ROUNDS_MAX

KEY_PREFIX = "rote:run:"


def commit_run(port: Port, space: SpaceInfo, line: RunRow) -> Commit:
    """Apply a pending run. Conflict when what it read does not hold, Denied when its row of the ledger has
    moved on, and what else a commit may raise; then nothing was written."""
    payload = pending_in(line.entry)
    assert payload is not None
    answers = _Answers(port, space, line.entry, payload)
    for _ in range(ANSWER_ROUNDS_MAX if payload.answers else 0):
        try:
            reads = [*payload.reads, *answers.reads()]
            return port.commit(space.did, _request(line, payload.operations, reads))
        except Conflict as conflict:
            answers.look_again(conflict)
    request = _request(line, payload.operations, payload.reads)
    if not payload.answers:
        return port.commit(space.did, request)
    return port.commit(space.did, request, holds=answers.changed_at)


def _request(
    line: RunRow, operations: Sequence[dict[str, Any]], reads: Sequence[dict[str, Any]]
) -> CommitRequest:
    entry = line.entry
    applied = {**_object(entry), "state": COMMIT_APPLIED, "payload": None}
    guard = Guard(RUN, entry.run_id, line.fence, applied, stamped=True)
    key = KEY_PREFIX + entry.commit_id
    return CommitRequest(
        operations, entry.branch, reads, key, None, guard, unerased_since=entry.base_version
    )


def _object(entry: RunBody) -> dict[str, Any]:
    body: Any = entry.body()
    assert type(body) is dict
    return body


class _Asked(Struct):
    """An answer, and the newest version at which it was found to hold."""

    read: AnswerRead
    version: int


class _Answers:
    """The answers of a run while its commit is tried."""

    def __init__(
        self, port: Port, space: SpaceInfo, entry: RunBody, payload: PendingCommit
    ) -> None:
        self._port = port
        self._space = space
        self._entry = entry
        self._root = payload.root
        self._asked = [_Asked(read, entry.base_version) for read in payload.answers]
        self._plain = {
            (read.get("branch"), read["from"], read["to"])
            for read in payload.reads
            if "from" in read
        }

    def reads(self) -> list[dict[str, Any]]:
        """That nothing has happened to them, each since it was last found to hold."""
        return [
            {"from": start, "to": end, "version": asked.version, "branch": branch}
            for asked in self._asked
            for branch, start, end in filter(holds_ids, asked.read.ranges)
        ]

    def look_again(self, conflict: Conflict) -> None:
        """Ask what may have changed again, at the newest version; Conflict when something has."""
        disturbed = {(each.branch, each.start, each.end): each for each in conflict.conflicts}
        version = self._port.head(self._space.did).version
        changed = dict.fromkeys(each for each in conflict.conflicts if self._is_final(each))
        for asked in self._asked:
            found = [disturbed[place] for place in asked.read.ranges if place in disturbed]
            if not found:
                continue
            if self._digest(asked, version) == asked.read.digest:
                asked.version = version
            else:
                base = self._entry.base_version
                changed.update({replace(each, expected_version=base): None for each in found})
        if changed:
            raise Conflict(tuple(changed)) from None

    def changed_at(self, version: int) -> list[ReadConflict]:
        """The answers that are others at a version."""
        return [
            self._conflict(place, version)
            for asked in self._asked
            if self._digest(asked, version) != asked.read.digest
            for place in asked.read.ranges
        ]

    def _is_final(self, conflict: ReadConflict) -> bool:
        """Whether it is about something that is no answer."""
        place = (conflict.branch, conflict.start, conflict.end)
        return conflict.id is not None or place in self._plain

    def _digest(self, asked: _Asked, version: int) -> str | None:
        entry = self._entry
        try:
            hash = self._port.head_at(self._space.did, version=version).hash
            moment = Moment(
                self._port, self._space, entry.branch, version, hash, version, entry.now,
                self._root,
            )  # fmt: skip
            return digest_at(moment, asked.read.call)
        except Unavailable:
            raise
        except RoteError:
            return None  # what cannot be answered any more is another answer

    def _conflict(self, place: Range, version: int) -> ReadConflict:
        branch, start, end = place
        return ReadConflict(
            id=None,
            prefix=None,
            start=start,
            end=end,
            branch=branch,
            expected_version=self._entry.base_version,
            actual_version=version,
            actual_hash=None,
        )
