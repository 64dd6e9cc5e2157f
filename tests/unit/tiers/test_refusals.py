"""Refusals of a host: each by itself, each pair that can meet, and what a host cannot be made of."""

import multiprocessing
import threading
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import (
    Busy,
    Corrupt,
    Denied,
    InvalidInput,
    LimitExceeded,
    NotFound,
    RoteError,
    Unavailable,
)
from rote.testing.clocks import FixedClock
from rote.tiers.registry import VERBS

# In the order of the contract.
REFUSALS = {
    "closed": (Unavailable, "unavailable"),
    "limit": (LimitExceeded, "limit_exceeded"),
    "unknown_adapter": (InvalidInput, "unknown_adapter"),
    "adapter_denied": (Denied, "adapter_denied"),
    "unknown_verb": (InvalidInput, "unknown_verb"),
    "verb_denied": (Denied, "verb_denied"),
    "bad_arguments": (InvalidInput, "bad_arguments"),
    "adapter_not_configured": (Denied, "adapter_not_configured"),
    "grant_denied": (Denied, "grant_denied"),
}
# Faults that one call cannot have both of: of what is unknown nothing else is known, and arguments that
# are none name nothing.
APART = {
    frozenset(pair)
    for pair in (
        ("unknown_adapter", "adapter_denied"), ("unknown_adapter", "verb_denied"),
        ("unknown_adapter", "adapter_not_configured"), ("unknown_adapter", "grant_denied"),
        ("unknown_verb", "verb_denied"), ("unknown_verb", "grant_denied"),
        ("bad_arguments", "grant_denied"),
    )
}  # fmt: skip
# Pairs that one call can have both of; the first is told.
PAIRS = [pair for pair in combinations(REFUSALS, 2) if frozenset(pair) not in APART]


def provoke(*faults: str, by: str = "profile") -> RoteError:
    """Make a call that has these faults, and return what it raised."""
    grant: dict[str, Any] = {}
    if "verb_denied" in faults:
        grant["verbs"] = {"queue": ["depth"]}
    if "grant_denied" in faults:
        grant["queue"] = {"queues": ["others"]}
    is_denied = "adapter_denied" in faults
    if is_denied and by == "grant":
        grant["adapters"] = ["cache"]
    with rote.open(":memory:") as store:
        host = rote.Host(
            "compute-and-store" if is_denied and by == "profile" else "network-restricted",
            store=None if "adapter_not_configured" in faults else store,
            limits={"max_adapter_calls": 0} if "limit" in faults else None,
            grant=grant,
        )
        if "closed" in faults:
            host.close()
        adapter = "nowhere" if "unknown_adapter" in faults else "queue"
        verb = "never" if "unknown_verb" in faults else "put"
        args: Any = 7 if "bad_arguments" in faults else ["alerts", 1]
        with pytest.raises(RoteError) as refused:
            host.call(adapter, verb, args)
    return refused.value


@pytest.mark.parametrize("fault", REFUSALS)
def test_each_refusal_has_its_class_and_code(fault: str) -> None:
    refused = provoke(fault)
    assert (type(refused), refused.code) == REFUSALS[fault]


@pytest.mark.parametrize("by", ["profile", "grant"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_refusals_the_first_of_the_order_is_told(first: str, second: str, by: str) -> None:
    refused = provoke(first, second, by=by)
    assert (type(refused), refused.code) == REFUSALS[first]


def test_all_faults_at_once_are_told_in_the_order() -> None:
    left = [fault for fault in REFUSALS if fault not in ("unknown_adapter", "unknown_verb")]
    while left:
        refused = provoke(*left)
        assert refused.code == REFUSALS[left.pop(0)][1]


@pytest.mark.parametrize(
    "args",
    [
        [], ["a"], ["a", "b", 1, None, 5], [1, "b", 1], ["a", 2, 1], ["", "b", 1], ["a", "", 1],
        ["x" * 1_025, "b", 1], ["é" * 513, "b", 1], ["a", "b", 1, "5"], ["a", "b", 1, 0],
        ["a", "b", 1, -1], ["a", "b", 1, True], {}, {"namespace": "a", "key": "b"},
        {"namespace": "a", "key": "b", "value": 1, "ttl": 1}, {"namespace": "a", "key": "b", "value": {1, 2}},
        {"namespace": "a", "key": "b", "value": float("nan")}, {"namespace": "a", "key": "b", 3: 1},
        ["a", "b", "\ud800"], ["a", "b", 2**63], ["a", "b", b"x"], "abc", {"a"}, 7, None, iter([1]),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_and_change_nothing(args: Any) -> None:
    host = rote.Host("compute-and-store")
    with pytest.raises(InvalidInput) as refused:
        host.call("cache", "set", args)
    assert refused.value.code == "bad_arguments"
    assert host.cache.get("a", "b") == {"found": False, "value": None}


def test_arguments_are_copied_and_so_are_results() -> None:
    host = rote.Host("compute-and-store")
    given = {"list": [1, (2, 3)]}
    host.frame.set("a", given)
    host.cache.set("n", "k", given)
    given["list"].append(4)
    reads: list[Callable[[], Any]] = [
        lambda: host.frame.get("a"),
        lambda: host.cache.get("n", "k")["value"],
    ]
    for read in reads:
        found = read()
        assert found == {"list": [1, [2, 3]]}
        found["list"].clear()
        assert read() == {"list": [1, [2, 3]]}


def test_arguments_and_results_have_at_most_16_mib() -> None:
    host = rote.Host("compute-and-store", limits={"max_frame_bytes": 2**26})
    with pytest.raises(LimitExceeded):
        host.frame.set("a", "x" * 2**24)
    host.frame.set("a", "x" * 2**23)
    host.frame.set("b", "x" * 2**23)
    assert host.frame.set("c", 1)["ok"]
    with pytest.raises(LimitExceeded):
        host.frame.get()


def test_a_value_may_be_as_deep_as_anywhere() -> None:
    with rote.open(":memory:") as store:
        host = rote.Host("compute-and-store", store=store)
        deep: Any = 1
        for _ in range(64):
            deep = [deep]
        host.store.set("urn:a:1", deep)
        host.cache.set("n", "k", deep)
        assert host.store.get("urn:a:1") == deep == host.cache.get("n", "k")["value"]
        operation = {"op": "set", "id": "urn:a:2", "value": deep}
        assert host.store.transact([operation])["version"] == 2
        too_deep: list[tuple[str, list[Any]]] = [
            ("frame", ["a", deep]),
            ("cache", ["n", "k", [deep]]),
            ("store", ["urn:a:3", [deep]]),
        ]
        for adapter, args in too_deep:
            with pytest.raises(InvalidInput):
                host.call(adapter, "set", args)


def test_positional_and_named_arguments_mix_in_methods() -> None:
    host = rote.Host("compute-and-store")
    assert host.cache.set("n", key="k", value=1) == {"ok": True}
    assert host.cache.Get("n", "k", default=2) == {"found": True, "value": 1}
    with pytest.raises(InvalidInput) as refused:
        host.cache.set("n", "k", 1, namespace="m")
    assert refused.value.code == "bad_arguments"
    with pytest.raises(AttributeError):
        getattr(host, "nothing")  # noqa: B009
    assert not hasattr(host.cache, "__len__")
    with pytest.raises(AttributeError, match="no adapter 'mail'; there are frame, cache"):
        _ = host.mail  # type: ignore[attr-defined]
    assert not hasattr(host, "_mail")


# -- counting --------------------------------------------------------------------------------------


def over(error: pytest.ExceptionInfo[LimitExceeded]) -> bool:
    return "max_adapter_calls" in str(error.value)


def test_every_call_counts_but_the_frames_refused_ones_too() -> None:
    host = rote.Host("compute-and-store", limits={"max_adapter_calls": 3})
    for _ in range(5):
        host.frame.set("a", 1)
        with pytest.raises(InvalidInput):
            host.call(" FRAME", "never")
    host.cache.get("n", "k")
    for bad in (("nowhere", "get"), ("cache", "never")):
        with pytest.raises(InvalidInput):
            host.call(*bad)
    with pytest.raises(LimitExceeded) as error:
        host.cache.get("n", "k")
    assert over(error)
    assert host.frame.get("a") == 1


def test_a_scope_counts_in_itself_and_the_scopes_above_and_not_in_the_host() -> None:
    host = rote.Host("compute-and-store", limits={"max_adapter_calls": 4})
    with host.scope() as outer, outer.scope(grant={"limits": {"max_adapter_calls": 3}}) as inner:
        for _ in range(3):
            inner.cache.get("n", "k")
        with pytest.raises(LimitExceeded):
            inner.cache.get("n", "k")
        with pytest.raises(LimitExceeded):  # four calls of the inner scope count in the outer one
            outer.cache.get("n", "k")
    for _ in range(4):
        host.cache.get("n", "k")
    with pytest.raises(LimitExceeded):
        host.cache.get("n", "k")
    with host.scope() as another:
        another.cache.get("n", "k")


def test_threads_share_a_host_and_every_call_of_theirs_counts() -> None:
    host = rote.Host("compute-and-store", limits={"max_adapter_calls": 200})
    answers: list[Any] = []

    def work(number: int) -> None:
        for place in range(25):
            host.frame.set(f"t{number}", place)
            answers.append(host.cache.set("n", f"{number}.{place}", place))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"ok": True}] * 200
    assert host.frame.get() == {f"t{number}": 24 for number in range(8)}
    with pytest.raises(LimitExceeded):
        host.cache.get("n", "0.0")


def test_a_limit_that_is_exceeded_is_named(tmp_path: Path) -> None:
    with rote.open(":memory:") as store:
        host = rote.Host(
            "operator-controlled",
            store=store,
            cache={"max_bytes": 20},
            sqlite={
                "path": str(tmp_path / "m.db"), "create": True, "allow_tables": [], "max_rows": 1,
                "max_result_bytes": 50, "max_sql_bytes": 60,
            },
            fs={"sandbox_root": str(tmp_path), "max_read_bytes": 1, "max_write_bytes": 2},
            queue={"max_payload_bytes": 3},
            limits={"max_frame_bytes": 5, "max_adapter_calls": 8},
        )  # fmt: skip
        host.fs.write("a", "12")
        calls: list[tuple[str, str, str, list[Any]]] = [
            ("max_frame_bytes", "frame", "set", ["a", "b"]),
            ("max_bytes", "cache", "set", ["n", "k", "x" * 20]),
            ("max_rows", "sqlite", "query", ["VALUES (1), (2)"]),
            ("max_result_bytes", "sqlite", "query", ["SELECT printf('%50d', 1)"]),
            ("max_sql_bytes", "sqlite", "query", [f"SELECT 1 -- {'x' * 60}"]),
            ("max_read_bytes", "fs", "read", ["a"]),
            ("max_write_bytes", "fs", "append", ["a", "3"]),
            ("max_payload_bytes", "queue", "put", ["q", "x" * 3]),
            ("max_adapter_calls", "queue", "depth", ["q"]),
        ]
        for limit, adapter, verb, args in calls:
            with pytest.raises(LimitExceeded, match=limit):
                host.call(adapter, verb, args)
        host.close()
    one = rote.Host("compute-and-store", cache={"max_entries": 0})
    with pytest.raises(LimitExceeded, match="max_entries"):
        one.cache.set("n", "k", 1)


class Failing:
    """A cache whose disk is gone."""

    name = "cache"
    verbs: Mapping[str, Any] = VERBS["cache"]
    switches: Mapping[str, bool] = {}

    def call(self, verb: str, arguments: Any, granted: Any, /) -> Any:
        raise OSError(5, "Input/output error", "/there/warm.cache")

    def close(self) -> None:
        pass


def test_an_error_of_the_system_does_not_leak() -> None:
    host = rote.Host("compute-and-store")
    host._adapters["cache"] = Failing()
    with pytest.raises(Unavailable, match=r"cache\.get failed") as error:
        host.cache.get("n", "k")
    assert "Input/output error" in str(error.value)


def test_the_clock_is_the_hosts_else_the_stores() -> None:
    own, stores = FixedClock(), FixedClock()
    with rote.open(":memory:", clock=stores) as store:
        by_store = rote.Host("compute-and-store", store=store)
        by_own = rote.Host("compute-and-store", store=store, clock=own)
        for host in (by_store, by_own):
            host.cache.set("n", "k", 1, ttl_seconds=5)
        stores.move(seconds=6)
        assert [host.cache.get("n", "k")["found"] for host in (by_store, by_own)] == [False, True]
        own.move(seconds=6)
        assert not by_own.cache.get("n", "k")["found"]


def test_zero_is_a_bound() -> None:
    host = rote.Host("compute-and-store", limits={"max_adapter_calls": 0, "max_frame_bytes": 0})
    with pytest.raises(LimitExceeded):
        host.cache.get("n", "k")
    with pytest.raises(LimitExceeded):
        host.frame.set("a", 1)
    assert host.frame.set("", {}) == {"ok": True, "bytes": 2}


# -- closing, scopes and forks ---------------------------------------------------------------------


def test_a_closed_scope_or_host_answers_nothing() -> None:
    host = rote.Host("compute-and-store")
    with host.scope() as flow, flow.scope() as inner:
        flow.close()
        for each in (flow, inner):
            calls: list[Callable[[], Any]] = [each.frame.get, each.capabilities, each.scope]
            for call in calls:
                with pytest.raises(Unavailable):
                    call()
    host.cache.get("n", "k")
    late = host.scope()
    host.close()
    host.close()
    with pytest.raises(Unavailable):
        late.frame.get()


def test_a_scope_has_a_frame_of_its_own_and_shares_the_cache() -> None:
    host = rote.Host("compute-and-store")
    host.frame.set("a", 1)
    first = {"b": [1]}
    with host.scope(frame=first) as flow:
        assert isinstance(flow, rote.Host)
        first["b"].append(2)
        assert flow.frame.get() == {"b": [1]}
        flow.cache.set("n", "k", 1)
        with flow.scope() as inner:
            assert inner.frame.get() == {}
    assert host.frame.get() == {"a": 1}
    assert host.cache.get("n", "k")["found"]


@pytest.mark.parametrize("frame", [1, [1], "a", {1: 2}, {"a": {1, 2}}, {"a": float("inf")}])
def test_first_values_of_a_frame_are_an_object(frame: Any) -> None:
    with pytest.raises(InvalidInput):
        rote.Host("minimal").scope(frame=frame)


def test_first_values_of_a_frame_have_its_limit() -> None:
    with pytest.raises(LimitExceeded) as error:
        rote.Host("minimal").scope(
            frame={"a": "x" * 100}, grant={"limits": {"max_frame_bytes": 99}}
        )
    assert "max_frame_bytes" in str(error.value)


def _call_in_a_fork(host: rote.Host, answers: Any) -> None:
    try:
        host.frame.get()
    except RoteError as error:
        answers.send((type(error).__name__, error.code))
    host.close()


def test_a_fork_of_its_process_cannot_use_it(tmp_path: Path) -> None:
    host = rote.Host("compute-and-store", cache={"path": str(tmp_path / "warm")})
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_call_in_a_fork, args=(host, there))
    child.start()
    assert here.recv() == ("Unavailable", "unavailable")
    child.join()
    assert host.cache.set("n", "k", 1) == {"ok": True}
    with pytest.raises(Busy):  # what the child closed is still held here
        rote.Host("compute-and-store", cache={"path": str(tmp_path / "warm")})


# -- making one ------------------------------------------------------------------------------------

BAD: list[dict[str, Any]] = [
    {"limits": {"max_calls": 1}}, {"limits": {"max_adapter_calls": -1}}, {"limits": [1]},
    {"limits": {"max_adapter_calls": True}}, {"limits": {"max_frame_bytes": 1.5}},
    {"limits": {"max_frame_bytes": "1"}},
    {"grant": []}, {"grant": {"adapter": ["cache"]}}, {"grant": {"adapters": "cache"}},
    {"grant": {"adapters": ["nowhere"]}}, {"grant": {"adapters": [1]}}, {"grant": {1: 2}},
    {"grant": {"verbs": ["get"]}}, {"grant": {"verbs": {"nowhere": ["get"]}}},
    {"grant": {"verbs": {"cache": ["never"]}}}, {"grant": {"verbs": {"cache": "get"}}},
    {"grant": {"verbs": {"cache": ["get"], "Cache ": ["set"]}}},
    {"grant": {"limits": {"max_calls": 1}}}, {"grant": {"limits": {"max_adapter_calls": -1}}},
    {"grant": {"sqlite": {"allow_tables": "metrics"}}}, {"grant": {"sqlite": {"allow_write": 1}}},
    {"grant": {"sqlite": {"path": "x"}}}, {"grant": {"fs": {"sandbox_root": "/"}}},
    {"grant": {"fs": {"max_read_bytes": -1}}}, {"grant": {"fs": {"allow_delete": None, "x": 1}}},
    {"grant": {"memory": {"namespaces": [1]}}}, {"grant": {"queue": {"queue": ["a"]}}},
    {"grant": {"agent": {"targets": "a"}}}, {"grant": {"cache": {}}}, {"grant": {"frame": {}}},
    {"cache": []}, {"cache": {"size": 1}}, {"cache": {"max_entries": -1}}, {"cache": {"path": 1}},
    {"cache": {"max_bytes": "1"}}, {"cache": {"path": ""}},
    {"memory": {"namespace": []}}, {"memory": {"namespaces": ["A B"]}}, {"memory": {"profile": "v9"}},
    {"memory": {"default_ttl_by_namespace": {"nowhere": 1}}}, {"memory": 1},
    {"queue": {"max_tries": 0}}, {"queue": {"lease_seconds": 0}}, {"queue": {"lease_seconds": 86_401}},
    {"queue": {"max_payload_bytes": -1}}, {"queue": {"retries": 1}}, {"queue": []},
    {"queue": {"max_tries": 2**63}},
    {"agent": {"folder": "x"}}, {"agent": {"root": 1}}, {"fs": {}}, {"fs": {"sandbox_root": "/"}},
    {"redact": "password"}, {"redact": [1]}, {"clock": 1},
    {"space": "notes"}, {"store": "memory.db"},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD, ids=str)
def test_a_host_is_not_made_of_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        rote.Host("operator-controlled", **options)


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_a_path_that_is_none_is_refused_by_every_adapter(path: str) -> None:
    options: dict[str, Any] = {
        "cache": {"path": path},
        "sqlite": {"path": path, "allow_tables": [], "create": True},
        "fs": {"sandbox_root": path},
        "agent": {"root": path},
    }
    for name, given in options.items():
        with pytest.raises(InvalidInput, match=f"^{name}: .* must be"):
            rote.Host("operator-controlled", **{name: given})


def test_a_database_or_a_folder_that_is_missing_is_told_when_the_host_is_made(
    tmp_path: Path,
) -> None:
    missing = str(tmp_path / "none")
    options: dict[str, Any] = {
        "sqlite": {"path": missing, "allow_tables": []},
        "fs": {"sandbox_root": missing},
        "agent": {"root": missing},
    }
    for profile in ("minimal", "operator-controlled"):
        for name, given in options.items():
            with pytest.raises(NotFound, match=missing):
                rote.Host(profile, **{name: given})


def test_what_was_opened_is_closed_when_a_host_cannot_be_made(tmp_path: Path) -> None:
    path = str(tmp_path / "warm")
    with pytest.raises(InvalidInput):
        rote.Host("compute-and-store", cache={"path": path}, grant={"nothing": 1})
    rote.Host("compute-and-store", cache={"path": path}).close()


NOT_MADE: list[dict[str, Any]] = [
    {"profile": "maximal"}, {"limits": {"max_calls": 1}}, {"grant": {"nothing": 1}}, {"redact": "a"},
    {"memory": {"nothing": 1}}, {"queue": {"nothing": 1}}, {"cache": {"nothing": 1}},
    {"agent": {"nothing": 1}}, {"fs": {"nothing": 1}}, {"sqlite": {"nothing": 1}}, {"clock": 1},
    {"fs": {"sandbox_root": "/nowhere"}}, {"agent": {"root": "/nowhere"}}, {"space": "no name"},
    {"sqlite": {"path": "/nowhere.db", "allow_tables": []}},
]  # fmt: skip


@pytest.mark.parametrize("fault", NOT_MADE, ids=str)
def test_a_host_that_cannot_be_made_leaves_nothing_behind(
    tmp_path: Path, fault: dict[str, Any]
) -> None:
    """A wrong limit once left a space, a cache and an empty database."""
    options: dict[str, Any] = {
        "profile": "operator-controlled",
        "space": "notes",
        "cache": {"path": str(tmp_path / "warm")},
        "sqlite": {"path": str(tmp_path / "new.db"), "allow_tables": [], "create": True},
    }
    with rote.open(":memory:") as store:
        with pytest.raises((InvalidInput, NotFound)):
            rote.Host(store=store, **{**options, **fault})
        assert (store.spaces(), list(tmp_path.iterdir())) == ([], [])
        rote.Host(store=store, **options).close()
        assert len(list(tmp_path.iterdir())) == 2


def test_the_file_of_a_cache_is_told_when_the_host_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        rote.Host("compute-and-store", cache={"path": str(tmp_path / "nowhere" / "warm")})
    with pytest.raises(InvalidInput):
        rote.Host("compute-and-store", cache={"path": str(tmp_path)})
    (tmp_path / "notes").write_text("remember the milk")
    with pytest.raises(Corrupt):
        rote.Host("compute-and-store", cache={"path": str(tmp_path / "notes")})
    assert (tmp_path / "notes").read_text() == "remember the milk"


def test_a_space_is_named_with_its_store_or_given_by_itself() -> None:
    with rote.open(":memory:") as store:
        space = store.space("notes")
        space.set("urn:a:1", 1)
        branch = space.create_branch("try")
        branch.set("urn:a:1", 2)
        assert rote.Host("compute-and-store", store=store, space="notes").store.get("urn:a:1") == 1
        assert (
            rote.Host("compute-and-store", store=store, space=space.did).store.get("urn:a:1") == 1
        )
        assert rote.Host("compute-and-store", space=branch).store.get("urn:a:1") == 2
        assert rote.Host("compute-and-store", store=store).store.get("urn:a:1") is None
        with pytest.raises(InvalidInput):
            rote.Host("compute-and-store", store=store, space=space)
        pinned = rote.Host("compute-and-store", space=space.at(1))
        space.set("urn:a:1", 3)
        assert pinned.store.get("urn:a:1") == 1
        with pytest.raises(InvalidInput):
            pinned.store.set("urn:a:1", 4)


def test_a_host_without_a_store_is_not_made_with_the_file_of_one(tmp_path: Path) -> None:
    with rote.open(tmp_path / "a.db") as store:
        store.space("default").set("urn:a:1", 1)
    options: dict[str, Any] = {"path": str(tmp_path / "a.db"), "allow_tables": ["*"]}
    with pytest.raises(InvalidInput, match="is a store of Rote"):
        rote.Host("compute-and-store", sqlite=options)
    (tmp_path / "a.db").rename(tmp_path / "b.db")  # keys that are left behind are in nobody's way
    rote.Host("compute-and-store", sqlite={**options, "create": True}).close()
