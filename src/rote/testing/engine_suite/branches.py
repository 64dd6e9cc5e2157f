"""Branch rows, commits with an event, and the places of what was written."""

from msgspec import structs

from rote.contract.operations import DELETE
from rote.engines.rows import MAIN, Batch, BranchRow, CommitRow, Line
from rote.testing.engine_suite.ground import MAIN_BRANCH, NEWEST, EngineGround, commit, fact

TOPIC = BranchRow(2, "topic", MAIN, 1, 2, None, b"topic seal")
DEPTH = 3_000


def told(version: int, *, branch: int = MAIN, event: bytes = b"{}") -> CommitRow:
    """Return a commit with an event."""
    return structs.replace(commit(version, branch=branch), event=event)


class BranchRowTests(EngineGround):
    def record(self, row: CommitRow, *branches: BranchRow, optimistic: bool = False) -> None:
        with self.engine.writer(self.space, optimistic=optimistic) as writes:
            writes.append(self.space, Batch([row], [], [], list(branches)))

    def test_a_branch_appears_with_its_commit(self) -> None:
        self.write(fact("urn:a", 1))
        self.record(told(2, branch=2), TOPIC)
        reads = self.engine.reader()
        assert reads.branches(self.space) == [MAIN_BRANCH, TOPIC]
        head = reads.head(self.space)
        assert head is not None
        assert head.version == 2

    def test_a_branch_row_is_written_without_a_lock_too(self) -> None:
        self.record(told(1, branch=2), TOPIC, optimistic=True)
        assert self.engine.reader().branches(self.space) == [MAIN_BRANCH, TOPIC]

    def test_a_branch_row_takes_the_place_of_the_old_one(self) -> None:
        self.record(told(1, branch=2), TOPIC)
        gone = structs.replace(TOPIC, deleted_version=2, seal=b"another seal")
        self.record(told(2, branch=2), gone)
        assert self.engine.reader().branches(self.space) == [MAIN_BRANCH, gone]

    def test_a_branch_is_not_there_when_its_block_failed(self) -> None:
        try:
            with self.engine.writer(self.space) as writes:
                writes.append(self.space, Batch([told(1, branch=2)], [], [], [TOPIC]))
                raise KeyError
        except KeyError:
            assert self.engine.reader().branches(self.space) == [MAIN_BRANCH]

    def test_a_branch_comes_with_a_single_fact_too(self) -> None:
        batch = self.batch([fact("urn:a", 1, branch=2)])
        batch.branches.append(TOPIC)
        with self.engine.writer(self.space, optimistic=True) as writes:
            writes.append(self.space, batch)
        assert self.engine.reader().branches(self.space) == [MAIN_BRANCH, TOPIC]

    def test_only_commits_with_an_event_are_events(self) -> None:
        self.write(fact("urn:a", 1))
        for version in (2, 3, 5):
            self.record(told(version, event=b"%d" % version))
            if version == 3:
                self.write(fact("urn:a", 4))
        reads = self.engine.reader()
        found = reads.events(self.space, after=0, limit=9)
        assert [(row.version, row.event) for row in found] == [(2, b"2"), (3, b"3"), (5, b"5")]
        assert found[0] == told(2, event=b"2")
        assert [row.version for row in reads.events(self.space, after=2, limit=1)] == [3]
        assert reads.events(self.space, after=5, limit=9) == []
        assert reads.events(self.make_space("other"), after=0, limit=9) == []

    # -- what was written where --------------------------------------------------------------------

    def test_ids_written_in_a_span_come_once_each(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 1, index=1))
        self.write(fact("urn:a", 2), fact("urn:a", 2, index=1), fact("urn:c", 3, branch=2))
        self.write(fact("urn:d", 4, op=DELETE))
        reads = self.engine.reader()
        written = {
            span: sorted(reads.written(self.space, [span]))
            for span in [(1, 0, 9), (1, 0, 1), (1, 1, 3), (1, 2, 3), (2, 0, NEWEST), (3, 0, 9)]
        }
        assert written == {
            (1, 0, 9): ["urn:a", "urn:b", "urn:d"],
            (1, 0, 1): ["urn:a", "urn:b"],
            (1, 1, 3): ["urn:a"],
            (1, 2, 3): [],
            (2, 0, NEWEST): ["urn:c"],
            (3, 0, 9): [],
        }
        assert sorted(reads.written(self.space, [(1, 1, 9), (2, 0, 9)])) == [
            "urn:a", "urn:c", "urn:d",
        ]  # fmt: skip
        assert reads.written(self.space, []) == []

    def test_the_last_write_of_each_branch_is_below_its_cap(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:a", 2), fact("urn:b", 3, branch=2))
        reads = self.engine.reader()
        assert reads.last_written(self.space, ((1, NEWEST), (2, NEWEST), (3, 9))) == {1: 2, 2: 3}
        assert reads.last_written(self.space, ((1, 1), (2, 2))) == {1: 1}
        assert reads.last_written(self.space, ()) == {}

    # -- deep lines --------------------------------------------------------------------------------

    def test_a_line_may_be_thousands_of_branches_deep(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:b", 1, index=1), fact("urn:late", 9))
        self.write(fact("urn:a", 10, branch=5))
        line: Line = (*((branch, NEWEST) for branch in range(DEPTH, MAIN, -1)), (MAIN, 1))
        reads = self.engine.reader()
        assert [row.branch for row in reads.newest(self.space, ["urn:a"], line)] == [5]
        found = reads.newest(self.space, ["urn:a", "urn:b", "urn:late"], line)
        assert sorted((row.id, row.branch) for row in found) == [("urn:a", 5), ("urn:b", 1)]
        facts = reads.history(self.space, "urn:a", line, before=None, after=0, limit=9)
        assert [row.version for row in facts] == [10, 1]
        assert reads.derived(
            self.space, "words/1", line, start="", end=None, after=None, limit=9
        ) == []  # fmt: skip
        newest = reads.newest_in_range(self.space, line, start="", end=None, after=0)
        assert newest is not None
        assert newest.version == 10

    # -- candidates through ancestors --------------------------------------------------------------

    def on_line(self, line: Line, *, start: str = "", limit: int = 99) -> list[str]:
        reads = self.engine.reader()
        return reads.entities(self.space, line, start=start, end=None, limit=limit)

    def test_candidates_of_a_line_come_from_all_its_branches_in_order(self) -> None:
        self.write(fact("urn:a", 1), fact("urn:c", 1, index=1), fact("urn:e", 1, index=2))
        self.write(fact("urn:b", 2, branch=2), fact("urn:c", 2, branch=2, index=1))
        self.write(fact("urn:d", 3, branch=3))
        line: Line = ((3, NEWEST), (2, 2), (1, 1))
        assert self.on_line(line) == ["urn:a", "urn:b", "urn:c", "urn:d", "urn:e"]
        assert self.on_line(line, limit=2) == ["urn:a", "urn:b"]
        assert self.on_line(line, start="urn:c\0", limit=2) == ["urn:d", "urn:e"]

    def test_what_the_parent_made_after_the_fork_is_no_candidate(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:late", 2), fact("urn:a", 2, index=1), fact("urn:gone", 2, index=2))
        self.write(fact("urn:gone", 3, op=DELETE))
        assert self.on_line(((2, NEWEST), (1, 1))) == ["urn:a"]
        assert self.on_line(((2, NEWEST), (1, 2))) == ["urn:a", "urn:gone", "urn:late"]

    def test_what_a_nearer_branch_has_deleted_is_no_candidate(self) -> None:
        """A child that deletes inherited entities must not pass over them at every scan."""
        self.write(*(fact(f"urn:{number}", 1, index=number) for number in range(5)))
        self.write(fact("urn:2", 2, branch=2, op=DELETE), fact("urn:4", 3, branch=2, op=DELETE))
        assert self.on_line(((2, NEWEST), (1, 1))) == ["urn:0", "urn:1", "urn:3"]
        assert self.on_line(((3, NEWEST), (2, 2), (1, 1))) == [
            "urn:0", "urn:1", "urn:3", "urn:4",
        ]  # fmt: skip

    def test_nothing_is_a_candidate_at_version_0(self) -> None:
        self.write(fact("urn:a", 1))
        self.write(fact("urn:b", 2), fact("urn:b", 3, op=DELETE))
        assert self.on_line(((2, NEWEST), (1, 0))) == []
