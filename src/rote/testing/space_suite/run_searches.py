"""lexical-1 in a run: its retrievals and searches are in the trace, and hold at its commit."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from rote.errors import Denied, InvalidInput, RunAborted
from rote.records.memory import Memory
from rote.retrieval import receipt, retrieve
from rote.runs.run import Run
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import C
from rote.testing.space_suite.run_ground import RunGround
from rote.traces import check_trace
from rote.values import fingerprint

BUDGET = {"max_excerpt_tokens": 256, "per_item_max_excerpt_tokens": 256, "max_items": 1}
VAULTS = {"query": "Vaults  of keys", "policy": "lexical-1", "budget": BUDGET}
ASKED: list[Callable[[Run], Any]] = [
    lambda run: run.retrieve(VAULTS),
    lambda run: run.memory.search("vaults of keys", limit=1),
]


def _ids(result: dict[str, Any]) -> list[str]:
    return [item["record_id"] for item in result["items"]]


@each_test_uses("agency")
class RunSearchTests(RunGround):
    @pytest.fixture
    def vault(self, agency: None) -> Memory:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x#/%", {"text": "the vault has the keys"}, None, {"tags": ["t"]})
        memory.append("session", "chat", "one", {"text": "nothing of it"})
        return memory

    def test_a_search_and_a_retrieval_are_told_alike(self, vault: Memory) -> None:
        with self.begin() as run:
            package = run.retrieve(VAULTS)
            result = run.memory.search("Vaults  of keys", limit=1)
        events = run.retrieval_trace["events"]
        for number, event in enumerate(events):
            assert event == {
                "run_id": run.run_id,
                "event_id": f"event-{number}",
                "retrieval_event_id": f"retrieval-{number}",
                "policy_id": "rote.lexical",
                "policy_version": "lexical-1/words-1",
                "query_normalization_version": "query-v1",
                "query_fingerprint": fingerprint(
                    {
                        "query": "vaults of keys",
                        "terms": ["vault", "kei"],
                        "budget": BUDGET,
                        "policy": package["policy"],
                    }
                ),
                "retrieval_mode": "lexical",
                "candidate_count": 2,
                "selected_records": [
                    {
                        "record_id": "ops/fact/x%23%2F%25",
                        "record_type": "fact",
                        "score": package["selection"]["selected"][0]["score"],
                        "rank": 1,
                        "position": 1,
                    }
                ],
                "applied_filters": dict.fromkeys(("namespace", "tags", "trust", "scope", "ttl")),
            }
        assert len(events) == 2
        assert check_trace(run.trace, run.retrieval_trace).ok
        assert result == vault.search("vaults of keys", limit=1, at=run.memory.space.version)
        assert "dropped" not in package["selection"]

    def test_filters_are_told_with_times_as_texts(self, vault: Memory) -> None:
        time = datetime(2020, 1, 1, tzinfo=UTC)
        filters = {"namespaces": ["ops"], "tags_any": ["T"], "kinds": ["fact"], "after": time}
        with self.begin() as run:
            assert _ids(run.memory.search("vault", filters=filters)) == ["x#/%"]
            run.memory.search("vault", filters={"tags_all": ["t"], "where": {"a": 1}})
            run.memory.search("vault", enable_recency_weight=True)
            run.set(C, 1)
        assert run.state == "commit_applied"
        told = [event["applied_filters"] for event in run.retrieval_trace["events"]]
        unused = {"trust": None, "ttl": None}
        assert told[0] == {
            "namespace": ["ops"],
            "tags": {"any": ["t"], "all": None},
            "scope": {"kinds": ["fact"], "after": "2020-01-01T00:00:00Z"},
            **unused,
        }
        assert told[1] == {
            "namespace": None,
            "tags": {"any": None, "all": ["t"]},
            "scope": {"where": {"a": 1}},
            **unused,
        }
        counts = [event["candidate_count"] for event in run.retrieval_trace["events"]]
        assert counts == [1, 0, 2]

    def test_a_run_searches_its_snapshot_and_what_came_before(self, vault: Memory) -> None:
        version = self.notes.version
        vault.delete("ops", "fact", "x#/%")
        for space, ids in ((self.notes.at(version), ["x#/%"]), (self.notes, [])):
            # Nothing is applied, so that both see the same past.
            with self.begin(space=space, commit_policy=lambda _: False) as run:
                vault.put("ops", "fact", "later", {"text": "vault"})
                run.memory.put("ops", "fact", "own", {"text": "vault"})
                assert _ids(run.memory.search("vault")) == ids
                assert _ids(run.memory.search("vault", at=1)) == ["x#/%"]
                assert run.memory.search("vault", at=1)["version"] == 1
                with pytest.raises(InvalidInput):
                    run.memory.search("vault", at=self.notes.version)
            vault.delete("ops", "fact", "later")

    def test_a_retrieval_leaves_a_receipt_and_a_search_leaves_none(self, vault: Memory) -> None:
        with self.begin() as run:
            run.memory.search("vault")
            assert self.agents.receipts() == []
            package = run.retrieve(VAULTS)
            assert self.agents.receipts() == [receipt(package)]
        version = self.notes.version
        assert [store["store_path"] for store in package["stores"]] == [
            f"rote:{self.notes.did}@main:{version}"
        ]

    def test_a_live_run_searches_the_space_as_it_is(self, vault: Memory) -> None:
        with self.begin("live_read_write") as run:
            vault.put("ops", "fact", "later", {"text": "vault"})
            found = run.memory.search("vault", include=("payload", "version"))
            assert found == vault.search("vault", include=("payload", "version"))
            assert "later" in _ids(found)
            assert _ids(run.memory.search("vault", at=1)) == ["x#/%"]
            # What it writes is there at once.
            run.memory.put("ops", "fact", "own", {"text": "vaults"})
            assert "own" in _ids(run.memory.search("vault"))
        assert len(run.retrieval_trace["events"]) == 3
        assert self.agents.receipts() == []

    def test_a_run_in_mode_off_searches_nothing_and_none_does_after_its_end(
        self, vault: Memory
    ) -> None:
        with self.begin("off") as run, pytest.raises(Denied):
            run.memory.search("vault")
        with self.begin("read_only") as run:
            assert _ids(run.memory.search("vault")) == ["x#/%"]
        for ask in ASKED:
            with pytest.raises(InvalidInput, match="has ended"):
                ask(run)

    @pytest.mark.parametrize("ask", ASKED)
    def test_a_commit_asks_again_what_was_asked_by_lexical_1(
        self, vault: Memory, ask: Callable[[Run], Any]
    ) -> None:
        with self.begin() as run:
            ask(run)
            run.set(C, 1)
            vault.append("session", "chat", "one", {"text": "still nothing"})
        assert run.state == "commit_applied"
        with self.aborts("validation_failed") as caught, self.begin() as run:
            ask(run)
            run.set(C, 2)
            vault.append("session", "chat", "one", {"text": "vault keys vault keys"})
        assert caught[0].conflicts[0].start == "record:"
        assert self.notes.get(C) == 1

    @pytest.mark.parametrize("ask", ASKED)
    def test_an_excerpt_that_would_be_another_one_now_aborts(
        self, vault: Memory, ask: Callable[[Run], Any]
    ) -> None:
        """The part of a long text that is shown depends on how rare its words are elsewhere."""
        text = f"keys {'a ' * 700}vault"
        vault.put("ops", "fact", "x#/%", {"text": text}, None, {"valid_at": "2026-01-01T00:00:00Z"})
        vault.put("ops", "fact", "y", {"text": f"vault {'b ' * 300}"})
        with self.aborts("validation_failed"), self.begin() as run:
            ask(run)
            run.set(C, 1)
            for number in range(3):
                long = f"keys {number} {'c ' * 500}"
                vault.put("ops", "fact", f"z{number}", {"text": long})

    def test_included_members_are_relied_on(self, vault: Memory) -> None:
        time = {"valid_at": "2026-01-01T00:00:00Z"}
        vault.put("ops", "fact", "x#/%", {"text": "vault", "n": 1}, None, time)
        for include, state in (((), "commit_applied"), (("payload",), "commit_aborted")):
            run = self.begin()
            try:
                with run:
                    run.memory.search("vault", include=include)
                    run.set(C, 1)
                    vault.put("ops", "fact", "x#/%", {"text": "vault", "n": len(state)}, None, time)
            except RunAborted:
                assert include
            assert run.state == state

    @pytest.mark.parametrize("ask", ASKED)
    def test_validation_of_entities_knows_what_lexical_1_has_shown(
        self, vault: Memory, ask: Callable[[Run], Any]
    ) -> None:
        vault.append("session", "chat", "one", {"text": "vault keys vault keys"})
        with self.begin(validate="entities") as run:
            ask(run)
            run.set(C, 1)
            vault.put("ops", "fact", "x#/%", {"text": "others have the keys"})
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin(validate="entities") as run:
            ask(run)
            run.set(C, 2)
            vault.append("session", "chat", "one", {"text": "thanks"})

    def test_what_is_past_is_not_asked_again(self, vault: Memory) -> None:
        with self.begin() as run:
            run.memory.search("vault", at=1)
            run.set(C, 1)
            vault.put("ops", "fact", "x#/%", {"text": "others have the keys"})
        assert run.state == "commit_applied"

    def test_a_bad_request_by_lexical_1_is_refused_as_outside_of_a_run(self) -> None:
        faults: list[dict[str, Any]] = [
            {"policy": "lexical-2"},
            {"policy": 5},
            {"filters": []},
            {"filters": {"after": object()}},
            {"scoring": {"enable_tag_overlap": True}},
            {"budget": None},
        ]
        with self.begin() as run:
            for wrong in faults:
                request, errors = {**VAULTS, "store_paths": ["rote:notes"], **wrong}, []
                for ask in (run.retrieve, partial(retrieve, store=self.agents)):
                    with pytest.raises(InvalidInput) as caught:
                        ask(request)
                    errors.append((caught.value.code, str(caught.value)))
                assert errors[0] == errors[1]
            with pytest.raises(InvalidInput):
                run.memory.search("")
        assert run.retrieval_trace["events"] == []
