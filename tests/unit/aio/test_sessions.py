"""Sessions for asyncio: what the sync ones do, and what waits holds no thread."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rote
import rote.aio
from rote.contract import all_sides
from rote.errors import Conflict, InvalidInput, Unavailable, Withdrawn
from rote.sessions.session import replica_of
from rote.testing.frames import Folded
from rote.testing.serving import serving
from tests.unit.aio.stores import SECONDS_MAX, A, B, assert_no_new_threads
from tests.unit.aio.test_cancellation import Gate, turns

ALL: dict[str, Any] = {"select": {"urn:*": {}}}
Body = Callable[[rote.aio.Space], Coroutine[Any, Any, None]]


@pytest.fixture(params=["here", "served"])
def on_a_space(
    request: pytest.FixtureRequest, store_path: Path
) -> Iterator[Callable[[Body], None]]:
    """Run a coroutine function with a space whose store has one thread; leave none behind."""
    before = threading.enumerate()

    def run(body: Body, url: str | Path, token: str | None) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(SECONDS_MAX),
                rote.aio.open(url, token=token, threads=1) as store,
            ):
                await body(await store.space("notes"))

        asyncio.run(main())

    if request.param == "here":
        yield lambda body: run(body, store_path, None)
    else:
        with rote.open(":memory:") as store, serving(store, threads=2) as server:
            yield lambda body: run(body, server.url, server.token)
    assert_no_new_threads(before)


def sessions_of(found: list[threading.Thread]) -> list[str]:
    return [each.name for each in found if each.name.startswith("rote-session")]


def test_a_write_shows_at_once_and_is_awaited(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            await session.pause()
            pending = await session.set(A, {"n": 1})
            assert await session.get(A) == {"n": 1} and await space.get(A) is None
            assert await session.confirmed.get(A) is None
            assert await session.pending() == (pending,) and pending.status == "pending"
            assert (pending.local, pending.branch, pending.depends) == (1, "main", ())
            assert (session.state, session.dropped, await session.version()) == ("offline", 0, 0)
            await session.resume()
            commit = await pending.wait()
            assert commit == pending.commit == await space.commit(1)
            assert await session.flush() == []
            assert pending.status == "integrated" and not await session.pending()
            assert await session.head() == commit.hash
        assert session.state == "ended"

    on_a_space(body)


def test_a_transaction_becomes_one_commit(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            async with session.transaction(meta={"by": "test"}) as tx:
                assert await tx.get(A) is None and tx.pending is None
                await tx.set(A, 1)
                await tx.set(B, 2)
            assert tx.pending is not None
            assert (await tx.pending.wait()).meta == {"by": "test"}
            assert [each.id async for each in session.scan()] == [A, B]
            with pytest.raises(ZeroDivisionError):
                async with session.transaction() as discarded:
                    await discarded.set(A, 1 // 0)
            assert discarded.pending is None and await session.get(A) == 1

    on_a_space(body)


def test_a_function_is_called_again_until_nobody_else_wrote(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        await space.set(A, 1)
        async with space.session(watch=ALL) as session:
            await session.pause()
            applied = await session.apply(lambda tx: tx.set(A, tx.get(A) + 10))
            updated = await session.update(B, lambda old: (old or 0) + 1)
            await space.update(A, lambda value: value + 1)
            assert await session.get(A) == 11
            await session.resume()
            assert applied is not None
            await asyncio.gather(applied.wait(), updated.wait())
            assert await session.flush() == []
            assert (await space.get(A), await space.get(B)) == (12, 1)
            assert await session.apply(lambda tx: None) is None

    on_a_space(body)


def test_what_is_not_open_yet_says_how_it_is_opened(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        for opening in (space.session(), space.transaction()):
            forgotten: Any = opening
            with pytest.raises(AttributeError, match=r"no 'set': await it, or .* `async with`"):
                forgotten.set(A, 1)

    on_a_space(body)


def test_apply_refuses_coroutine_functions(on_a_space: Callable[[Body], None]) -> None:
    async def add(tx: Any) -> None:
        tx.set(A, 1)

    async def body(space: rote.aio.Space) -> None:
        async with space.session() as session:
            for function in (add, partial(add)):
                with pytest.raises(InvalidInput, match="plain function"):
                    await session.apply(function)
                with pytest.raises(InvalidInput, match="plain function"):
                    await session.update(A, function)
            with pytest.raises(InvalidInput):
                await session.apply(None)  # type: ignore[arg-type]
            assert await session.pending() == ()

    on_a_space(body)


def test_a_conflict_comes_as_an_event_and_from_wait(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        await space.set(A, 1)
        async with space.session(watch=ALL) as session:
            await session.pause()
            async with session.transaction() as tx:
                await tx.set(B, await tx.get(A))
            await space.set(A, 2)
            await session.resume()
            assert tx.pending is not None
            with pytest.raises(Conflict):
                await tx.pending.wait()
            assert isinstance(tx.pending.error, Conflict)
            assert await session.flush() == [tx.pending]
            events = session.events()
            found = [await anext(events) for _ in range(4)]
            assert [each["type"] for each in found] == ["online", "offline", "online", "reverted"]
            assert found[-1]["local"] == 1 and found[-1]["error"]["code"] == "conflict"

    on_a_space(body)


def test_what_waits_holds_no_thread(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        session = await space.session(watch=ALL)
        events, watch = session.events(), session.watch(ALL)
        assert (await anext(events))["type"] == "online"
        await anext(watch)
        await session.pause()
        assert (await anext(events))["type"] == "offline"
        # Every one of them would hold the only thread.
        waiting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(anext(each)) for each in (events, watch)
        ]
        commits = [await session.set(f"urn:n:{number}", number) for number in range(50)]
        waiting += [asyncio.ensure_future(each.wait()) for each in commits]
        waiting += [asyncio.ensure_future(session.flush()) for _ in range(50)]
        await asyncio.wait_for(waiting[1], SECONDS_MAX)  # own writes show
        await turns()
        assert sum(each.done() for each in waiting) == 1
        assert await session.get("urn:n:49") == 49
        names = [each.name for each in threading.enumerate() if each.name.startswith("rote-aio")]
        assert names == ["rote-aio_0"]
        await session.resume()
        await asyncio.gather(*waiting)
        leaving = asyncio.ensure_future(session.close())
        assert [each async for each in events][-1]["type"] == "ended"
        assert [each["to"] async for each in session.watch(ALL)] == [50]
        await leaving

    on_a_space(body)


def test_a_loop_does_not_wait_for_the_lock_of_a_session(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            pending = await session.set(A, 1)
            await pending.wait()
            left = session.watch(ALL)
            await anext(left)
            is_held, is_free = threading.Event(), threading.Event()
            in_time: list[bool] = []

            def hold() -> None:
                with replica_of(session.sync).changed:
                    is_held.set()
                    in_time.append(is_free.wait(SECONDS_MAX / 4))

            holder = threading.Thread(target=hold)
            holder.start()
            await asyncio.to_thread(is_held.wait)
            events, watch = session.events(), session.watch(ALL)
            calls = (
                pending.wait(), pending.cancel(), session.flush(), session.pending(),
                anext(events), anext(watch), left.aclose(),
            )  # fmt: skip
            waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(each) for each in calls]
            await turns()
            is_free.set()
            await asyncio.to_thread(holder.join)
            await asyncio.gather(*waiting)
            assert in_time == [True]

    on_a_space(body)


def test_leaving_a_block_waits_for_its_commits_and_holds_no_thread(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        session = await space.session(watch=ALL)
        written: list[rote.aio.Pending] = []

        async def write() -> None:
            async with session:
                await session.pause()
                written.append(await session.set(A, 1))

        leaving = asyncio.ensure_future(write())
        while not written:
            await asyncio.sleep(0)
        assert await space.get(A) is None  # there is a thread to ask it
        assert not leaving.done()
        await session.resume()
        await leaving
        assert written[0].status == "integrated"

    on_a_space(body)


def test_time_is_over_as_in_the_sync_face(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            await session.pause()
            pending = await session.set(A, 1)
            for wait in (pending.wait, session.flush):
                for seconds in (0, 0.01):
                    with pytest.raises(Unavailable) as late:
                        await wait(seconds)
                    assert late.value.code == "timeout"
                with pytest.raises(InvalidInput):
                    await wait(-1)
            assert pending.status == "pending"
            assert [each["type"] async for each in session.events(0)] == ["online", "offline"]
            assert [each async for each in session.events(0.01)] == []
            assert [each["to"] async for each in session.watch(ALL, timeout=0)] == [0]
            for refused in (session.events(-1), session.watch(ALL, timeout=-1)):
                with pytest.raises(InvalidInput):
                    await anext(refused)
            await session.resume()

    on_a_space(body)


def test_what_was_not_sent_is_taken_back_and_what_was_is_not(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            await session.pause()
            pending = await session.set(A, 1)
            assert await pending.cancel() is True
            with pytest.raises(Withdrawn):
                await pending.wait()
            await session.resume()
            sent = await session.set(B, 1)
            await sent.wait()
            assert await sent.cancel() is False
            assert [each.local for each in await session.flush()] == [1]

    on_a_space(body)


def test_frames_of_a_watch_fold_to_its_query(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            watch, folded = session.watch(ALL), Folded()
            for number in range(1, 6):
                await (session if number % 2 else space).set(f"urn:n:{number}", number)
                while f"urn:n:{number}" not in folded.facts:
                    folded.take(await anext(watch))
            await session.flush()
            shown = (await session.query(ALL))["facts"]
            while folded.facts != shown:
                folded.take(await anext(watch))
            await watch.aclose()
            assert [frame async for frame in watch] == []

    on_a_space(body)


def test_faces_lead_back_and_a_memory_of_a_session_has_one(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            assert rote.aio.of(session.sync) == session
            assert session.space == space
            pending = await session.set(A, 1)
            assert rote.aio.of(pending.sync) == pending
            assert await rote.aio.of(pending.sync).wait() == await pending.wait()
            memory = rote.aio.of(rote.Memory(session.sync))
            await memory.put("long_term", "note", "n", {"text": "tea at four"})
            found = await memory.get("long_term", "note", "n")
            assert found["record"]["payload"] == {"text": "tea at four"}
            await session.flush()
            await space.create_branch("draft")
            other = await session.on("draft")
            assert other.branch == "draft" and await (await session.at(1)).get(A) == 1

    on_a_space(body)


def is_called_in(function: str) -> bool:
    """Return whether a thread is in a call that a function of this name has made."""
    callers = (each.f_back for each in sys._current_frames().values())
    return any(each is not None and each.f_code.co_name == function for each in callers)


# -- cancellation ----------------------------------------------------------------------------------


def test_a_cancelled_wait_ends_at_once_and_its_commit_goes_on(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            await session.pause()
            pending = await session.set(A, 1)
            tasks = [
                asyncio.ensure_future(each)
                for each in (pending.wait(), session.flush(), anext(session.watch(ALL)))
            ]
            await tasks.pop()
            await turns()
            for task in tasks:
                task.cancel()
            await turns(2)
            assert all(task.cancelled() for task in tasks)
            await session.resume()
            assert (await pending.wait()).version == 1

    on_a_space(body)


def test_a_cancelled_look_for_an_event_loses_none(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            found: list[int] = []

            async def follow() -> None:
                async for event in session.events():
                    if event["type"] == "committed":
                        found.append(event["local"])

            for number in range(1, 41):
                task = asyncio.ensure_future(follow())
                await session.set(A, number)
                await turns(number % 7)
                task.cancel()
                await asyncio.wait({task})
            await session.flush()
            async for event in session.events(0):
                if event["type"] == "committed":
                    found.append(event["local"])
            assert found == list(range(1, 41))

    on_a_space(body)


def test_a_cancelled_flush_leaves_what_was_rejected_to_the_next(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            await session.pause()
            pending = await session.set(A, 1)
            assert await pending.cancel()
            await session.resume()
            await session.set(B, 1)
            async for event in session.events():
                if event["type"] == "integrated":
                    break
            changed = replica_of(session.sync).changed
            with changed:
                flushing = asyncio.ensure_future(session.flush())
                while not is_called_in("flush"):
                    await asyncio.sleep(0)  # until a thread has begun, and waits for the lock
                flushing.cancel()
                await turns()
            with pytest.raises(asyncio.CancelledError):
                await flushing
            assert await session.flush() == [pending]

    on_a_space(body)


def test_a_write_that_has_begun_is_settled_before_the_cancellation(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        async with space.session(watch=ALL) as session:
            await session.pause()
            gate = Gate()
            task = asyncio.ensure_future(session.update(A, gate))
            await gate.reached()
            task.cancel()
            await turns()
            assert not task.done()
            gate.open()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert session.sync.get(A) == "passed"
            await session.resume()

    on_a_space(body)


def test_an_opening_that_is_cancelled_leaves_no_session(on_a_space: Callable[[Body], None]) -> None:
    async def body(space: rote.aio.Space) -> None:
        for _ in range(10):
            opening = asyncio.ensure_future(space.session().__aenter__())
            while not sessions_of(threading.enumerate()):
                await asyncio.sleep(0)
            opening.cancel()
            with suppress(asyncio.CancelledError):
                await (await opening).close()
            assert sessions_of(threading.enumerate()) == []

    on_a_space(body)


def test_a_block_that_is_cancelled_before_it_begins_leaves_no_session(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        gate = Gate()
        entering = asyncio.ensure_future(space.session().__aenter__())
        await turns()
        blocking = asyncio.ensure_future(space.update(A, gate))
        await gate.reached()  # the session is open, and the only thread is busy
        await turns()
        entering.cancel()
        gate.open()
        await blocking
        with suppress(asyncio.CancelledError):
            await (await entering).close()
        assert sessions_of(threading.enumerate()) == []

    on_a_space(body)


@pytest.mark.parametrize("is_leaving", [False, True], ids=["inside", "leaving"])
def test_a_block_that_is_cancelled_ends_its_session(
    on_a_space: Callable[[Body], None], is_leaving: bool
) -> None:
    async def body(space: rote.aio.Space) -> None:
        reached = asyncio.Event()
        kept: list[rote.aio.Pending] = []

        async def write() -> None:
            async with space.session(watch=ALL) as session:
                await session.pause()
                kept.append(await session.set(A, 1))
                reached.set()
                if not is_leaving:
                    await asyncio.Event().wait()

        task = asyncio.ensure_future(write())
        await reached.wait()
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kept[0].status == "unknown" and await space.get(A) is None
        assert sessions_of(threading.enumerate()) == []

    on_a_space(body)


def test_a_block_that_cannot_end_in_time_names_what_is_undecided(
    on_a_space: Callable[[Body], None],
) -> None:
    async def body(space: rote.aio.Space) -> None:
        with pytest.raises(Unavailable, match="commits \\[1, 2\\]"):
            async with space.session(watch=ALL, timeout=SECONDS_MAX) as session:
                session.sync._timeout = 0.05
                await session.pause()
                await session.set(A, 1)
                await session.set(B, 1)
        assert session.state == "ended"

    on_a_space(body)


def test_a_closed_store_ends_what_waits(store_path: Path) -> None:
    async def main() -> None:
        store = await rote.aio.open(store_path)
        session = await (await store.space("notes")).session(watch=ALL)
        await session.pause()
        pending = await session.set(A, 1)
        watch = session.watch(ALL)
        await anext(watch)
        waiting = [asyncio.ensure_future(each) for each in (pending.wait(), session.flush())]
        looking = asyncio.ensure_future(anext(watch))
        await turns()
        await store.close()
        async with asyncio.timeout(SECONDS_MAX):
            for each in waiting:
                with pytest.raises(Unavailable):
                    await each
            with pytest.raises((StopAsyncIteration, rote.RoteError)):
                while True:
                    await looking
                    looking = asyncio.ensure_future(anext(watch))
            assert [each["type"] async for each in session.events()][-1] == "ended"

    asyncio.run(main())


def test_a_session_that_is_left_leaves_no_row(store_path: Path) -> None:
    async def main() -> None:
        async with rote.aio.open(store_path) as store:
            space = await store.space("notes")
            async with space.session() as session:
                await session.set(A, 1)
            assert not list(all_sides(space.sync._port, space.did, "session"))

    asyncio.run(main())
