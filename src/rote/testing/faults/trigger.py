"""The operation that fails, and the kind of failure: the counter behind `FaultDisk`.

A test first runs its workload without a fault to count its operations. Then it runs it again for
each operation, with a fault at that one. Writes, truncations, syncs and deletions are counted
together, from 1; reads are not, since they change nothing that a crash could lose.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

FaultKind = Literal["error", "short_write", "disk_full", "power_cut"]
"""error: operation N fails and has no effect; the ones after it work.
short_write: half of the bytes of write N arrive, then as error; as error if N is no write.
disk_full: operation N and all after it fail with SQLITE_FULL, syncs as error, until disarmed.
power_cut: operation N and all after it do not happen, reads and opens included, for good."""

FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

OperationKind = Literal["write", "truncate", "sync", "delete"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault to come."""

    # The kind of fault.
    kind: FaultKind
    # The operation it happens at, counted from 1 since arming.
    at: int

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS or self.at < 1:
            raise ValueError(f"no such fault: {self}; kinds are {FAULT_KINDS}, at counts from 1")


@dataclass(frozen=True, slots=True)
class Operation:
    """One counted operation; the error that a fault raises names it."""

    # The kind of operation.
    kind: OperationKind
    # The file, relative to the disk's directory.
    file: str
    # Where a write begins; the new length for a truncation; else 0.
    offset: int = 0
    # The number of bytes of a write; else 0.
    size: int = 0


def every_fault(operations: int, kinds: tuple[FaultKind, ...] = FAULT_KINDS) -> Iterator[Fault]:
    """Yield each kind at each of so many operations: the whole loop of a fault test."""
    for kind in kinds:
        for at in range(1, operations + 1):
            yield Fault(kind, at)


class Trigger:
    """Counts operations while armed, and tells which of them the fault hits."""

    def __init__(self) -> None:
        self._fault: Fault | None = None
        self._armed = False
        # The number of operations counted since arming.
        self.operations = 0
        # The first operation that the fault hit.
        self.struck: Operation | None = None
        # Whether the power was cut; arming does not restore it.
        self.power_is_off = False

    def arm(self, fault: Fault | None) -> None:
        if self.power_is_off:
            raise ValueError("the power of this disk was cut: take its image, then use a new disk")
        self._fault, self._armed = fault, True
        self.operations, self.struck = 0, None

    def disarm(self) -> None:
        self._armed = False

    def strike(self, operation: Operation) -> FaultKind | None:
        """Count an operation; return the kind of fault that hits it, if one does."""
        if self.power_is_off:
            return "power_cut"
        if not self._armed:
            return None
        self.operations += 1
        if self._fault is None or not self._is_due(self._fault):
            return None
        self.struck = self.struck or operation
        self.power_is_off = self._fault.kind == "power_cut"
        return self._fault.kind

    def _is_due(self, fault: Fault) -> bool:
        if fault.kind == "disk_full":
            return self.operations >= fault.at
        return self.operations == fault.at
