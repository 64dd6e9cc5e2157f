"""docs/schemas/ agrees with the code, and an independent judge agrees with check."""

from typing import Any

import jsonschema_rs
import pytest

from rote.traces.json_schemas import json_schemas
from rote.values import fingerprint
from tests.unit.traces.test_checking import (
    ALLOWED,
    BOOLEANS,
    HASHES,
    INTEGERS,
    LISTS,
    OBJECTS,
    OPTIONAL_BOOLEANS,
    OPTIONAL_HASHES,
    REPLIES,
    REQUIRED,
    TEXTS,
    VERSIONS,
    name,
)
from tests.unit.traces.traces import Change, changed, changing, good_run, without
from tools.schemas import FOLDER, files

SCHEMAS = json_schemas()
JUDGES = {key: jsonschema_rs.Draft202012Validator(schema) for key, schema in SCHEMAS.items()}
NAMES = {"trace": "memory.determinism_trace.v1", "retrieval": "memory.retrieval_trace.v1"}

PROFILE = {
    "tool_name": "search",
    "tool_profile_version": "1",
    "normalized_args_fields": ["", "/query"],
    "tool_result_fingerprint_fields": [""],
    "side_effect_fingerprint_fields": [],
    "hash_algorithm": "sha256",
    "normalization_version": "json-v1",
}
BUFFER = {"run_id": "r", "state": "commit_applied", "discarded": False, "reason_code": None}


def is_valid(run: Any, part: str) -> bool:
    return JUDGES[NAMES[part]].is_valid(run[part])


def test_the_published_files_are_what_the_code_makes() -> None:
    published = {path.name: path.read_bytes() for path in FOLDER.glob("*")}
    assert published == files(), "run make schemas"


def test_there_are_four_and_each_is_a_schema() -> None:
    assert sorted(SCHEMAS) == [
        "memory.buffer_state_machine.v1", "memory.determinism_trace.v1",
        "memory.retrieval_trace.v1", "memory.tool_profile.v1",
    ]  # fmt: skip
    for schema in SCHEMAS.values():
        jsonschema_rs.meta.validate(schema)


def test_a_good_trace_conforms() -> None:
    assert all(is_valid(good_run(), part) for part in NAMES)


@pytest.mark.parametrize("change", [each[1] for each in ALLOWED], ids=[each[0] for each in ALLOWED])
def test_what_check_allows_conforms(change: Change) -> None:
    assert all(is_valid(changing(change), part) for part in NAMES)


@pytest.mark.parametrize("path", REQUIRED, ids=name)
def test_what_lacks_a_member_does_not_conform(path: tuple[str | int, ...]) -> None:
    assert not is_valid(changing(without(*path)), str(path[0]))


WRONG: list[tuple[list[Any], Any]] = [
    (TEXTS, ""), (TEXTS, 1), (HASHES, "A" * 64), (HASHES, "a" * 64 + "\n"), (VERSIONS, "v2"),
    (INTEGERS, True), (INTEGERS, "1"), (INTEGERS, -1), (BOOLEANS, 1), (OBJECTS, []), (LISTS, {}),
    (OPTIONAL_BOOLEANS, 1), (OPTIONAL_BOOLEANS, None), (OPTIONAL_HASHES, "A" * 64),
    (OPTIONAL_HASHES, 1), ([REPLIES], None), ([REPLIES], [""]),
]  # fmt: skip


@pytest.mark.parametrize(("paths", "value"), WRONG)
def test_what_has_a_wrong_member_does_not_conform(paths: list[Any], value: Any) -> None:
    for path in paths:
        assert not is_valid(changing(changed(*path, to=value)), str(path[0])), path


def test_a_side_effect_has_a_fingerprint_exactly_when_it_is_required() -> None:
    call = ("trace", "events", 0, "tool_calls")
    for change in (
        changed(*call, 0, "side_effect_fingerprint", to="a" * 64),
        changed(*call, 1, "side_effect_fingerprint", to=None),
        changed(*call, 0, "side_effect_required", to=True),
    ):
        assert not is_valid(changing(change), "trace")


def test_the_three_structural_examples_are_in_the_schema_with_their_hashes() -> None:
    found = SCHEMAS["memory.determinism_trace.v1"]["$defs"]["Output"]["examples"]
    assert [example["output_type"] for example in found] == ["text", "plan", "code_patch"]
    for example in found:
        assert example["output_shape_hash"] == fingerprint(example["shape"])


PROFILES: list[tuple[dict[str, Any], bool]] = [
    ({}, True), ({"more": 1}, True), ({"hash_algorithm": "md5"}, False), ({"tool_name": ""}, False),
    ({"normalized_args_fields": ["query"]}, False), ({"normalized_args_fields": ""}, False),
    ({"normalization_version": "json-v2"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("change", "valid"), PROFILES)
def test_a_tool_profile_conforms_or_not(change: dict[str, Any], valid: bool) -> None:
    assert JUDGES["memory.tool_profile.v1"].is_valid({**PROFILE, **change}) is valid


BUFFERS: list[tuple[dict[str, Any], bool]] = [
    ({}, True), ({"state": "buffer_open", "discarded": True}, True), ({"state": "open"}, False),
    ({"state": "commit_aborted", "reason_code": "payload_mismatch"}, True),
    ({"state": "commit_aborted"}, False), ({"reason_code": "policy_rejected"}, False),
    ({"state": "commit_aborted", "reason_code": "bored"}, False), ({"discarded": 0}, False),
]  # fmt: skip


@pytest.mark.parametrize(("change", "valid"), BUFFERS)
def test_the_state_of_a_buffer_conforms_or_not(change: dict[str, Any], valid: bool) -> None:
    assert JUDGES["memory.buffer_state_machine.v1"].is_valid({**BUFFER, **change}) is valid
