"""Runs and hosts, asked with await; their tools are coroutine functions."""

import asyncio
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import rote
import rote.aio
from rote.errors import InvalidInput, RunAborted
from rote.values.limits import CALLS_AT_ONCE_MAX
from tests.unit.aio.stores import SECONDS_MAX, A, B, assert_no_new_threads, on_a_store
from tests.unit.aio.test_cancellation import Gate, turns

TOOLS = [rote.ToolProfile(tool_name="add", tool_profile_version="1")]
RUN: dict[str, Any] = {
    "workflow_id": "w", "policy_set_id": "p", "mode": "buffered_write", "tools": TOOLS,
    "model": rote.ModelConfig("maker", "small", temperature=0, seed=1),
}  # fmt: skip
EVENT: dict[str, str] = {"role": "agent", "interceptor": "loop", "decision_type": "act"}
MODES: dict[str, Any] = {"modes": ["read_only", "buffered_write"]}
WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def add(x: int, y: int) -> int:
    await asyncio.sleep(0)
    return x + y


def test_a_run_awaits_its_tools_and_its_model_and_commits_once(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        async with space.run(**RUN) as run:
            async with run.event(**EVENT) as event:
                total = await event.call("add", add, x=1, y=2)
                more = await event.calls([("add", add, {"x": n, "y": n}) for n in range(3)])
                said = await event.model(ask, prompt="how much?")
                await event.guardrail("sums")
            await run.set(A, {"total": total, "more": more, "said": said})
            await run.memory.put("session", "session.working_memory", "1", {"n": 1})
            await run.output({"type": "text", "sections": ["3"]})
        assert (total, more, said) == (3, [0, 2, 4], "how much?!")
        assert (run.state, await space.version()) == ("commit_applied", 1)
        assert await space.get(A) == {"total": 3, "more": [0, 2, 4], "said": "how much?!"}
        trace: Any = await run.trace()
        assert [call["tool_name"] for call in trace["events"][0]["tool_calls"]] == ["add"] * 4
        assert trace == run.sync.trace

    on_a_store(store_path, body, **MODES)


async def ask(prompt: str) -> str:
    return prompt + "!"


def test_the_trace_of_coroutines_equals_that_of_functions(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        async with space.run(**RUN, run_id="a") as run, run.event(**EVENT) as event:
            await event.call("add", add, x=1, y=2)
        with space.sync.run(**RUN, run_id="b") as plain, plain.event(**EVENT) as told:
            told.call("add", lambda x, y: x + y, x=1, y=2)
        assert rote.compare_traces(await run.trace(), plain.trace).status == "equivalent"

    on_a_store(store_path, body, **MODES)


def test_a_recording_is_replayed_without_its_tools(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, path = await store.space("notes"), store_path.with_name("recording.jsonl")
        ways: list[dict[str, Any]] = [{"record": path}, {"replay": path}]
        for given in ways:
            async with space.run(**RUN, **given) as run, run.event(**EVENT) as event:
                tool = add if "record" in given else never
                assert await event.call("add", tool, x=1, y=2) == 3
                assert await event.calls([("add", tool, {"x": 1, "y": 3})]) == [4]

    on_a_store(store_path, body, **MODES)


async def never(x: int, y: int) -> int:
    raise AssertionError("a replay calls no tool")


def test_a_tool_may_use_the_store_though_all_its_threads_are_few(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")

        async def agent(number: int) -> int:
            async def tool(x: int, y: int) -> int:
                await barrier.wait()  # all of them are inside their tools now
                assert WHO.get() == f"agent {number}"
                return int(await space.get(A)) + x + y

            WHO.set(f"agent {number}")
            given = {**RUN, "mode": "read_only"}
            async with space.run(**given) as run, run.event(**EVENT) as event:
                total: int = await event.call("add", tool, x=number, y=1)
            return total

        await space.set(A, 100)
        barrier = Barrier(20)
        agents = asyncio.gather(*map(agent, range(20)))
        totals = await asyncio.wait_for(agents, SECONDS_MAX)
        assert totals == [101 + number for number in range(20)]

    on_a_store(store_path, body, threads=2, **MODES)


class Barrier:
    """Lets tasks pass when all of them are there."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._all = asyncio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._all.set()
        await self._all.wait()


def test_a_cancelled_call_cancels_its_tool_and_the_run_is_discarded(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, inside, told = await store.space("notes"), asyncio.Event(), []

        async def tool(x: int, y: int) -> None:
            inside.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

        async def work() -> None:
            async with space.run(**RUN, run_id="run-1") as run:
                await run.set(A, 1)
                async with run.event(**EVENT) as event:
                    await event.call("add", tool, x=1, y=2)

        task = asyncio.ensure_future(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        [record] = await store.runs()
        assert (record.discarded, await space.get(A), told) == (True, None, ["cancelled"])

    on_a_store(store_path, body, **MODES)


def test_after_a_cancellation_no_more_tools_are_called(store_path: Path) -> None:
    """The functions of a list that had not begun were called after the cancellation all the same."""

    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()
        called: list[int] = []

        def tool(x: int) -> None:
            called.append(x)
            gate.stand()

        async def work() -> None:
            async with space.run(**RUN) as run, run.event(**EVENT) as event:
                await run.set(A, 1)
                await event.calls([("add", tool, {"x": n}) for n in range(5 * CALLS_AT_ONCE_MAX)])

        task = asyncio.create_task(work())
        await gate.reached()
        task.cancel()
        await turns()
        assert not task.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(called) <= CALLS_AT_ONCE_MAX
        [record] = await store.runs()
        assert record.discarded and await space.get(A) is None

    on_a_store(store_path, body, **MODES)


def test_errors_of_tools_and_of_the_commit_reach_the_caller(store_path: Path) -> None:
    async def fail(x: int, y: int) -> int:
        raise ValueError(f"{x} and {y}")

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        async with space.run(**RUN) as run, run.event(**EVENT) as event:
            with pytest.raises(ValueError, match="1 and 2"):
                await event.call("add", fail, x=1, y=2)
            [error] = await event.calls([("add", fail, {"x": 1, "y": 2})], return_exceptions=True)
            assert isinstance(error, ValueError)
            with pytest.raises(InvalidInput, match="no profile of the tool"):
                await event.call("other", add)
            with pytest.raises(InvalidInput):
                await event.calls([("add",)])  # type: ignore[list-item]
        with pytest.raises(RunAborted):
            async with space.run(**RUN) as run:
                await run.get(A)
                await space.set(A, "another")
                await run.set(B, 1)
        assert run.state == "commit_aborted"

    on_a_store(store_path, body, **MODES)


def test_a_host_its_scopes_and_its_recordings(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        host = rote.aio.of(rote.Host("compute-and-store", store=store.sync, space="notes"))
        recording = store_path.with_name("host.jsonl")
        async with host:
            async with host.record(recording) as recorded:
                assert recorded is host
                await host.cache.set("names", "ann", "1", 60)
                assert await host.call("cache", "get", ["names", "ann"]) == {
                    "found": True, "value": "1",
                }  # fmt: skip
            async with host.scope(frame={"step": 1}, grant={"adapters": ["frame"]}) as scope:
                assert await scope.frame.get("step") == host.sync.scope(frame={"step": 1}).call(
                    "frame", "get", ["step"]
                )
            space = await store.space("notes")
            async with space.run(**RUN) as run, host.scope(run=run) as scope:
                await scope.memory.put("session", "session.working_memory", "1", {"n": 1})
            assert run.commit is not None
            async with host.replay(recording):
                await host.cache.set("names", "ann", "1", 60)
                assert (await host.cache.get("names", "ann"))["found"]
            assert (await host.capabilities())["profile"] == "compute-and-store"

    on_a_store(store_path, body, **MODES)


def test_a_host_without_a_store_has_threads_of_its_own() -> None:
    others = threading.enumerate()

    async def main() -> None:
        async with rote.aio.of(rote.Host("compute-and-store")) as host:
            await host.cache.set("names", "ann", "1", 60)
            assert (await host.cache.get("names", "ann"))["value"] == "1"

    asyncio.run(main())
    assert_no_new_threads(others)


def test_functions_that_are_called_on_a_thread_are_no_coroutine_functions(store_path: Path) -> None:
    """`retry` returned the coroutine of its function, and nothing of it ran."""

    async def later_on(*_: object) -> bool:
        return True

    later: Any = later_on

    async def run(space: rote.aio.Space) -> None:
        async with space.run(**RUN, commit_policy=later) as run:
            await run.set(A, 1)

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        calls: list[Coroutine[Any, Any, Any]] = [
            space.update(A, later), space.retry(later), run(space),
        ]  # fmt: skip
        async with space.session() as session:
            for call in [*calls, session.update(A, later)]:
                with pytest.raises(InvalidInput, match="plain function"):
                    await call
        assert await space.version() == 0

    on_a_store(store_path, body, **MODES)
