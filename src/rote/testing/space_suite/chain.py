"""Facts and commits: their fields, and their hashes recomputed from the contract's text."""

from rote.contract import Caller
from rote.contract.commands import (
    Compact,
    CreateBranch,
    DeleteBranch,
    Erase,
    MakeCommit,
    Merge,
    PutBlob,
    PutPiece,
)
from rote.testing.space_suite.formulas import check_chain, commit_hash, empty_reference, fact_hash
from rote.testing.space_suite.ground import A, B, SpaceGround, add, change, logged, put, remove


class ChainTests(SpaceGround):
    def test_the_first_commit_has_every_field_the_contract_names(self) -> None:
        commit = self.space.transact([put(A, {"n": 1})], key="k", meta={"why": "test"})
        assert (commit.version, commit.previous, commit.branch) == (1, None, "main")
        assert (commit.key, commit.meta, commit.author, commit.event) == (
            "k",
            {"why": "test"},
            None,
            None,
        )
        assert commit.at == "2026-01-01T12:00:00.000000Z"
        assert commit.hash == commit_hash(self.did, commit)

    def test_the_first_fact_has_every_field_the_contract_names(self) -> None:
        commit = self.space.set(A, {"n": 1})
        (fact,) = commit.facts
        assert (fact.id, fact.op, fact.body, fact.erased) == (A, "set", {"n": 1}, False)
        assert (fact.version, fact.index, fact.commit) == (1, 0, commit.hash)
        assert fact.parent == empty_reference(A)
        assert fact.salt == self.ids.draws[-1].hex()
        assert fact.hash == fact_hash(fact)

    def test_who_asks_is_the_author_of_every_write(self) -> None:
        """Only of their own: the store's author is nobody here."""
        bound = self.port.for_caller(Caller("Bo"))
        operation = {"op": "set", "id": A, "value": 1}
        bound.answer(self.did, MakeCommit([operation]))
        bound.answer(self.did, CreateBranch("topic"))
        bound.answer(self.did, MakeCommit([operation | {"value": 2}], "topic"))
        bound.answer(self.did, Merge("topic"))
        upload = bound.answer(self.did, PutPiece(None, 0, b"abc"))
        bound.answer(self.did, PutBlob(upload))
        bound.answer(self.did, DeleteBranch("topic"))
        bound.answer(self.did, Erase("asked to", A))
        bound.begin(self.did, Compact(before=3)).result()
        assert {commit.author for commit in self.space.log()} == {"Bo"}
        assert self.space.set(B, 1).author is None

    def test_the_author_of_the_store_is_in_its_commits(self) -> None:
        space = self.open_fresh("authored", author="Ann").space("x")
        commit = space.set(A, 1)
        assert commit.author == "Ann"
        assert commit.hash == commit_hash(space.did, commit)

    def test_all_hashes_and_links_of_a_mixed_log_are_the_contracts(self) -> None:
        space = self.space
        space.set(A, {"items": [1, 2.0, 1e21, "\0é\U0001f600"], "n": None})
        space.transact([put(B, []), change(A, add("/items/-", {})), remove(A)], meta=[1])
        self.clock.move(seconds=1)
        space.transact([put(A, "again"), put(A, "and again")], key="key \U0001f600")
        space.delete(B)
        commits = logged(space)
        check_chain(self.did, commits)
        assert (space.version, space.head) == (4, commits[-1].hash)

    def test_the_head_moves_with_every_commit(self) -> None:
        heads = [self.space.set(A, number).hash for number in range(3)]
        assert len(set(heads)) == 3
        assert self.space.head == heads[-1]

    def test_versions_have_no_gaps_over_all_kinds_of_operations(self) -> None:
        space = self.space
        versions = [
            space.set(A, {}).version,
            space.patch(A, [add("/n", 1)]).version,
            space.delete(A).version,
            space.transact([put(A, 1), put(B, 2)]).version,
            space.update(A, lambda value: value + 1).version,
        ]
        assert versions == [1, 2, 3, 4, 5]

    def test_an_entity_keeps_its_salt_for_life(self) -> None:
        self.space.set(A, 1)
        self.space.delete(A)
        self.space.set(A, 2)
        salts = {fact.salt for fact in self.space.history(A)}
        assert salts == {self.ids.draws[-1].hex()}

    def test_two_entities_have_two_salts(self) -> None:
        commit = self.space.transact([put(A, 1), put(B, 1)])
        assert commit.facts[0].salt != commit.facts[1].salt

    def test_a_commit_draws_one_salt_for_each_new_entity_in_operation_order(self) -> None:
        self.space.set(B, 0)
        draws = len(self.ids.draws)
        commit = self.space.transact([put("urn:z", 1), put(B, 1), put(A, 1), put("urn:z", 2)])
        drawn = [salt.hex() for salt in self.ids.draws[draws:]]
        assert [commit.facts[0].salt, commit.facts[2].salt] == drawn
        assert all(len(salt) == 16 for salt in self.ids.draws[draws:])

    def test_writing_known_entities_draws_nothing(self) -> None:
        self.space.set(A, {})
        draws = len(self.ids.draws)
        self.space.patch(A, [add("/n", 1)])
        self.space.delete(A)
        self.space.set(A, 1)
        assert len(self.ids.draws) == draws

    def test_time_never_goes_back_when_the_clock_does(self) -> None:
        first = self.space.set(A, 1)
        self.clock.move(seconds=-3_600)
        second = self.space.set(A, 2)
        self.clock.move(seconds=3_601)
        third = self.space.set(A, 3)
        assert first.at == second.at == "2026-01-01T12:00:00.000000Z"
        assert third.at == "2026-01-01T12:00:01.000000Z"

    def test_empty_meta_is_not_the_same_as_no_meta(self) -> None:
        commit = self.space.transact([put(A, 1)], meta={})
        assert commit.meta == {}
        check_chain(self.did, [commit])
