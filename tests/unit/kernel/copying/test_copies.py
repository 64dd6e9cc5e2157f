"""The memory that a copy takes, and the transactions that it is cut into."""

import tracemalloc
from pathlib import Path

import pytest

import rote
from rote.contract import operations
from rote.contract.commands import CopyIn, CopyOut, ListSides, PutSide, SidesOut
from rote.errors import Corrupt, LimitExceeded
from rote.kernel.copying import adoption
from rote.kernel.log.page_sizes import Pace
from rote.testing.space_suite.ground import port_of
from rote.values.limits import COPY_CHUNK_MAX, MIB, PAGE_BYTES_MAX, PAGE_MAX

# A few pages: those read, checked and written.
MEMORY_BYTES_MAX = 6 * PAGE_BYTES_MAX


def test_a_copy_of_a_large_space_holds_a_few_pages(tmp_path: Path) -> None:
    path = tmp_path / "source.db"
    with rote.open(path, durability="os") as source:
        for number in range(64):
            source.space("notes").set(f"urn:n:{number}", str(number) + "x" * MIB)
    with rote.open(path) as source, rote.open(tmp_path / "target.db", durability="os") as target:
        tracemalloc.start()
        try:
            assert source.copy("notes", target).ok
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert target.space("notes").head == source.space("notes").head
    assert peak_bytes < MEMORY_BYTES_MAX


def test_documents_that_are_patched_take_a_transaction_only_so_far() -> None:
    """The patches are small and the documents large: a page has many patches, one transaction holds
    a few documents."""
    with rote.open(":memory:") as source, rote.open(":memory:") as target:
        space = source.space("notes")
        for number in range(20):
            space.set(f"urn:n:{number}", {"text": "x" * MIB})
        assert source.copy("notes", target).ok
        for number in range(20):
            space.patch(f"urn:n:{number}", [{"op": "add", "path": "/n", "value": number}])
        page = port_of(source).answer(space.did, CopyOut(since=20, until=40))
        assert len(page.commits) == 20
        reached = port_of(target).answer(space.did, CopyIn(page)).version
        assert 20 < reached < 40
        assert source.copy("notes", target).ok
        assert target.space("notes").head == space.head


def test_one_document_that_is_patched_again_and_again_is_held_once() -> None:
    with rote.open(":memory:") as source, rote.open(":memory:") as target:
        space = source.space("notes")
        space.set("urn:n", {"text": "x" * 8 * MIB})
        assert source.copy("notes", target).ok
        for number in range(20):
            space.patch("urn:n", [{"op": "add", "path": "/n", "value": number}])
        page = port_of(source).answer(space.did, CopyOut(since=1, until=21))
        assert port_of(target).answer(space.did, CopyIn(page)).version == 21


@pytest.mark.parametrize(
    ("limit", "value"), [("OPERATIONS_MAX", 2), ("COMMIT_BYTES_MAX", 3_000)], ids=repr
)
def test_a_commit_larger_than_any_that_is_written_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    with rote.open(":memory:") as source, rote.open(":memory:") as target:
        space = source.space("notes")
        space.transact([{"op": "set", "id": f"urn:{id}", "value": "x" * 1_000} for id in "ab"])
        space.transact([{"op": "set", "id": f"urn:{id}", "value": "x" * 1_000} for id in "abc"])
        monkeypatch.setattr(adoption, limit, value)
        with pytest.raises(Corrupt, match="the limit is"):
            source.copy("notes", target)
        assert target.space("notes").version == 0


def test_a_commit_that_was_written_can_be_copied_whatever_its_stamps_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (operations, adoption):
        monkeypatch.setattr(module, "COMMIT_BYTES_MAX", 1_000)
    with rote.open(":memory:") as source, rote.open(":memory:") as target:
        space, stamp = source.space("notes"), ["/\0", "/b", "/c~1"]
        space.set("urn:a", {})
        for size in range(1_000):
            change = [{"op": "add", "path": "/x", "value": "x" * size}]
            try:
                space.transact([{"op": "patch", "id": "urn:a", "ops": change, "stamp": stamp}])
                space.transact(
                    [{"op": "set", "id": "urn:b", "value": {"x": "x" * size}, "stamp": stamp}]
                )
            except LimitExceeded:
                break
        assert 500 < size < 999
        assert source.copy("notes", target).ok


def test_chunks_grow_while_things_are_small_and_end_with_the_page() -> None:
    pace = Pace(PAGE_BYTES_MAX)
    chunks = []
    while wanted := pace.wanted:
        chunks.append(wanted)
        pace.took([10] * wanted)
    assert chunks[:5] == [1, 2, 4, COPY_CHUNK_MAX, COPY_CHUNK_MAX]
    assert sum(chunks) == PAGE_MAX


def test_a_chunk_is_not_expected_to_pass_the_bytes_of_a_page() -> None:
    pace = Pace(1_000)
    pace.took([300, 10])
    assert pace.wanted == 2
    pace.took([300, 300])
    assert pace.wanted == 1
    pace.took([300])
    assert pace.wanted == 0


def test_what_lies_beyond_the_bytes_of_a_page_is_not_of_it() -> None:
    pace = Pace(1_000)
    assert pace.took([10]) == 1
    assert pace.took([10, 900, 200, 5]) == 3
    assert pace.wanted == 0


def test_large_commits_after_many_small_ones_do_not_come_all_at_once() -> None:
    """63 small commits once made the next chunk 64 large ones: a page of 144 MiB."""
    with rote.open(":memory:") as source:
        space = source.space("notes")
        for number in range(63):
            space.set("urn:small", number)
        for number in range(24):
            space.set("urn:large", str(number) + "x" * MIB)
        since, sizes = 0, []
        while since < space.version:
            page = port_of(source).answer(space.did, CopyOut(since=since, until=space.version))
            assert page.commits[0].version == since + 1
            sizes.append(sum(len(fact.data or b"") for c in page.commits for fact in c.facts))
            since = page.commits[-1].version
        assert max(sizes) < PAGE_BYTES_MAX + 2 * MIB


def test_large_side_rows_after_many_small_ones_do_not_come_all_at_once() -> None:
    with rote.open(":memory:") as source, rote.open(":memory:") as target:
        space, port = source.space("notes"), port_of(source)
        for number in range(63):
            port.answer(space.did, PutSide("run", f"a {number:02}", number, fence=0))
        for number in range(24):
            port.answer(space.did, PutSide("run", f"b {number:02}", "x" * MIB, fence=0))
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            page = port.answer(space.did, SidesOut(after=after))
            sizes = [len(row.body) for row in page.rows if isinstance(row.body, str)]
            assert sum(sizes) < PAGE_BYTES_MAX + 2 * MIB
            after = page.until
        assert source.copy("notes", target).ok
        there = port_of(target).answer(space.did, ListSides("run", after="", limit=99)).rows
        assert there == port.answer(space.did, ListSides("run", after="", limit=99)).rows


def test_many_deletes_are_not_nothing() -> None:
    """A page of commits without bodies is bounded too."""
    ids = [f"urn:n:{number}" for number in range(5_000)]
    with rote.open(":memory:") as source:
        space = source.space("notes")
        for _ in range(4):
            space.transact([{"op": "set", "id": id, "value": 0} for id in ids])
            space.transact([{"op": "delete", "id": id} for id in ids])
        page = port_of(source).answer(space.did, CopyOut(since=0, until=8))
        assert len(page.commits) < 6
