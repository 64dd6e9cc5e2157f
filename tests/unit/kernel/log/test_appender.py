"""The appender: what it hashes, where pointers lead, and what it takes as it came."""

from rote.contract import Remains
from rote.contract.operations import DELETE, PATCH, SET
from rote.engines.rows import MAIN, EntityRow
from rote.kernel.log.appender import Appender, Step
from rote.kernel.log.branch_rows import main_row
from rote.kernel.log.chain import commit_hash, empty_hash, fact_hash, salted_digest
from rote.kernel.log.entries import ABSENT, Entry
from rote.kernel.log.erased_facts import encode_remains
from rote.kernel.log.key_rows import meaning_of
from rote.values.canonical import quoted

A, SALT, DID = "urn:a", bytes(16), "did:key:z6Mk"
BRANCH = main_row(DID)
SHOWN = "2026-01-01T00:00:00.000000Z"


def step(op: int, body: bytes | None, before: Entry) -> Step:
    after = Entry(0, None, SALT, op != DELETE)
    return A, quoted(A), op, body, None, before, after


def append(appender: Appender, steps: list[Step]) -> None:
    version = appender.version + 1
    facts = appender.append_facts(BRANCH, version, steps)
    appender.append_commit(
        BRANCH, version, facts, at=version, shown_at=SHOWN, author=None, key=None, meta=None,
        event=None, attempt=b"",
    )  # fmt: skip


def test_facts_follow_their_entity_and_commits_each_other() -> None:
    appender = Appender(DID, 0, None, 0)
    first = step(SET, b"1", ABSENT)
    append(appender, [first, step(SET, b"2", first[-1])])
    one, two = appender.facts
    assert (one.index, two.index) == (0, 1)
    assert one.parent == empty_hash(quoted(A))
    assert two.parent == one.hash == fact_hash(quoted(A), SET, SALT, b"1", one.parent)
    append(appender, [step(SET, b"3", appender.entries[(MAIN, A)])])
    assert appender.facts[2].parent == two.hash
    assert appender.hash == commit_hash(
        space=DID, version=2, branch="main", previous=appender.commits[0].hash,
        facts=appender.facts[2:], at=SHOWN, author=None, key=None, meta=None, event=None,
    )  # fmt: skip
    assert (appender.version, appender.at) == (2, 2)


def test_what_is_deleted_and_set_again_at_once_is_revived_however_often_it_is_written() -> None:
    appender = Appender(DID, 4, bytes(32), 0)
    deleted = step(DELETE, None, Entry(2, bytes(32), SALT, True))
    append(appender, [deleted])
    assert appender.entities == {(MAIN, A): EntityRow(MAIN, A, 5, 0, False)}
    revived = step(SET, b"1", deleted[-1])
    append(appender, [revived, step(SET, b"2", revived[-1])])
    assert appender.entities == {(MAIN, A): EntityRow(MAIN, A, 6, 0, True, revived=True)}
    gone = step(DELETE, None, appender.entries[(MAIN, A)])
    append(appender, [gone])
    assert appender.entities == {(MAIN, A): EntityRow(MAIN, A, 7, 0, False, revived=True)}


def test_a_pointer_to_what_lived_before_does_not_move() -> None:
    appender = Appender(DID, 4, bytes(32), 0)
    append(appender, [step(SET, b"1", Entry(2, bytes(32), SALT, True))])
    assert appender.entities == {}


def test_an_erased_fact_has_the_hash_that_it_had() -> None:
    parent = bytes(32)
    remains = Remains(9, salted_digest(SALT, b"1"), None)
    erased = A, quoted(A), SET, None, encode_remains(remains), Entry(0, parent, None, False)
    [fact] = Appender(DID, 4, bytes(32), 0).append_facts(
        BRANCH, 5, [(*erased, Entry(0, None, None, False, erased=True))]
    )
    assert fact.hash == fact_hash(quoted(A), SET, SALT, b"1", parent)
    assert fact.salt is None


def test_hashes_that_nothing_is_left_to_compute_from_are_taken() -> None:
    appender, taken = Appender(DID, 0, None, 0), bytes(range(32))
    left = step(PATCH, None, Entry(0, bytes(32), None, False))
    left[-1].hash = taken
    [fact] = appender.append_facts(BRANCH, 3, [left], 7)
    assert (fact.version, fact.index, fact.hash) == (3, 7, taken)
    appender.append_commit(
        BRANCH, 8, [], at=1, shown_at=SHOWN, author=None, key=None, meta=None, event=None,
        attempt=b"", hash=taken,
    )  # fmt: skip
    assert (appender.version, appender.hash) == (8, taken)


def test_a_key_leads_to_the_newest_commit() -> None:
    appender = Appender(DID, 4, bytes(32), 0)
    append(appender, [step(SET, b"1", ABSENT)])
    appender.note_key("k", "0" * 64)
    [row] = appender.sides.values()
    assert row is not None
    assert (row.kind, row.key, row.fence, meaning_of(row)) == ("key", "k", 1, (5, "0" * 64))
