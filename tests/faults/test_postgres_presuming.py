"""Commits on PostgreSQL that presume ids and keys to be new instead of looking: one round trip, and
right whatever others have written.

Two stores stand for two processes. The statement that writes finds a wrong presumption, and then
leaves no mark.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.engines.postgres import PostgresEngine
from rote.engines.postgres.writes import Presumed
from rote.errors import InvalidInput, NotFound, PayloadMismatch
from rote.records.memory import Memory
from rote.schemas.registry import REGISTRY_ID
from rote.testing import SeededIds
from rote.testing.faults import Proxy
from rote.testing.postgres import schema_of, server_url
from rote.values.limits import CACHE_CATCH_UP_MAX, INDEX_BEHIND_COMMITS
from tests.faults.postgres_rig import NAME, Operations, check_chain, open_postgres, proxied

ONE, TWO = "urn:entity:one", "urn:entity:two"
MANY = 100


def put(id: str, value: Any) -> dict[str, Any]:
    return {"op": "set", "id": id, "value": value}


class Ground:
    """A space as two stores see it, one of them through a proxy that counts."""

    def __init__(self, proxy: Proxy, space: rote.Space, other: rote.Space) -> None:
        self.space, self.other = space, other
        self._proxy = proxy

    def catch_up(self) -> None:
        """Read the counter, so that from here on only a presumption can be wrong."""
        assert self.space.version == self.other.version

    def exchanges(self, operations: Operations, **how: Any) -> int:
        """Return the number of round trips of one commit."""
        self._proxy.plan(None)
        self.space.transact(operations, **how)
        return self._proxy.exchanges()


@contextlib.contextmanager
def grounded(place: Path) -> Iterator[Ground]:
    with proxied(place) as (proxy, space, other):
        space.set("urn:entity:first", 0)
        yield Ground(proxy, space, other)
        check_chain(space)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with grounded(tmp_path) as ground:
        yield ground


# -- what it costs ---------------------------------------------------------------------------------


def test_a_set_on_a_warm_space_is_one_round_trip(ground: Ground) -> None:
    assert ground.exchanges([put(ONE, 1)]) == 1
    # An entity that was written is cached from then on.
    assert ground.exchanges([put(ONE, 2)]) == 1
    assert ground.exchanges([put(ONE, 3)], key="k") == 1
    assert ground.exchanges([put(TWO, 1), put(ONE, 4)], key="l") == 1
    assert ground.exchanges([put(f"{TWO}:{number}", 1) for number in range(MANY)]) == 1


def test_a_set_on_a_branch_is_one_round_trip(ground: Ground) -> None:
    ground.space = ground.space.create_branch("topic")
    assert ground.exchanges([put(ONE, 1)]) == 1
    assert ground.exchanges([put(ONE, 2)]) == 1


def test_an_index_that_is_behind_is_not_looked_at_by_every_commit(ground: Ground) -> None:
    Memory(ground.space).put("ops", "note", "x", {})
    id = Memory.entity_id("ops", "note", "x")
    record: Any = ground.space.get(id)
    ground.other.transact([put(f"{TWO}:{number}", 1) for number in range(CACHE_CATCH_UP_MAX)])
    ground.catch_up()
    # The log is too long to be searched for what concerns the index.
    looks = [
        ground.exchanges([put(id, {**record, "payload": {"n": number}})]) > 1
        for number in range(INDEX_BEHIND_COMMITS)
    ]
    # Those that are kept, and the one that nobody has asked, are looked at once each.
    assert looks[0]
    assert sum(looks) == 2
    assert any(
        ground.exchanges([put(id, {**record, "payload": {}})]) > 1
        for _ in range(INDEX_BEHIND_COMMITS)
    )


def test_an_index_that_is_behind_costs_a_commit_without_records_nothing(ground: Ground) -> None:
    ground.other.transact([put(f"{TWO}:{number}", 1) for number in range(CACHE_CATCH_UP_MAX)])
    ground.catch_up()
    assert ground.exchanges([put(ONE, 1)]) == 1


def test_what_was_not_new_makes_the_next_commit_look(ground: Ground) -> None:
    ids = [f"{ONE}:{number}" for number in range(3)]
    for id in ids:
        ground.other.set(id, "theirs")
    ground.catch_up()
    assert ground.exchanges([put(ids[0], 1)]) > 2
    assert ground.exchanges([put(ids[1], 1)]) == 2
    assert ground.exchanges([put(TWO, 1)]) == 2
    # That one was new, so the next one is presumed to be.
    assert ground.exchanges([put(f"{TWO}:2", 1)]) == 1
    assert ground.exchanges([put(ids[2], 1)]) > 2


def test_ids_of_the_callers_own_are_drawn_for_new_entities_alone(tmp_path: Path) -> None:
    ids = SeededIds()
    place: dict[str, Any] = {"schema": schema_of(tmp_path), "keys": tmp_path / "keys"}
    with rote.open(server_url(), ids=ids, **place) as store:
        store.space(NAME).set(ONE, 1)
        with rote.open(server_url(), ids=ids, **place) as other:
            drawn = len(ids.draws)
            other.space(NAME).transact([put(ONE, 2), put(TWO, 2)])
            assert len(ids.draws) == drawn + 1
            salts = [fact.salt for commit in store.space(NAME).log() for fact in commit.facts]
            assert salts == [ids.draws[1].hex(), ids.draws[1].hex(), ids.draws[2].hex()]


# -- what others have written ----------------------------------------------------------------------


def test_a_registry_that_others_have_set_is_obeyed_by_the_first_commit(tmp_path: Path) -> None:
    """Nothing is known of the space yet, so its registry is presumed absent as well."""
    with open_postgres(tmp_path) as store:
        _govern(store.space(NAME), ONE)
        with open_postgres(tmp_path) as other:
            with pytest.raises(InvalidInput, match="does not conform"):
                other.space(NAME).set(ONE, "text")
            other.space(NAME).set(TWO, "text")


def test_a_registry_that_comes_in_between_is_obeyed(ground: Ground) -> None:
    ground.space.set(ONE, "text")
    _govern(ground.other, ONE)
    with pytest.raises(InvalidInput, match="does not conform"):
        ground.space.set(ONE, "other text")
    ground.space.set(ONE, 1)


def _govern(space: rote.Space, id: str) -> None:
    """Let the registry allow only integers from now on."""
    space.transact([put("urn:schema:whole", {"type": "integer"}), put(REGISTRY_ID, {id: "whole"})])


def test_an_entity_that_others_made_goes_on_where_they_left_it(ground: Ground) -> None:
    theirs = ground.other.transact([put(ONE, "theirs"), put(TWO, "theirs")])
    ours = ground.space.transact([put(TWO, "ours"), put("urn:entity:new", 1), put(ONE, "ours")])
    before = {fact.id: fact for fact in theirs.facts}
    for fact in ours.facts:
        if fact.id in before:
            assert fact.parent == before[fact.id].hash
            assert fact.salt == before[fact.id].salt
    assert len({fact.salt for fact in ours.facts}) == 3


def test_an_entity_that_others_made_long_ago_goes_on_too(ground: Ground) -> None:
    theirs = ground.other.set(ONE, "theirs").facts[0]
    ground.catch_up()
    ours = ground.space.set(ONE, "ours").facts[0]
    assert (ours.parent, ours.salt) == (theirs.hash, theirs.salt)


def test_made_deleted_and_made_again_in_turns(ground: Ground) -> None:
    spaces = [ground.space, ground.other]
    facts = []
    for turn in range(6):
        one, other = spaces[turn % 2], spaces[(turn + 1) % 2]
        facts.append(one.set(ONE, turn).facts[0])
        facts.append(other.delete(ONE).facts[0])
    assert [fact.parent for fact in facts[1:]] == [fact.hash for fact in facts[:-1]]
    assert len({fact.salt for fact in facts}) == 1
    assert [state.id for state in ground.space.scan()] == ["urn:entity:first"]
    with pytest.raises(NotFound):
        ground.space.delete(ONE)


def test_an_entity_of_another_branch_keeps_its_salt(ground: Ground) -> None:
    ground.space.create_branch("topic")
    theirs = ground.other.on("topic").set(ONE, "theirs").facts[0]
    ground.catch_up()
    ours = ground.space.set(ONE, "ours").facts[0]
    assert ours.salt == theirs.salt
    assert ours.parent != theirs.hash


def test_an_inherited_entity_is_not_new_on_a_branch(ground: Ground) -> None:
    theirs = ground.other.set(ONE, "theirs").facts[0]
    ground.catch_up()
    ours = ground.space.create_branch("topic").set(ONE, "ours").facts[0]
    assert (ours.parent, ours.salt) == (theirs.hash, theirs.salt)


def test_an_entity_that_was_erased_gets_a_new_salt_and_keeps_its_chain(ground: Ground) -> None:
    theirs = ground.other.set(ONE, "theirs").facts[0]
    ground.other.erase(ONE, reason="asked to")
    ground.catch_up()
    ours = ground.space.set(ONE, "ours").facts[0]
    assert ours.parent == theirs.hash
    assert ours.salt != theirs.salt


def test_a_key_that_others_used_gives_their_commit_back(ground: Ground) -> None:
    theirs = ground.other.transact([put(ONE, 1)], key="k")
    ground.space.get(ONE)  # so that only the key is unknown
    again = ground.space.transact([put(ONE, 1)], key="k")
    assert again.hash == theirs.hash
    with pytest.raises(PayloadMismatch):
        ground.space.transact([put(TWO, 1)], key="k")
    assert ground.space.version == theirs.version


def test_a_key_that_was_used_comes_before_reads_that_no_longer_hold(ground: Ground) -> None:
    """A commit that conflicts writes nothing, but its presumptions are proven all the same."""
    reads = [{"id": ONE, "version": 0}]
    theirs = ground.other.transact([put(ONE, 1)], reads=reads, key="k")
    ground.space.get(ONE)
    assert ground.space.transact([put(ONE, 1)], reads=reads, key="k").hash == theirs.hash


# -- the checks have teeth -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        test_an_entity_that_others_made_long_ago_goes_on_too,
        test_an_entity_of_another_branch_keeps_its_salt,
        test_an_inherited_entity_is_not_new_on_a_branch,
        test_an_entity_that_was_erased_gets_a_new_salt_and_keeps_its_chain,
        test_a_key_that_others_used_gives_their_commit_back,
        test_a_key_that_was_used_comes_before_reads_that_no_longer_hold,
    ],
    ids=lambda check: check.__name__,
)
def test_a_presumption_that_is_not_proven_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: Any
) -> None:
    monkeypatch.setattr(PostgresEngine, "end", _believing(PostgresEngine.end))
    with pytest.raises((AssertionError, rote.RoteError)), grounded(tmp_path) as ground:
        check(ground)


def _believing(end: Any) -> Any:
    """Trust every presumption."""

    def believe(self: PostgresEngine, block: Any, writer: Any, error: BaseException | None) -> None:
        if hasattr(writer, "_presumed"):
            writer._presumed = Presumed()
        end(self, block, writer, error)

    return believe
