"""A store, its spaces, transactions and memories, asked with await."""

import asyncio
import gc
import threading
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import rote
import rote.aio
from rote.errors import Conflict, InvalidInput, NotFound
from rote.values.limits import PAGE_MAX
from tests.unit.aio.stores import A, assert_no_new_threads, on_a_store

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def test_what_is_awaited_is_what_the_sync_face_says(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        commit = await space.set(A, {"text": "hello"})
        assert await space.get(A) == space.sync.get(A) == {"text": "hello"}
        assert await space.read(A) == space.sync.read(A)
        assert (await space.version(), await space.head()) == (1, commit.hash)
        assert (space.did, space.name, space.branch) == (space.sync.did, "notes", "main")
        assert (await space.at(1)).is_pinned
        assert [each.name for each in await store.spaces()] == ["notes"]

    on_a_store(store_path, body)


def test_two_loops_one_after_the_other_use_one_store(store_path: Path) -> None:
    with rote.open(store_path) as store:
        for number in range(2):

            async def body(number: int = number) -> None:
                space = await rote.aio.of(store).space("notes")
                await space.set(A, number)
                async for frame in space.watch({"select": {A: {}}}):
                    assert frame["to"] == number + 1
                    break

            asyncio.run(body())
        assert store.space("notes").get(A) == 1
        asyncio.run(rote.aio.of(store).close())


def test_errors_are_those_of_the_sync_face(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        with pytest.raises(InvalidInput):
            await space.set("no uri", 1)
        with pytest.raises(NotFound):
            await space.on("nowhere")
        with pytest.raises(InvalidInput):
            async for _ in space.scan(limit=-1):
                pass
        with pytest.raises(InvalidInput):
            await rote.aio.open(store_path, threads=0)

    on_a_store(store_path, body)


def test_iterators_yield_all_pages_and_may_be_left_early(store_path: Path) -> None:
    count = PAGE_MAX + 10

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        await space.transact(
            [{"op": "set", "id": f"urn:n:{n:05}", "value": n} for n in range(count)]
        )
        assert [state.value async for state in space.scan()] == list(range(count))
        assert [each.version async for each in space.log()] == [1]
        scan = space.scan("urn:n:")
        async for state in scan:
            assert state.value == 0
            break
        assert [state.value async for state in scan] == list(range(1, count))
        await scan.aclose()
        assert [state async for state in scan] == []

    on_a_store(store_path, body, durability="os")


def test_a_transaction_is_one_commit_and_its_tasks_take_turns(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        async with space.transaction(meta={"why": "test"}) as tx:
            await asyncio.gather(*(tx.set(f"urn:n:{n}", n) for n in range(50)))
            assert await tx.get("urn:n:7") == 7
            memory = rote.aio.of(rote.Memory(tx.sync))
            await memory.put("session", "session.working_memory", "1", {"n": 1})
        assert tx.commit is not None and len(tx.commit.facts) == 51
        assert await space.version() == 1
        with pytest.raises(Conflict):
            async with space.transaction() as tx:
                await tx.get(A)
                await space.set(A, "another")
                await tx.set(A, "mine")
        assert await space.get(A) == "another"

    on_a_store(store_path, body)


def test_an_error_in_a_block_discards_the_transaction(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        with pytest.raises(ZeroDivisionError):
            async with space.transaction() as tx:
                await tx.set(A, 1)
                raise ZeroDivisionError
        assert await space.get(A) is None

    on_a_store(store_path, body)


def test_memories_diffs_copies_and_blobs_take_faces(store_path: Path, tmp_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        memory = rote.aio.of(rote.Memory(space.sync))
        await memory.put("session", "session.working_memory", "1", {"text": "tea at four"})
        found = await memory.list("session", include=("payload",))
        assert [item["payload"] for item in found["items"]] == [{"text": "tea at four"}]
        assert memory.space == space
        draft = await space.create_branch("draft")
        await draft.set(A, 1)
        assert [change.id for change in await space.diff(draft)] == [A]
        hash = await space.put_blob(BytesIO(b"0123456789"))
        async with await space.open_blob(hash) as file:
            assert (await file.read(4), await file.tell(), await file.read()) == (
                b"0123",
                4,
                b"456789",
            )
        async with rote.aio.open(tmp_path / "other.db") as other:
            assert (await store.copy("notes", other)).head == await space.head()

    on_a_store(store_path, body)


def test_a_call_sees_the_context_variables_of_its_task(store_path: Path) -> None:
    seen: list[str] = []

    def note(value: Any) -> str:
        seen.append(f"{WHO.get()} {threading.current_thread().name[:8]}")
        return WHO.get()

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        for name in ("ann", "bob"):
            WHO.set(name)
            await space.update(A, note)

    on_a_store(store_path, body)
    assert seen == ["ann rote-aio", "bob rote-aio"]
    assert WHO.get() == "nobody"


def test_no_more_threads_are_used_than_the_store_was_given(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        await asyncio.gather(*(space.set(f"urn:n:{n}", n) for n in range(60)))
        names = [each.name for each in threading.enumerate() if each.name.startswith("rote-aio")]
        assert 1 <= len(names) <= 3

    on_a_store(store_path, body, durability="os", threads=3)


def test_a_closed_store_says_so_and_may_be_closed_twice(store_path: Path) -> None:
    async def main() -> None:
        store = await rote.aio.open(store_path)
        space = await store.space("notes")
        await store.close()
        await store.close()
        with pytest.raises(rote.RoteError) as told:
            await space.get(A)
        with pytest.raises(type(told.value)):
            space.sync.get(A)
        calls = (space.get(A) for _ in range(20))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in answers} == {type(told.value)}

    others = threading.enumerate()
    asyncio.run(main())
    assert_no_new_threads(others)


def test_an_opening_that_fails_leaves_no_thread(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(NotFound):
            await rote.aio.open(tmp_path / "nowhere.db", create=False)

    others = threading.enumerate()
    gc.disable()  # no help from the collector
    try:
        asyncio.run(main())
        assert_no_new_threads(others)
    finally:
        gc.enable()
