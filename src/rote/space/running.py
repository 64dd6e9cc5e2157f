"""The seam to runs, which are a layer above: rote.open gives a store the object that starts, lists and
recovers them."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from rote.contract import Head, SpaceInfo
from rote.errors import Unavailable
from rote.values import Json

if TYPE_CHECKING:
    from rote.runs.ledger import RunRecord
    from rote.runs.run import Run
    from rote.traces.models import ModelConfig
    from rote.traces.profiles import ToolProfile


class RunStart(Struct, frozen=True):
    """The space, branch and version that a run begins with."""

    space: SpaceInfo
    branch: str
    pinned: Head | None  # None: at the head


class Runs(Protocol):
    """The runs of one store."""

    def start(
        self,
        place: RunStart,
        *,
        workflow_id: str,
        model: "ModelConfig | None",
        policy_set_id: str,
        mode: str,
        tools: "Sequence[ToolProfile]",
        validate: str,
        run_id: str | None,
        commit_policy: Callable[[list[dict[str, Any]]], bool] | None,
        record: str | PathLike[str] | bool | None,
        replay: str | PathLike[str] | None,
    ) -> "Run": ...

    def records(self) -> "list[RunRecord]": ...

    def origin(self, record: "RunRecord") -> dict[str, Json]: ...

    def recover(self) -> "list[RunRecord]": ...

    def recover_if_possible(self) -> None:
        """Recover, unless the store cannot be written now or is damaged."""
        ...

    def close(self) -> None:
        """Give up leases that no run needs any more."""
        ...


def check_runs(runs: Runs | None) -> Runs:
    if runs is None:
        raise Unavailable("this store was wired without runs; open it with rote.open")
    return runs
