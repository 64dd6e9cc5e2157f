"""hybrid-1 in a run: it is told with its embedder, and asked again without it at the commit."""

import pytest

from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.retrieval import receipt, retrieve
from rote.retrieval.vector_cache import VECTORS
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import C
from rote.testing.space_suite.run_ground import RunGround
from rote.testing.space_suite.vectors import Letters
from rote.traces import check_trace
from rote.values import fingerprint

BUDGET = {"max_excerpt_tokens": 256, "per_item_max_excerpt_tokens": 256, "max_items": 1}
TEA = {"query": "Teas  at eight", "policy": "hybrid-1", "budget": BUDGET}


@each_test_uses("agency")
class RunVectorTests(RunGround):
    @pytest.fixture
    def teas(self, agency: None) -> Memory:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "tea at eight"})
        memory.put("ops", "fact", "y", {"text": "nobody comes"})
        return memory

    def test_a_retrieval_by_hybrid_1_is_told_with_its_embedder(self, teas: Memory) -> None:
        with self.begin() as run:
            package = run.retrieve(TEA, embedder=Letters())
        [event] = run.retrieval_trace["events"]
        assert event["policy_id"] == "rote.hybrid"
        assert event["policy_version"] == "hybrid-1/words-1/letters@1"
        assert event["retrieval_mode"] == "hybrid"
        assert event["candidate_count"] == 2
        assert event["query_fingerprint"] == fingerprint(
            {
                "query": "teas at eight",
                "terms": package["query"]["terms"],
                "budget": BUDGET,
                "policy": package["policy"],
            }
        )
        assert check_trace(run.trace, run.retrieval_trace).ok
        assert self.agents.receipts() == [receipt(package)]
        asked = {**TEA, "store_paths": [f"rote:notes:{run.memory.space.version}"]}
        assert package == retrieve(asked, store=self.agents, embedder=Letters())

    def test_a_commit_asks_again_with_the_vectors_that_are_stored(self, teas: Memory) -> None:
        embedder = Letters()
        with self.begin() as run:
            run.retrieve(TEA, embedder=embedder)
            run.set(C, 1)
            teas.put("ops", "fact", "z", {"text": "nothing of it"})
            teas.embed(embedder)
            VECTORS.begin()
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin() as run:
            run.retrieve(TEA, embedder=embedder)
            run.set(C, 2)
            teas.put("ops", "fact", "w", {"text": "tea tea at eight eight"})
            teas.embed(embedder)
        # A text that has no vector yet could be anywhere in the answer.
        with self.aborts("validation_failed"), self.begin() as run:
            run.retrieve(TEA, embedder=embedder)
            run.set(C, 3)
            teas.put("ops", "fact", "v", {"text": "no vector yet"})
        assert self.notes.get(C) == 1

    def test_a_run_needs_the_embedder_and_embeds_nothing_ahead(self, teas: Memory) -> None:
        with self.begin() as run:
            with pytest.raises(InvalidInput) as caught:
                run.retrieve(TEA)
            assert caught.value.code == "invalid_policy"
            with pytest.raises(InvalidInput, match="leave embedder out"):
                run.retrieve({**TEA, "policy": "lexical-1"}, embedder=Letters())
            with pytest.raises(InvalidInput, match="outside of it"):
                run.memory.embed(Letters())
