"""The names users type are these. A name is added or removed only here and in CHANGELOG.md."""

import inspect
from collections.abc import Callable, Iterable
from importlib.metadata import version

import pytest

import rote
from rote import errors
from rote.runs.events import Event

NAMES = [
    "BlobInfo", "Branch", "Change", "Commit", "Compaction", "CopyReport", "DELETE", "Effects", "Embedder",
    "Erasure",
    "Fact", "Failure", "Fault", "GcReport", "Host", "Memory",
    "MergeConflict", "MergeResult", "ModelConfig", "Pending", "ReadConflict", "Report", "RoteError",
    "Run", "RunRecord", "Session", "Space", "SpaceErasure", "State", "Store", "ToolProfile",
    "Transaction", "VerifyReport", "aio", "canonical", "check_trace", "compare_traces", "delegate", "digest",
    "errors", "fingerprint", "json_v1", "open", "package_text", "patch", "receipt", "retrieve", "traces",
]  # fmt: skip

SIGNATURES: dict[Callable[..., object], str] = {
    rote.open: "(url, *, durability, author, modes, lease_seconds, traces, keys, schema, clock, ids,"
    " create, recover, read_only, key, token, proofs, timeout)",
    rote.canonical: "(value, *, depth_max)",
    rote.json_v1: "(value)",
    rote.digest: "(value)",
    rote.fingerprint: "(value)",
    rote.check_trace: "(trace, retrieval, *, size_bytes_max)",
    rote.compare_traces: "(left, right, *, left_retrieval, right_retrieval, left_recording,"
    " right_recording, level, size_bytes_max)",
    rote.traces.retrieval_event: "(request, package, *, run_id, event_id, retrieval_event_id)",
    rote.delegate: "(seed, *, to, space, right, path, seconds, not_before)",
    rote.patch.apply: "(value, operations)",
    rote.patch.diff: "(before, after)",
}

MEMBERS: dict[type, dict[str, str | None]] = {
    # None: an attribute or a property.
    rote.Store: {
        "add_receipt": "(self, space, receipt, *, since)",
        "receipts": "(self)",
        "recover": "(self)",
        "run_origin": "(self, record)",
        "runs": "(self)",
        "backup": "(self, path)",
        "close": "(self)",
        "copy": "(self, name, target, *, with_key, progress)",
        "erase_space": "(self, name, *, reason, confirm)",
        "space": "(self, name)",
        "spaces": "(self)",
    },
    rote.Space: {
        "acl": "(self)",
        "at": "(self, point)",
        "blob": "(self, hash)",
        "blob_info": "(self, hash)",
        "branch": None,
        "branches": "(self)",
        "checkpoint": "(self)",
        "commit": "(self, version)",
        "compact": "(self, *, before, keep, dry_run, key, progress)",
        "create_branch": "(self, name, *, at, key)",
        "delete": "(self, id, *, key)",
        "delete_branch": "(self, name, *, key)",
        "did": None,
        "diff": "(self, other)",
        "erase": "(self, ids, *, reason, key)",
        "facts": "(self, id)",
        "find": "(self, index, *, start, end, after, within, limit, descending)",
        "gc": "(self, *, grace_seconds, progress)",
        "get": "(self, id, default)",
        "get_vectors": "(self, name, hashes)",
        "glance": "(self, id, *, values, sizes, may_be_new, is_noted)",
        "grant": "(self, did, right)",
        "head": None,
        "history": "(self, id, *, limit)",
        "is_pinned": None,
        "last_change": None,
        "log": "(self, *, since, before, limit, newest)",
        "made": "(self, key, call, ids)",
        "merge": "(self, source, *, on_conflict, resolutions, dry_run, key)",
        "name": None,
        "newest_version": None,
        "now": None,
        "oldest": None,
        "on": "(self, branch)",
        "open_store": None,
        "open_blob": "(self, hash)",
        "patch": "(self, id, ops, *, key)",
        "postings": "(self, index, terms, *, known, within)",
        "put_blob": "(self, data, content_type, *, labels, expect, key)",
        "put_vectors": "(self, name, vectors, *, since)",
        "query": "(self, query)",
        "read": "(self, id)",
        "read_many": "(self, ids)",
        "reindex": "(self, *, progress)",
        "retry": "(self, function, *, attempts)",
        "revoke": "(self, delegation)",
        "rotate": "(self, old, new)",
        "run": "(self, *, workflow_id, model, policy_set_id, mode, tools, validate, run_id,"
        " commit_policy, record, replay)",
        "scan": "(self, prefix, *, after, limit)",
        "searching": None,
        "scan_range": "(self, start, end, *, after, limit, descending)",
        "skip": "(self, prefix, count)",
        "set": "(self, id, value, *, key)",
        "settle": "(self, attempt)",
        "transact": "(self, operations, *, reads, key, meta, call)",
        "session": "(self, *, watch, journal, timeout)",
        "transaction": "(self, *, key, meta)",
        "update": "(self, id, function, *, attempts)",
        "values": "(self, query)",
        "verify": "(self, *, against, progress)",
        "version": None,
        "watch": "(self, query, *, since, timeout)",
        "withdraw": "(self, did)",
        "written": "(self, prefix, *, where)",
    },
    rote.Session: {
        "apply": "(self, function, *, attempts)",
        "at": "(self, point)",
        "branch": None,
        "close": "(self)",
        "confirmed": None,
        "delete": "(self, id, *, key)",
        "did": None,
        "dropped": None,
        "events": "(self, timeout)",
        "flush": "(self, timeout)",
        "get": "(self, id, default)",
        "head": None,
        "history": "(self, id, *, limit)",
        "name": None,
        "on": "(self, branch)",
        "patch": "(self, id, ops, *, key)",
        "pause": "(self)",
        "pending": None,
        "query": "(self, query)",
        "read": "(self, id)",
        "read_many": "(self, ids)",
        "resume": "(self)",
        "scan": "(self, prefix, *, after, limit)",
        "set": "(self, id, value, *, key)",
        "state": None,
        "transact": "(self, operations, *, reads, key, meta)",
        "transaction": "(self, *, key, meta)",
        "update": "(self, id, function, *, attempts)",
        "values": "(self, query)",
        "version": None,
        "watch": "(self, query, *, timeout)",
    },
    rote.Pending: {
        "branch": None,
        "cancel": "(self, timeout)",
        "commit": None,
        "depends": None,
        "error": None,
        "local": None,
        "operations": None,
        "status": None,
        "wait": "(self, timeout)",
    },
    rote.Memory: {
        "append": "(self, namespace, kind, id, entry, ttl_seconds, metadata, *, key, if_version)",
        "call": "(self, verb, arguments)",
        "capabilities": "(self)",
        "check_namespace": "(self, namespace)",
        "default_ttl": "(self, namespace)",
        "delete": "(self, namespace, kind, id, *, key, if_version)",
        "embed": "(self, embedder, progress)",
        "entity_id": None,
        "get": "(self, namespace, kind, id, *, at, include)",
        "history": "(self, namespace, kind, id, *, limit)",
        "list": (
            "(self, namespace, kind, id_prefix, updated_since, filters, *, at, include, order,"
            " descending)"
        ),
        "erase": "(self, namespace, kind, id, *, id_prefix, filters, reason, dry_run)",
        "prune": "(self, namespace)",
        "put": "(self, namespace, kind, id, payload, ttl_seconds, metadata, *, key, if_version)",
        "put_many": "(self, records, *, key)",
        "retention_report": "(self, expire_soon_seconds, namespace, kinds)",
        "search": "(self, text, *, limit, filters, at, include, scoring)",
        "stats": "(self)",
        "touch": "(self, namespace, kind, id, *, key)",
        "update": (
            "(self, namespace, kind, id, *, payload, patch, metadata, ttl_seconds, key, if_version)"
        ),
    },
    rote.Host: {
        "call": "(self, adapter, verb, args)",
        "capabilities": "(self)",
        "close": "(self)",
        "record": "(self, path)",
        "replay": "(self, path)",
        "scope": "(self, *, run, frame, grant)",
    },
    rote.Run: {
        "add_retrieval": "(self, answer)",
        "commit": None,
        "delete": "(self, id)",
        "discarded": None,
        "event": "(self, *, role, interceptor, decision_type)",
        "get": "(self, id, default)",
        "glance": "(self, id, *, values, sizes)",
        "memory_of": "(self, settings)",
        "mode": None,
        "model_config_id": None,
        "output": "(self, value)",
        "patch": "(self, id, ops)",
        "operations": None,
        "payload_fingerprint": None,
        "policy_set_id": None,
        "query": "(self, query)",
        "read": "(self, id)",
        "reason_code": None,
        "retrieval_trace": None,
        "retrieve": "(self, request, *, dropped, embedder)",
        "run_id": None,
        "scan": "(self, prefix, *, after, limit)",
        "set": "(self, id, value)",
        "state": None,
        "trace": None,
        "validate": None,
        "values": "(self, query)",
        "workflow_id": None,
    },
    Event: {
        "call": "(self, tool_name, function, args)",
        "calls": "(self, calls, *, return_exceptions)",
        "guardrail": "(self, guardrail_id)",
        "id": None,
        "model": "(self, function, args)",
    },
    rote.Transaction: {
        "delete": "(self, id)",
        "get": "(self, id, default)",
        "patch": "(self, id, ops)",
        "read": "(self, id)",
        "scan": "(self, prefix, *, after, limit)",
        "set": "(self, id, value)",
        "version": None,
    },
}  # fmt: skip

FIELDS: dict[type, list[str]] = {
    rote.RunRecord: [
        "run_id", "workflow_id", "mode", "validate", "state", "discarded", "replayed", "reason_code",
        "commit_id", "version", "started_at", "ended_at", "to_dict",
    ],
    rote.State: ["id", "value", "exists", "version", "hash", "erased", "to_dict"],
    rote.Fact: [
        "id", "op", "body", "salt", "parent", "hash", "version", "index", "commit", "erased",
        "at", "author", "meta", "own_dict", "to_dict",
    ],
    rote.Commit: [
        "version", "hash", "previous", "branch", "facts", "at", "author", "key", "meta", "event",
        "to_dict",
    ],
    rote.VerifyReport: [
        "ok", "version", "head", "facts", "commits", "erased", "faults", "warnings", "oldest", "to_dict",
    ],
    rote.CopyReport: [
        "ok", "did", "name", "version", "head", "since", "commits", "sides", "blobs", "with_key",
        "verified", "to_dict",
    ],
    rote.Branch: [
        "name", "parent", "fork_version", "created_version", "head_version", "deleted", "to_dict",
    ],
    rote.Change: ["id", "kind", "before", "after", "patch", "to_dict"],
    rote.MergeConflict: ["id", "base", "ours", "theirs", "to_dict"],
    rote.MergeResult: ["status", "commit", "merged", "conflicts", "to_dict"],
    rote.Erasure: ["commit", "facts", "remaining", "blobs", "to_dict"],
    rote.BlobInfo: ["hash", "size", "content_type", "labels", "to_dict"],
    rote.Compaction: [
        "commit", "checkpoint", "facts", "commits", "oldest", "is_shrunk", "to_dict",
    ],
    rote.GcReport: [
        "blobs", "uploads", "size_bytes", "kept", "snapshots", "erasures", "is_shrunk", "to_dict",
    ],
    rote.Failure: [
        "code", "pointer", "left", "right", "message", "left_value", "right_value", "has_values",
    ],
    rote.Report: [
        "ok", "status", "failures", "more", "level", "truncated", "differences", "to_dict",
    ],
    rote.Fault: ["kind", "version", "id", "message"],
    rote.Effects: ["result", "effects"],
    rote.ModelConfig: [
        "provider_name", "model_name", "model_revision", "temperature", "top_p", "max_tokens",
        "frequency_penalty", "presence_penalty", "seed", "stochastic_unseeded",
        "deterministic_provider", "is_deterministic", "to_dict", "from_dict",
    ],
    rote.ToolProfile: [
        "tool_name", "tool_profile_version", "normalized_args_fields",
        "tool_result_fingerprint_fields", "side_effect_fingerprint_fields", "side_effect_required",
        "normalized_args", "result_fingerprint", "side_effect_fingerprint", "to_dict", "from_dict",
    ],
    rote.ReadConflict: [
        "id", "prefix", "start", "end", "branch", "expected_version", "actual_version",
        "actual_hash", "of_entity", "of_range",
    ],
}  # fmt: skip

# Public only because they hold the bytes that `body` and `meta` decode.
INTERNAL_FIELDS = {"data", "meta_data"}

# Class, the class above it, its code.
ERRORS = [
    ("RoteError", "Exception", "rote_error"),
    ("InvalidInput", "RoteError", "invalid_input"),
    ("InvalidValue", "InvalidInput", "invalid_value"),
    ("PatchFailed", "InvalidInput", "patch_failed"),
    ("NotFound", "RoteError", "not_found"),
    ("VersionNotFound", "NotFound", "version_not_found"),
    ("Compacted", "NotFound", "compacted"),
    ("SessionExpired", "NotFound", "session_expired"),
    ("Conflict", "RoteError", "conflict"),
    ("DependencyRejected", "Conflict", "dependency_rejected"),
    ("PayloadMismatch", "RoteError", "payload_mismatch"),
    ("Withdrawn", "RoteError", "withdrawn"),
    ("RunAborted", "RoteError", "run_aborted"),
    ("RecordedError", "RoteError", "recorded_error"),
    ("LimitExceeded", "RoteError", "limit_exceeded"),
    ("Denied", "RoteError", "denied"),
    ("SessionRevoked", "Denied", "session_revoked"),
    ("Unavailable", "RoteError", "unavailable"),
    ("Busy", "Unavailable", "busy"),
    ("Corrupt", "RoteError", "corrupt"),
    ("Diverged", "Corrupt", "diverged"),
    ("InternalError", "RoteError", "internal_error"),
]


def test_the_package_exports_these_names() -> None:
    assert sorted(rote.__all__) == sorted(NAMES)
    assert all(hasattr(rote, name) for name in NAMES)
    assert rote.__version__ == version("rote")


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_a_function_takes_these_arguments(function: Callable[..., object]) -> None:
    assert arguments(function) == SIGNATURES[function]


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.__name__)
def test_a_class_has_these_members_with_these_arguments(kind: type) -> None:
    members = {
        name: arguments(member) if inspect.isfunction(member) else None
        for part in kind.__mro__
        if part.__module__.startswith("rote.")
        for name, member in vars(part).items()
        if not name.startswith("_")
    }
    assert members == MEMBERS[kind]


def test_instances_have_these_attributes_of_their_own() -> None:
    with rote.open(":memory:") as store:
        space = store.space("names")
        transaction = space.transaction()
        assert public(vars(store)) == {"read_only", "url"}
        assert public(vars(space)) == set()
        assert public(vars(transaction)) == {"commit", "space"}


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_value_has_these_fields(kind: type) -> None:
    assert public(dir(kind)) - INTERNAL_FIELDS == set(FIELDS[kind])


def test_values_cannot_be_changed() -> None:
    conflict = rote.ReadConflict("urn:a:1", None, None, None, "main", 1, 2, None)
    with rote.open(":memory:") as store:
        space = store.space("names")
        commit = space.set("urn:a:1", 1)
        values = [commit, commit.facts[0], space.read("urn:a:1"), space.verify(), conflict]
    for value in [*values, rote.Fault("fact", 1, None, "it was changed")]:
        with pytest.raises(AttributeError):
            setattr(value, FIELDS[type(value)][0], "other")


def test_the_tree_of_errors_is_this_one() -> None:
    actual = [
        (name, kind.__bases__[0].__name__, kind.code)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.RoteError)
    ]
    assert actual == ERRORS


def test_an_error_tells_its_code_its_message_and_its_details() -> None:
    error = errors.LimitExceeded("the value in bytes", size=2, limit=1)
    assert error.to_dict() == {
        "code": "limit_exceeded",
        "message": str(error),
        "details": {"what": "the value in bytes", "size": 2, "limit": 1},
    }


def public(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def arguments(function: Callable[..., object]) -> str:
    """Return the names of the arguments, with `*` before those that only go by name."""
    shown, starred = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        shown.append(parameter.name)
    return f"({', '.join(shown)})"
