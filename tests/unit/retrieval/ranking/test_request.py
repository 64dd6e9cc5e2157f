"""A bad request to a policy of ranking always gives the same error; the first fault decides."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput, RoteError

GOOD: dict[str, Any] = {
    "policy": "lexical-1",
    "query": "what",
    "store_paths": ["store.jsonl"],
    "budget": {"max_excerpt_tokens": 10},
}
# Each row spoils a part that is checked later than that of the row before it.
BAD: list[tuple[str, dict[str, Any]]] = [
    ("invalid_policy", {"policy": "lexical-2"}),
    ("invalid_policy", {"policy": 5}),
    ("invalid_policy", {"policy": ["lexical-1"]}),
    ("invalid_policy", {"policy": "hybrid-1"}),
    ("invalid_input", {"unknown": 1}),
    ("invalid_query", {"query": " "}),
    ("invalid_store_paths", {"store_paths": []}),
    ("invalid_budget", {"budget": {}}),
    ("invalid_scoring", {"scoring": []}),
    ("invalid_input", {"scoring": {"enable_tag_overlap": True}}),
    ("invalid_scoring", {"scoring": {"language": "german"}}),
    ("invalid_scoring", {"scoring": {"language": 5}}),
    ("invalid_scoring", {"scoring": {"context": 1}}),
    ("invalid_scoring", {"scoring": {"drop_duplicates": "yes"}}),
    ("invalid_scoring", {"scoring": {"query_terms": [5]}}),
    ("invalid_scoring", {"scoring": {"min_score": -1}}),
    ("invalid_scoring", {"scoring": {"min_score": 1_000_001}}),
    ("invalid_scoring", {"scoring": {"min_score": 0.1234567}}),
    ("invalid_scoring", {"scoring": {"min_score": True}}),
    ("invalid_scoring", {"scoring": {"min_score": float("nan")}}),
    ("invalid_scoring", {"scoring": {"min_share": 1.001}}),
    ("invalid_scoring", {"scoring": {"min_share": 0.0005}}),
    ("invalid_scoring", {"scoring": {"min_share": "1"}}),
    ("invalid_filters", {"filters": []}),
    ("invalid_input", {"filters": {"namespace": ["ops"]}}),
    ("invalid_filters", {"filters": {"namespaces": "ops"}}),
    ("invalid_filters", {"filters": {"kinds": [5]}}),
    ("invalid_filters", {"filters": {"tags_any": ["\ud800"]}}),
    ("invalid_filters", {"filters": {"after": "yesterday"}}),
    ("invalid_filters", {"filters": {"before": 5}}),
    ("invalid_filters", {"filters": {"where": []}}),
    ("invalid_filters", {"filters": {"where": {"a": None}}}),
    ("invalid_filters", {"filters": {"where": {"a": [1]}}}),
    ("invalid_filters", {"filters": {"where": {"a": float("inf")}}}),
    ("invalid_filters", {"filters": {"where": {"a": 2**64}}}),
    ("invalid_filters", {"filters": {"where": {"a": "\ud800"}}}),
    ("invalid_filters", {"filters": {"where": {5: 1}}}),
    ("invalid_trust_filter", {"trust_filter": "malicious"}),
    ("invalid_now_utc", {"now_utc": "now"}),
    ("store_not_found", {"store_paths": ["missing.jsonl"]}),
    ("trust_snapshot_not_found", {"trust_filter": {"trust_snapshot_path": "missing.json"}}),
]
PARTS = (
    "policy", "unknown", "query", "store_paths", "budget", "scoring", "filters", "trust_filter",
    "now_utc",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "store.jsonl").write_bytes(b'{"memory_id":"a","text":"whatever plan"}\n')
    return tmp_path


def fails(request: Any, root: Path) -> RoteError:
    with pytest.raises(RoteError) as caught:
        rote.retrieve(request, root=root)
    return caught.value


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_request_has_its_code(number: int, root: Path) -> None:
    code, spoiled = BAD[number]
    first, second = fails({**GOOD, **spoiled}, root), fails({**GOOD, **spoiled}, root)
    assert first.code == code
    assert (type(first), str(first), first.details) == (type(second), str(second), second.details)


def test_the_first_check_that_fails_decides(root: Path) -> None:
    """Spoiling a later part as well changes nothing."""
    ordered = [each for each in BAD if not each[0].startswith(("store_", "trust_snapshot"))]
    for code, spoiled in ordered:
        (part,) = spoiled
        for _, later in ordered:
            (other,) = later
            if PARTS.index(other) > PARTS.index(part) and "unknown" not in later:
                assert fails({**GOOD, **later, **spoiled}, root).code == code, (spoiled, later)


@pytest.mark.parametrize("member", ["filters", "policies"])
def test_the_seed_knows_no_members_of_ranking(member: str, root: Path) -> None:
    for policy in (None, "phase6-v1"):
        error = fails({**GOOD, "policy": policy, member: {}}, root)
        assert (error.code, error.details["key"]) == ("invalid_input", member)
    error = fails({**GOOD, "policy": None, "scoring": {"min_score": 1}}, root)
    assert (error.code, error.details["key"]) == ("invalid_input", "min_score")


def test_the_name_of_the_seed_changes_nothing(root: Path) -> None:
    plain = {name: value for name, value in GOOD.items() if name != "policy"}
    packages = [
        rote.retrieve(request, root=root)
        for request in (plain, {**plain, "policy": None}, {**plain, "policy": "phase6-v1"})
    ]
    assert packages[0] == packages[1] == packages[2]
    assert packages[0]["controller_version"] == "phase6-v1"


def test_null_and_empty_filters_are_none(root: Path) -> None:
    plain = rote.retrieve(GOOD, root=root)
    lists = ("namespaces", "kinds", "sources", "threads", "tags_any", "tags_all")
    absent: list[dict[str, Any] | None] = [
        None,
        {},
        {name: [] for name in lists},
        dict.fromkeys((*lists, "after", "before", "where")),
        {"where": {}},
    ]
    for filters in absent:
        assert rote.retrieve({**GOOD, "filters": filters}, root=root) == plain
    nulls = dict.fromkeys(("language", "context", "min_score", "min_share", "query_terms"))
    assert rote.retrieve({**GOOD, "scoring": nulls}, root=root) == plain
    assert plain["policy"]["filters"] is None


def test_a_package_shows_filters_in_their_normal_form(root: Path) -> None:
    filters = {
        "namespaces": ["b", "a", "b"],
        "tags_all": ["Tea", "tea"],
        "after": datetime(2026, 1, 1, tzinfo=UTC),
        "before": "2026-01-31 12:00+02:00",
        "where": {"n": 1},
    }
    package = rote.retrieve({**GOOD, "filters": filters}, root=root)
    assert package["policy"]["filters"] == {
        "namespaces": ["a", "b"],
        "tags_all": ["tea"],
        "after": "2026-01-01T00:00:00Z",
        "before": "2026-01-31T10:00:00Z",
        "where": {"n": 1},
    }


class Counter:
    name = "c"
    version = "1"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def count(self, text: str) -> Any:
        return self._answer


@pytest.mark.parametrize("answer", [-1, 1.0, None, True, "1"])
def test_tokens_are_counted_with_integers(answer: Any, root: Path) -> None:
    with pytest.raises(InvalidInput, match="integer from 0 on"):
        rote.retrieve({**GOOD, "query": "plan"}, root=root, count_tokens=Counter(answer))


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a@b", "1"), ("a", "1 2"), (5, "1")])
def test_what_counts_tokens_has_a_name_and_a_version(name: Any, version: Any, root: Path) -> None:
    counter = Counter(1)
    counter.name, counter.version = name, version
    with pytest.raises(InvalidInput, match="a name and a version"):
        rote.retrieve(GOOD, root=root, count_tokens=counter)
    with pytest.raises(InvalidInput, match="a name and a version"):
        rote.retrieve(GOOD, root=root, count_tokens="gpt")  # type: ignore[arg-type]


def test_the_seed_counts_its_own_tokens(root: Path) -> None:
    with pytest.raises(InvalidInput, match="leave count_tokens out"):
        rote.retrieve({**GOOD, "policy": None}, root=root, count_tokens=Counter(1))


def test_an_excerpt_that_never_fits_is_empty_and_takes_no_tokens(root: Path) -> None:
    package = rote.retrieve({**GOOD, "query": "plan"}, root=root, count_tokens=Counter(10**9))
    (item,) = package["selection"]["selected"]
    assert (item["excerpt"], item["excerpt_start"], item["excerpt_tokens"]) == ("", 0, 0)
    assert rote.package_text(package) == ""
    assert package["policy"]["tokenizer"] == "c@1"
