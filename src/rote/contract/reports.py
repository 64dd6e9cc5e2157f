"""The report of verify, and the faults in it. Frozen values, also sent over the wire."""

from msgspec import Struct, to_builtins

from rote.values import Json

# The kind of the fault when a checkpoint cannot be proven, because its commit was compacted away.
UNDECIDED = "compacted"


class Fault(Struct, frozen=True):
    """One thing in a store that is not as it was written."""

    kind: str  # a stable word: "fact", "commit", "head", "snapshot", "key", …
    version: int | None  # the place in the log; None when the fault is not in the log
    id: str | None  # the entity or row
    message: str

    def __str__(self) -> str:
        place = "" if self.version is None else f" at version {self.version}"
        entity = "" if self.id is None else f" {self.id}"
        return f"{self.kind}{entity}{place}: {self.message}"


class VerifyReport(Struct, frozen=True):
    """The outcome of verify: ok only when no fault at all was found."""

    ok: bool
    version: int  # the newest version that was checked
    head: str | None  # its hash
    facts: int
    commits: int
    erased: int
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()  # entities that hold what could not be written today
    oldest: int = 1  # the version that history begins with

    def to_dict(self) -> dict[str, Json]:
        builtins: dict[str, Json] = to_builtins(self)
        return builtins
