"""Coverage of indexes: what commits and readers tell of it, in whatever order they come."""

from rote.engines.sqlite import SqliteEngine
from rote.kernel.log.entries import ABSENT
from rote.kernel.state.index_coverage import Coverage, Covered, IndexChange, Pending
from rote.kernel.state.open_space import OpenSpace
from rote.opening.keys import MemoryKeys
from rote.testing import StoreSettings, open_on
from rote.testing.space_suite.ground import kernel_of
from rote.values.limits import INDEX_BATCH_COMMITS


def covering(complete: int, noted: int = 0, erasures: int = 0) -> Coverage:
    return Coverage(noted, complete, Pending(), erasures)


def test_what_waits_is_counted_and_comes_oldest_first() -> None:
    changes = [IndexChange(version, 1, f"urn:{version}", ABSENT) for version in range(1, 8)]
    pending = Pending()
    for part in (changes[:1], [], changes[1:5], changes[5:]):
        pending = pending.adding(part, size=10 * len(part))
    assert (pending.count, pending.size) == (7, 70)
    assert list(pending) == changes


def test_commits_that_concern_no_index_leave_it_complete() -> None:
    covered = (
        Covered()
        .after_commits(0, 5, {"a": covering(5)}, erasures=0)
        .after_commits(5, 8, {}, erasures=0)
    )
    known = covered.get("a")
    assert known is not None
    assert known.complete == 8


def test_after_commits_of_others_nothing_is_complete_that_was_not_looked_at() -> None:
    covered = (
        Covered()
        .after_commits(0, 5, {"a": covering(5)}, erasures=0)
        .after_commits(7, 8, {}, erasures=0)
    )
    known = covered.get("a")
    assert known is not None
    assert known.complete == 5


def test_an_index_that_does_not_follow_is_forgotten() -> None:
    covered = Covered().after_commits(0, 5, {"a": covering(5), "b": covering(5)}, erasures=0)
    covered = covered.after_commits(5, 6, {"a": None}, erasures=0)
    assert covered.get("a") is None
    assert covered.get("b") is not None


def test_a_reader_that_is_late_does_not_undo_what_a_commit_has_added() -> None:
    """The reader has read up to version 5; a commit has changed an entity at version 6 since."""
    covered = Covered().after_commits(0, 5, {"a": covering(5)}, erasures=0)
    later = covered.after_commits(5, 6, {"a": covering(6)}, erasures=0)
    assert later.having("a", covering(5)) is later
    dropped = covered.after_commits(5, 6, {"a": None}, erasures=0)
    assert dropped.having("a", covering(5)).get("a") is None
    assert dropped.having("a", covering(6)).get("a") == covering(6)


def test_a_commit_is_due_when_the_oldest_index_has_not_moved_for_long() -> None:
    assert Covered().due == 0
    covered = Covered().after_commits(
        0, 5, {"a": covering(5, noted=3), "b": covering(5, noted=5)}, erasures=0
    )
    assert covered.due == 3 + INDEX_BATCH_COMMITS
    covered = covered.after_commits(5, 6, {"a": None}, erasures=0)
    assert covered.due == 5 + INDEX_BATCH_COMMITS
    assert covered.having("c", covering(6, noted=1)).due == 1 + INDEX_BATCH_COMMITS


def test_what_was_erased_between_a_commit_and_its_end_is_not_remembered() -> None:
    with open_on(SqliteEngine(None), StoreSettings(), keys=MemoryKeys()) as store:
        space = store.space("notes")
        opened: OpenSpace = kernel_of(space._port).spaces.open(space.did)
        opened.followed(0, 1, {"a": covering(1)})
        assert opened.covered.get("a") == covering(1)
        with opened.lock:
            opened.met_erasure()
        assert opened.covered.get("a") is None
        opened.followed(1, 2, {"a": covering(2)})
        assert opened.covered.get("a") is None
        opened.cover("a", covering(2))
        assert opened.covered.get("a") is None
        opened.cover("a", covering(2, erasures=1))
        assert opened.covered.get("a") is not None
