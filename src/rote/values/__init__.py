"""Values: canonical JSON, fingerprints, identities, times, names and limits. Pure functions."""

from rote.values.canonical import Encoded, canonical, digest, fingerprint, json_v1, sha256_hex
from rote.values.decoding import decode, decode_canonical
from rote.values.depth import depth_of
from rote.values.identity import Identity, check_did, verify_signature
from rote.values.names import (
    check_attempt,
    check_author,
    check_branch_name,
    check_entity_id,
    check_key,
    check_reason,
    check_run_id,
    check_space_name,
    check_trace_name,
)
from rote.values.times import datetime_of, format_time, micros_of, parse_time
from rote.values.types import Json

__all__ = [
    "Encoded",
    "Identity",
    "Json",
    "canonical",
    "check_attempt",
    "check_author",
    "check_branch_name",
    "check_did",
    "check_entity_id",
    "check_key",
    "check_reason",
    "check_run_id",
    "check_space_name",
    "check_trace_name",
    "datetime_of",
    "decode",
    "decode_canonical",
    "depth_of",
    "digest",
    "fingerprint",
    "format_time",
    "json_v1",
    "micros_of",
    "parse_time",
    "sha256_hex",
    "verify_signature",
]
