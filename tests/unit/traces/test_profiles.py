"""Tool profiles: the parts of a call that are compared."""

from hashlib import sha256
from typing import Any

import pytest

from rote.errors import InvalidInput, LimitExceeded
from rote.traces import ToolProfile, tool_runtime_profile_hash
from rote.values.limits import PROFILE_FIELDS_MAX, TOOLS_MAX


def hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_the_whole_of_arguments_and_result_counts_unless_told_otherwise() -> None:
    profile = ToolProfile("search", "1")
    assert profile.normalized_args({"query": "a", "limit": 1.0}) == {"": {"query": "a", "limit": 1}}
    assert profile.result_fingerprint([1, None]) == hashed('{"":[1,null]}')
    assert not profile.side_effect_required
    assert profile.side_effect_fingerprint({"written": 1}) is None


def test_only_fields_that_are_there_count_and_null_is_there() -> None:
    profile = ToolProfile(
        "search",
        "1",
        normalized_args_fields=["/query", "/options/depth", "/missing", "/tags/1", "/tags/-"],
        tool_result_fingerprint_fields=("/hits/0/id", "/count"),
        side_effect_fingerprint_fields=("/files",),
    )
    args = {"query": None, "options": {"depth": 2}, "tags": ["a", "b"], "request_id": "r-17"}
    assert profile.normalized_args(args) == {"/query": None, "/options/depth": 2, "/tags/1": "b"}
    assert profile.result_fingerprint({"hits": [{"id": "x"}], "ms": 5}) == hashed(
        '{"/hits/0/id":"x"}'
    )
    assert profile.side_effect_required
    assert profile.side_effect_fingerprint({}) == hashed("{}")
    assert profile.side_effect_fingerprint({"files": ["a"], "at": 1}) == hashed('{"/files":["a"]}')


def test_keys_that_look_like_pointers_are_found_by_their_escapes() -> None:
    profile = ToolProfile("t", "1", normalized_args_fields=("/a~1b", "/m~0n"))
    assert profile.normalized_args({"a/b": 1, "m~n": 2}) == {"/a~1b": 1, "/m~0n": 2}


def test_arguments_are_normalized_by_json_v1() -> None:
    normal = ToolProfile("t", "1").normalized_args({"e\u0301": 0.1 + 0.2, "x": 1.00000004})
    assert normal == {"": {"\u00e9": 0.3, "x": 1}}


def test_the_hash_of_the_tools_is_that_of_their_dictionaries_in_the_order_of_names() -> None:
    one = ToolProfile("b", "1")
    two = ToolProfile("a", "2", side_effect_fingerprint_fields=("/x", "/a"))
    expected = hashed(
        '[{"hash_algorithm":"sha256","normalization_version":"json-v1","normalized_args_fields":[""],'
        '"side_effect_fingerprint_fields":["/x","/a"],"tool_name":"a","tool_profile_version":"2",'
        '"tool_result_fingerprint_fields":[""]},'
        '{"hash_algorithm":"sha256","normalization_version":"json-v1","normalized_args_fields":[""],'
        '"side_effect_fingerprint_fields":[],"tool_name":"b","tool_profile_version":"1",'
        '"tool_result_fingerprint_fields":[""]}]'
    )
    assert (
        tool_runtime_profile_hash([one, two]) == tool_runtime_profile_hash([two, one]) == expected
    )
    assert tool_runtime_profile_hash([]) == hashed("[]")


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool_name": ""},
        {"tool_profile_version": 1},
        {"normalized_args_fields": "/query"},
        {"normalized_args_fields": None},
        {"normalized_args_fields": ("query",)},
        {"normalized_args_fields": ("/a~2",)},
        {"normalized_args_fields": (5,)},
        {"normalized_args_fields": ("/a", "/a")},
        {"tool_result_fingerprint_fields": ("/\u00e9", "/e\u0301")},
        {"side_effect_fingerprint_fields": ("/\ud800",)},
    ],
    ids=ascii,
)
def test_what_is_no_profile_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ToolProfile(**{"tool_name": "t", "tool_profile_version": "1", **wrong})


def test_a_run_has_one_profile_for_each_tool_and_a_bound_on_them() -> None:
    with pytest.raises(InvalidInput, match="two profiles"):
        tool_runtime_profile_hash([ToolProfile("t", "1"), ToolProfile("t", "2")])
    with pytest.raises(InvalidInput, match="ToolProfiles"):
        tool_runtime_profile_hash(["t"])  # type: ignore[list-item]
    with pytest.raises(LimitExceeded):
        tool_runtime_profile_hash(ToolProfile(str(n), "1") for n in range(TOOLS_MAX + 1))
    with pytest.raises(LimitExceeded):
        fields = tuple(f"/{n}" for n in range(PROFILE_FIELDS_MAX + 1))
        ToolProfile("t", "1", normalized_args_fields=fields)


def test_a_profile_cannot_be_changed_through_what_it_was_made_from() -> None:
    fields = ["/a"]
    profile = ToolProfile("t", "1", normalized_args_fields=fields)
    fields.append("/b")
    assert profile.normalized_args({"a": 1, "b": 2}) == {"/a": 1}
    assert profile == ToolProfile("t", "1", normalized_args_fields=("/a",))
    assert hash(profile) == hash(ToolProfile("t", "1", normalized_args_fields=("/a",)))
    with pytest.raises(AttributeError):
        profile.tool_name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "profile",
    [
        ToolProfile("search", "1"),
        ToolProfile(
            "mail", "2", normalized_args_fields=["/to"], side_effect_fingerprint_fields=[""]
        ),
    ],
    ids=str,
)
def test_a_profile_is_made_again_from_its_dictionary(profile: ToolProfile) -> None:
    assert ToolProfile.from_dict(profile.to_dict()) == profile


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"tool_name": ""},
        {"tool_profile_version": 1},
        {"normalized_args_fields": "/to"},
        {"normalized_args_fields": ["to"]},
        {"hash_algorithm": "md5"},
        {"normalization_version": "json-v2"},
    ],
    ids=str,
)
def test_another_dictionary_makes_no_profile(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ToolProfile.from_dict({**ToolProfile("search", "1").to_dict(), **change})


@pytest.mark.parametrize("profile", [None, [], "search", {}, {"tool_name": "search"}], ids=str)
def test_a_profile_lacks_no_member(profile: Any) -> None:
    with pytest.raises(InvalidInput, match=r"has the members of ToolProfile\.to_dict"):
        ToolProfile.from_dict(profile)
