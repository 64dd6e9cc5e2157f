"""Names and versions of the formats of traces. Frozen: other required fields are a new version."""

from typing import Literal

DETERMINISM_TRACE = "memory.determinism_trace.v1"
RETRIEVAL_TRACE = "memory.retrieval_trace.v1"
TOOL_PROFILE = "memory.tool_profile.v1"
BUFFER_STATE_MACHINE = "memory.buffer_state_machine.v1"
NORMALIZATION = "json-v1"
QUERY_NORMALIZATION = "query-v1"
HASH_ALGORITHM = "sha256"
# Scores are compared, ordered and written with so many decimals.
SCORE_DECIMALS = 9

# The mode decides what a run may read and write. The last one is never deterministic.
Mode = Literal["off", "read_only", "buffered_write", "live_read_write"]
LIVE: Mode = "live_read_write"

CONTRACT_VERSIONS = {
    "retrieval_trace": RETRIEVAL_TRACE,
    "tool_profile": TOOL_PROFILE,
    "buffer_state_machine": BUFFER_STATE_MACHINE,
    "normalization": NORMALIZATION,
}
