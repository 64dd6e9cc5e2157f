"""The four artifacts as they are written: their members and the types of these.

These classes are the only definition. The decoder of valid artifacts, the check that names faults
(conformance.py) and the published JSON Schemas (json_schemas.py) are made from them; the docstrings
here are their descriptions. Frozen: another required member is a new version. A member with a
default may be missing. Other members are allowed and never compared.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from rote.contract.run_modes import Mode
from rote.values.limits import INTEGER_MAX

# The code of a failure in a version, instead of `value`.
_VERSION = Meta(extra={"code": "version"})

Text = Annotated[str, Meta(min_length=1)]
# The lengths are needed in Python, whose `$` allows a line break before the end.
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", min_length=64, max_length=64)]
Count = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Index = Annotated[int, Meta(ge=0, le=INTEGER_MAX, extra={"code": "index"})]
Rank = Annotated[int, Meta(ge=1, le=INTEGER_MAX, extra={"code": "order"})]
Pointer = Annotated[str, Meta(pattern="^(/.*)?$")]
Normalization = Annotated[Literal["json-v1"], _VERSION]
# Kept as texts: equal texts are equal arguments, and most texts are equal.
Arguments = dict[str, Raw]


class Metadata(Struct, frozen=True, gc=False):
    """The number of events that were cut off."""

    truncated: bool
    events_dropped: Count


class RunMetadata(Metadata, frozen=True, gc=False):
    """The number of events that were cut off, and facts about the run; these may be missing."""

    model_fixed: bool = True  # whether the model gives the same replies again
    replayed: bool = False  # whether the replies came from a recording
    recording: Hash | None = None  # SHA-256 of all bytes of the recording
    discarded: bool = False  # whether the block of the run raised
    commit_payload_fingerprint: Hash | None = None  # null when the block raised
    model_replies: list[Hash] = []  # fingerprints, in order


class ContractVersions(Struct, frozen=True, gc=False):
    """The formats that a trace relies on."""

    retrieval_trace: Annotated[Literal["memory.retrieval_trace.v1"], _VERSION]
    tool_profile: Annotated[Literal["memory.tool_profile.v1"], _VERSION]
    buffer_state_machine: Annotated[Literal["memory.buffer_state_machine.v1"], _VERSION]
    normalization: Normalization


class ToolCall(Struct, frozen=True, gc=False):
    """One call of a tool."""

    tool_name: Text
    tool_profile_version: Text
    normalization_version: Normalization
    normalized_args: Arguments
    tool_result_fingerprint: Hash
    side_effect_required: bool
    side_effect_fingerprint: Hash | None  # exactly when it is required
    is_recorded: bool = (
        True  # false for calls that a replay makes again, of which recordings have none
    )


class Event(Struct, frozen=True, gc=False):
    """One step of a run."""

    event_id: Text  # used only for links within the run
    index: Index  # its place
    role: Text
    interceptor: Text
    decision_type: Text
    tool_calls: list[ToolCall]
    guardrails_triggered: list[Text]
    retrieval_event_ids: list[Text]
    model_calls: Count | None = None  # how often it asked the model; null when that is not known
    adapter_calls: Count = 0  # calls of adapters without a profile, since the event before


class Output(Struct, frozen=True, gc=False):
    """The output of a run: its structure, not its words."""

    output_type: Text
    output_shape_hash: Hash
    normalization_version: Normalization


class DeterminismTrace(Struct, frozen=True, gc=False):
    """A run: its terms, its events and its output."""

    run_id: Text
    workflow_id: Text
    memory_snapshot_id: Text
    visibility_mode: Annotated[Mode, Meta(extra={"code": "mode"})]
    model_config_id: Text
    policy_set_id: Text
    determinism_trace_schema_version: Annotated[Literal["memory.determinism_trace.v1"], _VERSION]
    contract_versions: ContractVersions
    events: list[Event]
    output: Output
    metadata: RunMetadata


class SelectedRecord(Struct, frozen=True, gc=False):
    """A memory that was returned."""

    record_id: Text
    record_type: Text
    score: float
    rank: Rank  # by score descending, then record_id


class AppliedFilters(Struct, frozen=True, gc=False):
    """The filters that were applied before ranking; null for a filter that was not used."""

    namespace: Any
    tags: Any
    trust: Any
    scope: Any
    ttl: Any


class RetrievalEvent(Struct, frozen=True, gc=False):
    """One question to memory, and the records that answered it."""

    retrieval_event_id: Text
    run_id: Text
    event_id: Text
    policy_id: Text
    policy_version: Text
    query_normalization_version: Text
    query_fingerprint: Hash
    retrieval_mode: Text  # lexical, text_to_vector, vector_direct, or another
    candidate_count: Count  # never less than were selected
    selected_records: list[SelectedRecord]
    applied_filters: AppliedFilters


class RetrievalTrace(Struct, frozen=True, gc=False):
    """All questions of a run to its memory."""

    retrieval_trace_schema_version: Annotated[Literal["memory.retrieval_trace.v1"], _VERSION]
    events: list[RetrievalEvent]
    metadata: Metadata


class ToolProfileDocument(Struct, frozen=True, gc=False):
    """JSON pointers to the compared parts of a tool's calls; the empty pointer is everything."""

    tool_name: Text
    tool_profile_version: Text
    normalized_args_fields: list[Pointer]
    tool_result_fingerprint_fields: list[Pointer]
    side_effect_fingerprint_fields: list[Pointer]
    hash_algorithm: Literal["sha256"]
    normalization_version: Normalization


BufferState = Literal["buffer_open", "commit_pending", "commit_applied", "commit_aborted"]
AbortReason = Literal[
    "policy_rejected", "validation_failed", "storage_apply_failed", "payload_mismatch"
]


class BufferStateDocument(Struct, frozen=True, gc=False):
    """The state of the buffered writes of a run."""

    run_id: Text
    state: BufferState
    discarded: bool
    reason_code: AbortReason | None  # exactly when aborted
