"""Names and versions of the formats of traces. Frozen: other required fields are a new version."""

DETERMINISM_TRACE = "memory.determinism_trace.v1"
RETRIEVAL_TRACE = "memory.retrieval_trace.v1"
TOOL_PROFILE = "memory.tool_profile.v1"
BUFFER_STATE_MACHINE = "memory.buffer_state_machine.v1"
NORMALIZATION = "json-v1"
QUERY_NORMALIZATION = "query-v1"
HASH_ALGORITHM = "sha256"
# Scores are compared, ordered and written with so many decimals.
SCORE_DECIMALS = 9

CONTRACT_VERSIONS = {
    "retrieval_trace": RETRIEVAL_TRACE,
    "tool_profile": TOOL_PROFILE,
    "buffer_state_machine": BUFFER_STATE_MACHINE,
    "normalization": NORMALIZATION,
}
