"""Records of the transactions that a client ran on one space.

Each value is written only once, so a value that is read tells its writer, whatever the store says
about versions. Nothing is deleted, so an entity that is absent was never written.
"""

from typing import Literal

import msgspec
from msgspec import Struct


class Read(Struct, frozen=True, tag=True):
    id: str
    value: str | None  # None: it does not exist
    version: int | None = None  # as the store reports it, where it was recorded; 0: never written


class Scan(Struct, frozen=True, tag=True):
    prefix: str
    found: dict[str, str]  # every entity that was found, with its value


class Write(Struct, frozen=True, tag=True):
    id: str
    value: str


Step = Read | Scan | Write
Outcome = Literal["committed", "failed", "unknown"]


class Record(Struct, frozen=True, kw_only=True):
    """One transaction. Of two records with the same client and number the later one counts."""

    client: str
    number: int
    steps: tuple[Step, ...]  # in the order in which the client took them
    outcome: Outcome  # unknown: it may have been committed, or may be later
    version: int | None = None  # of its commit; None when it failed, is unknown, or wrote nothing
    began: int | None = None  # before its first step, by a clock that all clients share
    ended: int | None = None  # after its answer

    def __str__(self) -> str:
        return f"{self.client}/{self.number}"

    def writes(self) -> dict[str, str]:
        """Return the values that it leaves, by entity."""
        return {step.id: step.value for step in self.steps if isinstance(step, Write)}


def encode_record(record: Record) -> bytes:
    """Return one line of JSON, for a client in another process."""
    return msgspec.json.encode(record)


def decode_record(line: bytes | str) -> Record:
    return msgspec.json.decode(line, type=Record)
