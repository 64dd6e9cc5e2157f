from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.errors import InvalidInput
from rote.traces import check_trace, retrieval_event
from rote.values import canonical, fingerprint
from tests.lanes import examples
from tests.unit.traces.traces import good_run

IDS = {"run_id": "run-1", "event_id": "run-1/0", "retrieval_event_id": "run-1/retrieval/0"}
LINES = [
    '{"memory_id":"b","text":"deploy keys","ts_utc":"2026-01-01"}',
    '{"memory_id":"a","text":"deploy keys","ts_utc":"2025-01-01"}',
    '{"memory_id":"c","text":"deploy"}',
    '{"memory_id":"bad","text":"deploy keys"}',
    '{"no":"record"}',
]


@pytest.fixture
def request_of(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "notes.jsonl").write_text("\n".join(LINES))
    (tmp_path / "trust.json").write_text(
        '{"classifications":[{"memory_id":"bad","classification":"malicious"}]}'
    )
    return {
        "query": "Deploy  KEYS",
        "store_paths": ["notes.jsonl"],
        "budget": {"max_excerpt_tokens": 100, "max_items": 2},
        "trust_filter": {"trust_snapshot_path": "trust.json"},
    }


def test_the_event_says_what_was_asked_and_what_came_back(
    request_of: dict[str, Any], tmp_path: Path
) -> None:
    for dropped in ("full", "counts"):
        package = rote.retrieve(request_of, root=tmp_path, dropped=dropped)
        assert [item["memory_id"] for item in package["selection"]["selected"]] == ["b", "a"]
        event = retrieval_event(request_of, package, **IDS)
        assert event == {
            **IDS,
            "policy_id": "rote.lexical",
            "policy_version": "phase6-v1",
            "query_normalization_version": "query-v1",
            "query_fingerprint": fingerprint(
                {
                    "query": "deploy keys",
                    "terms": ["deploy", "keys"],
                    "budget": {
                        "max_excerpt_tokens": 100,
                        "per_item_max_excerpt_tokens": 100,
                        "max_items": 2,
                    },
                    "scoring": {
                        "enable_recency_weight": False,
                        "recency_half_life_days": 30,
                        "enable_tag_overlap": True,
                    },
                    "trust_filter": {
                        "deny_classifications": ["malicious"],
                        "trust_snapshot_path": "trust.json",
                    },
                }
            ),
            "retrieval_mode": "lexical",
            "candidate_count": 3,
            "selected_records": [
                {"record_id": "a", "record_type": "jsonl", "score": 2.0, "rank": 1, "position": 2},
                {"record_id": "b", "record_type": "jsonl", "score": 2.0, "rank": 2, "position": 1},
            ],
            "applied_filters": {
                "namespace": None,
                "tags": None,
                "trust": ["malicious"],
                "scope": None,
                "ttl": None,
            },
        }
        run = good_run()
        run["retrieval"]["events"][0] = event
        assert check_trace(run["trace"], run["retrieval"]).ok


def test_without_a_snapshot_no_trust_filter_was_applied(
    request_of: dict[str, Any], tmp_path: Path
) -> None:
    del request_of["trust_filter"]
    event = retrieval_event(request_of, rote.retrieve(request_of, root=tmp_path), **IDS)
    assert event["applied_filters"]["trust"] is None
    assert event["candidate_count"] == 4


def test_the_fingerprint_is_of_what_took_effect(request_of: dict[str, Any], tmp_path: Path) -> None:
    def asked(**changes: Any) -> str:
        request = {**request_of, **changes}
        made = retrieval_event(request, rote.retrieve(request, root=tmp_path), **IDS)
        return str(made["query_fingerprint"])

    plain = asked()
    assert asked(query="deploy keys") == plain
    assert asked(scoring={"query_terms": ["deploy", "Keys"]}) == plain
    assert asked(scoring={"enable_recency_weight": True}) == plain  # the request gives no time
    assert asked(budget={"max_excerpt_tokens": 100, "per_item_max_excerpt_tokens": 900,
                         "max_items": 2}) == plain  # fmt: skip
    assert asked(query="deploy key") != plain
    assert asked(scoring={"enable_tag_overlap": False}) != plain
    assert asked(budget={"max_excerpt_tokens": 101, "max_items": 2}) != plain
    assert asked(trust_filter={}) != plain
    assert asked(scoring={"enable_recency_weight": True}, now_utc="2026-01-01T00:00:00Z") != plain


RANKED = {
    "query": "Deploying  KEYS",
    "policy": "lexical-1",
    "store_paths": ["notes.jsonl"],
    "budget": {"max_excerpt_tokens": 100, "max_items": 2},
    "trust_filter": {
        "trust_snapshot_path": "trust.json",
        "deny_classifications": ["x", "malicious"],
    },
    "filters": {"before": "2030-01-01", "tags_any": None},
    "scoring": {"drop_duplicates": False},
}


def test_an_event_of_lexical_1_says_which_analyser_and_which_filters(
    request_of: dict[str, Any], tmp_path: Path
) -> None:
    for dropped in ("full", "counts"):
        package = rote.retrieve(RANKED, root=tmp_path, dropped=dropped)
        event = retrieval_event(RANKED, package, **IDS)
        first, second = package["selection"]["selected"]
        assert event == {
            **IDS,
            "policy_id": "rote.lexical",
            "policy_version": "lexical-1/words-1",
            "query_normalization_version": "query-v1",
            "query_fingerprint": fingerprint(
                {
                    "query": "deploying keys",
                    "terms": ["deploi", "kei"],
                    "budget": {
                        "max_excerpt_tokens": 100,
                        "per_item_max_excerpt_tokens": 100,
                        "max_items": 2,
                    },
                    "policy": package["policy"],
                }
            ),
            "retrieval_mode": "lexical",
            "candidate_count": 2,  # one is denied, one has no time, one is no record
            "selected_records": [
                {"record_id": "a", "record_type": "jsonl", "score": second["score"], "rank": 1,
                 "position": 2},
                {"record_id": "b", "record_type": "jsonl", "score": first["score"], "rank": 2,
                 "position": 1},
            ],
            "applied_filters": {
                "namespace": None,
                "tags": None,
                "trust": ["malicious", "x"],
                "scope": {"before": "2030-01-01T00:00:00Z"},
                "ttl": None,
            },
        }  # fmt: skip
        run = good_run()
        run["retrieval"]["events"][0] = event
        assert check_trace(run["trace"], run["retrieval"]).ok


def test_a_package_of_another_policy_is_refused(request_of: dict[str, Any], tmp_path: Path) -> None:
    asked = {**RANKED, "query": request_of["query"]}
    packages = [rote.retrieve(request, root=tmp_path) for request in (request_of, asked)]
    for request, package in ((request_of, packages[1]), (asked, packages[0])):
        with pytest.raises(InvalidInput):
            retrieval_event(request, package, **IDS)


def test_the_type_of_a_record_of_a_space_is_its_kind(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"memory_id":"x/y/z","text":"deploy"}')
    with rote.open(":memory:") as store:
        memory = rote.Memory(store.space("team"))
        memory.put("ops", "kind/100%#%23", "id", {"text": "deploy"})
        request = {
            "query": "deploy",
            "store_paths": ["rote:team", "a.jsonl"],
            "budget": {"max_excerpt_tokens": 100},
        }
        for policy, id in (
            ("phase6-v1", "ops/kind%2F100%25#%2523/id"),
            ("lexical-1", "ops/kind%2F100%25%23%2523/id"),
        ):
            request |= {"policy": policy, "scoring": {}}
            if policy == "lexical-1":
                request["scoring"] = {"drop_duplicates": False}
            package = rote.retrieve(request, root=tmp_path, store=store)
            types = {
                record["record_id"]: record["record_type"]
                for record in retrieval_event(request, package, **IDS)["selected_records"]
            }
            assert types == {id: "kind/100%#%23", "x/y/z": "jsonl"}


def package_of(ids: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a request, and a package in which memories with these ids have equal scores."""
    request = {"query": "x", "store_paths": ["a"], "budget": {"max_excerpt_tokens": 1}}
    item = {"record_hash": "", "store_path": "a", "score": 1.0, "excerpt": "", "excerpt_tokens": 0}
    return request, {
        "controller_version": "phase6-v1",
        "query": {"query_hash": HASH_OF_X},
        "selection": {"selected": [{**item, "memory_id": id} for id in ids], "dropped": []},
    }


HASH_OF_X = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "b", "a", "a"], ["a", "b", "a~2", "a~3"]),
        (["a", "a~2", "a"], ["a", "a~2", "a~3"]),
        (["a", "a", "a~2"], ["a", "a~3", "a~2"]),
    ],
)
def test_a_repeated_id_gets_a_number_in_the_order_of_the_package(
    ids: list[str], expected: list[str]
) -> None:
    request, package = package_of(ids)
    records = retrieval_event(request, package, **IDS)["selected_records"]
    by_position = sorted(records, key=lambda record: record["position"])
    assert [record["record_id"] for record in by_position] == expected


@settings(max_examples=examples(60, 2_000))
@given(st.lists(st.sampled_from(["a", "a~2", "a~3", "a~2~2", "b"]), max_size=8))
def test_ids_are_unique_whatever_memories_are_called(ids: list[str]) -> None:
    run = good_run()
    request, package = package_of(ids)
    run["retrieval"]["events"][0] = retrieval_event(request, package, **IDS)
    assert check_trace(run["trace"], run["retrieval"]).ok
    assert len(run["retrieval"]["events"][0]["selected_records"]) == len(ids)


def test_nothing_that_was_given_is_changed(request_of: dict[str, Any], tmp_path: Path) -> None:
    package = rote.retrieve(request_of, root=tmp_path)
    before = canonical(dict(package)), canonical(request_of)
    retrieval_event(request_of, package, **IDS)
    assert (canonical(dict(package)), canonical(request_of)) == before


@pytest.mark.parametrize(
    "package",
    [{}, {"query": 1}, None, [], {"query": {"query_hash": HASH_OF_X}},
     {"query": {"query_hash": HASH_OF_X}, "controller_version": "phase6-v1", "selection": {"selected": []}}],
)  # fmt: skip
def test_what_is_no_package_is_refused(package: Any) -> None:
    request, good = package_of(["a"])
    with pytest.raises(InvalidInput, match="a package that `retrieve` returned"):
        retrieval_event(request, package, **IDS)
    good["selection"]["selected"][0]["score"] = float("nan")
    with pytest.raises(InvalidInput, match="a package that `retrieve` returned"):
        retrieval_event(request, good, **IDS)


def test_a_package_of_another_question_is_refused() -> None:
    request, package = package_of(["a"])
    with pytest.raises(InvalidInput, match="another query"):
        retrieval_event({**request, "query": "y"}, package, **IDS)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("wrong", ["", None, 1])
def test_an_id_is_a_text(name: str, wrong: Any) -> None:
    request, package = package_of(["a"])
    with pytest.raises(InvalidInput, match=name):
        retrieval_event(request, package, **{**IDS, name: wrong})
