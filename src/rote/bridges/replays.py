"""Replay of a run that the ledger and its files tell of: built again from them, with a function in the
place of the program that was recorded.

    ledger       space, workflow, policy, mode
    trace.json   model and tools; what the run did, to compare with
    recording    the replies of tools and model, and the state that it began with

Nothing is written by a replay; in a store that is open read only, not even that it took place.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from rote.bridges.trace_files import companion_of, named_recording, read_trace
from rote.contract import Commit, Fact
from rote.contract.run_modes import LIVE
from rote.errors import (
    Compacted,
    Corrupt,
    InternalError,
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    NotFound,
    RunAborted,
    Unavailable,
)
from rote.recordings.recordings import PARTIAL_ENDING
from rote.runs.identities import parse_snapshot_id
from rote.runs.ledger import RunRecord
from rote.runs.life import KEY_PREFIX
from rote.runs.run import Run
from rote.runs.trace_files import RECORDING_NAME, TRACE_NAME
from rote.space import Space
from rote.traces import ModelConfig, Report, ToolProfile, compare_traces
from rote.traces.artifacts import member, members
from rote.traces.recorded_calls import Origin, RecordedLine, is_tool_call
from rote.values import Json
from rote.values.limits import ERROR_CHAIN_MAX

# The store failed, not the program: nothing can be said of it.
_STORE_FAILURES = (Unavailable, Corrupt, Compacted, InternalError)


class Original(Struct, frozen=True):
    """A recorded run: all that it takes to run it again, and to compare."""

    record: RunRecord
    policy_set_id: str
    model: ModelConfig | None
    tools: list[ToolProfile]
    recording: Path
    adapter_calls: int  # in the recording, without those that are tool calls of the trace
    has_failed: bool  # its block raised
    trace: bytes
    retrieval: bytes | None


class Outcome(Struct, frozen=True):
    """The result of a replay."""

    status: Literal["equal", "different", "cannot_say"]
    run: Run
    error: BaseException | None  # what left the block, also where it was expected
    report: Report | None = None  # None when the replay parted before its end


def read_original(
    record: RunRecord, policy_set_id: str, folder: Path, recording: Path | None
) -> Original:
    """Read the files of a run; an error says why it cannot be replayed.

    folder     of its files
    recording  None for the one in the folder
    """
    if record.mode == LIVE:
        raise InvalidInput(f"the run {record.run_id} was live, and live runs are not recorded")
    trace, data, retrieval = _read_trace(record.run_id, folder)
    metadata = member(trace, "metadata")
    if type(metadata) is not dict or not {"model", "tools"} <= metadata.keys():
        raise InvalidInput(
            f"the trace of {record.run_id} does not say its model and its tools, because another"
            " program or an earlier Rote made it; replay it in Python: space.run(…, replay=FILE)"
        )
    model = metadata["model"]
    origin = Origin(metadata.get("recording"), member(trace, "memory_snapshot_id"))
    tools = [ToolProfile.from_dict(tool) for tool in members(metadata, "tools")]
    path, adapter_calls = _find_recording(record.run_id, origin, tools, folder, recording)
    return Original(
        record=record,
        policy_set_id=policy_set_id,
        model=None if model is None else ModelConfig.from_dict(model),
        tools=tools,
        recording=path,
        adapter_calls=adapter_calls,
        has_failed=metadata.get("discarded") is True,
        trace=data,
        retrieval=retrieval,
    )


def _read_trace(run_id: str, folder: Path) -> tuple[Json, bytes, bytes | None]:
    """Return the trace of a run, its bytes, and those of its retrieval trace if it has one."""
    path = folder / TRACE_NAME
    if not path.is_file():
        raise NotFound(
            f"the run {run_id} has no {TRACE_NAME} in {folder}: its traces are elsewhere (--traces"
            " names their folder), it has not ended, or it was killed, and then it cannot be replayed",
            run_id=run_id,
        )
    file, companion = read_trace(path), companion_of(path)
    retrieval = read_trace(companion).data if companion.is_file() else None
    try:
        return file.decoded(), file.data, retrieval
    except (InvalidValue, LimitExceeded) as error:
        raise InvalidInput(f"{path}: {error}", path=str(path)) from None


def _find_recording(
    run_id: str, origin: Origin, tools: list[ToolProfile], folder: Path, named: Path | None
) -> tuple[Path, int]:
    """Return the recording of a run and the number of its adapter calls; only the bytes that its trace
    names are taken."""
    if origin.digest is None:
        raise NotFound(
            f"the run {run_id} was not recorded; start runs with record=True", run_id=run_id
        )
    path = folder / RECORDING_NAME if named is None else named
    # After a kill in the last moment, a recording that is whole has not got its name.
    unnamed = path.with_name(path.name + PARTIAL_ENDING)
    if not path.is_file() and unnamed.is_file():
        with suppress(InvalidInput):
            return unnamed, _adapter_calls(unnamed, origin, tools)
    if not path.is_file():
        raise NotFound(
            f"there is no recording {path}; name that of {run_id} with --recording", run_id=run_id
        )
    try:
        return path, _adapter_calls(path, origin, tools)
    except InvalidInput as problem:
        raise InvalidInput(
            f"{path} is not the recording of {run_id}: {problem}; name the right one with --recording",
            path=str(path),
        ) from None


def _adapter_calls(path: Path, origin: Origin, tools: list[ToolProfile]) -> int:
    """Return how many adapter calls the recording of a trace has; InvalidInput when it is another's."""
    profiles, count = {tool.tool_name: tool for tool in tools}, 0

    def take(line: RecordedLine) -> None:
        nonlocal count
        count += line.kind == "adapter" and not is_tool_call(line, profiles)

    named_recording(path).read(origin, take)
    return count


def replay(original: Original, space: Space, function: Callable[[Run], object]) -> Outcome:
    """Run a function in the place of a recorded program, and compare."""
    record = original.record
    run = space.run(
        workflow_id=record.workflow_id,
        model=original.model,
        policy_set_id=original.policy_set_id,
        mode=record.mode,
        tools=original.tools,
        validate=record.validate,
        replay=original.recording,
    )
    error = _error_of(run, function)
    if error is not None and not (original.has_failed and parting_of(error) is None):
        return Outcome("different", run, error)
    report = compare_traces(
        original.trace,
        run.trace,
        left_retrieval=original.retrieval,
        right_retrieval=None if original.retrieval is None else run.retrieval_trace,
    )
    status: Any = {"equivalent": "equal", "different": "different"}.get(report.status, "cannot_say")
    return Outcome(status, run, error, report)


def _error_of(run: Run, function: Callable[[Run], object]) -> BaseException | None:
    """Return what a function raises in a run; Ctrl-C and failures of the store are raised."""
    has_begun = False
    try:
        with run:
            has_begun = True
            function(run)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit too is something that the program does
        if not has_begun or isinstance(error, _STORE_FAILURES):
            raise
        return error
    return None


def parting_of(error: BaseException) -> InvalidInput | RunAborted | None:
    """Return the error by which a replay left its recording: this one, or the first that led to it."""
    found: InvalidInput | RunAborted | None = None
    for each in _chain(error):
        match each:
            case InvalidInput(code="replay_differs") | RunAborted(reason_code="payload_mismatch"):
                found = each
    return found


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it, the last one first."""
    for _ in range(ERROR_CHAIN_MAX):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


class EntityWrites(Struct, frozen=True):
    """Writes of one entity, from the first that differs on."""

    id: str
    recorded: list[Fact] | None  # None when the commit of the recorded run cannot be looked at
    made: list[dict[str, Any]]  # operations


def differing_writes(original: Original, space: Space, run: Run) -> list[EntityWrites]:
    """Return the entities that a replay would write otherwise than the recorded run has written."""
    made: dict[str, list[dict[str, Any]]] = {}
    for operation in run.operations:
        made.setdefault(operation["id"], []).append(operation)
    commit = _commit_of(original.record, space)
    if commit is None:
        return [EntityWrites(id, None, operations) for id, operations in made.items()]
    recorded: dict[str, list[Fact]] = {}
    for fact in commit.facts:
        recorded.setdefault(fact.id, []).append(fact)
    differing = []
    for id in dict.fromkeys([*recorded, *made]):
        facts, operations = recorded.get(id, []), made.get(id, [])
        same = sum(1 for _ in takewhile(bool, map(_is_same, facts, operations)))
        if facts[same:] or operations[same:]:
            differing.append(EntityWrites(id, facts[same:], operations[same:]))
    return differing


def reordered_writes(
    original: Original, space: Space, run: Run
) -> tuple[list[str], list[str]] | None:
    """Return the entities in the order in which the recorded run and the replay write them; None when
    the order is the same or not known."""
    commit = _commit_of(original.record, space)
    if commit is None:
        return None
    then, now = [fact.id for fact in commit.facts], [each["id"] for each in run.operations]
    return (then, now) if then != now and sorted(then) == sorted(now) else None


def _commit_of(record: RunRecord, space: Space) -> Commit | None:
    if record.version is None:
        return None
    try:
        commit = space.commit(record.version)
    except NotFound:  # compacted away, or another space
        return None
    return commit if commit.key == f"{KEY_PREFIX}{record.commit_id}" else None


def _is_same(fact: Fact, operation: dict[str, Any]) -> bool:
    """Whether an operation became a fact. Stamped members have got the time of the commit."""
    if operation["op"] == "patch" and fact.op == "patch":
        return fact.body is not None and fact.body[: len(operation["ops"])] == operation["ops"]
    stamps = operation.get("else_stamp", operation.get("stamp", ()))
    unstamped = {pointer.removeprefix("/"): None for pointer in stamps}
    body, value = fact.body, operation.get("else", operation.get("value"))
    if type(body) is dict and type(value) is dict:
        body, value = {**body, **unstamped}, {**value, **unstamped}
    op = "set" if "else" in operation else operation["op"]
    return bool((fact.op, body) == (op, value))


def erased_since(space: Space, memory_snapshot_id: str) -> tuple[str, int] | None:
    """Return an entity of a snapshot that was erased since, and the version that erased it."""
    start = parse_snapshot_id(memory_snapshot_id)
    then = space.on(start.branch).at(start.version)
    for commit in space.log(since=start.version):
        event: dict[str, Any] = commit.event or {}
        if event.get("type") == "erase":
            for id in event.get("ids", [event.get("id")]):
                if then.read(id).erased:
                    return id, commit.version
    return None
