"""Recording and replaying a host's calls: the file, what differs, and what is never written."""

import hashlib
import multiprocessing
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import (
    Conflict,
    Denied,
    InvalidInput,
    LimitExceeded,
    NotFound,
    RecordedError,
    RoteError,
)
from rote.testing.sources import SeededIds
from rote.values import decode
from tests.lowering import lower_limits

SECRET = "hunter2-the-secret"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[rote.Host]:
    with rote.open(":memory:", ids=SeededIds(5)) as store:
        yield rote.Host(
            "operator-controlled",
            store=store,
            fs={"sandbox_root": str(tmp_path)},
            redact=["password"],
        )


def lines_of(path: Path) -> list[Any]:
    return [decode(line) for line in path.read_bytes().splitlines()]


def bare() -> rote.Host:
    """Return a host that has nothing configured."""
    return rote.Host("operator-controlled", redact=["password"])


def test_a_recording_has_a_line_for_each_call_that_reached_an_adapter(
    host: rote.Host, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    with host.record(path), host.scope(frame={"a": 1}) as flow:
        flow.call(" Frame", "GET", ["a"])
        flow.cache.set(key="k", namespace="n", value=1.0)
        with pytest.raises(NotFound):
            flow.store.delete("urn:a:1")
        for refused in (
            ("nowhere", "get"),
            ("cache", "never"),
            ("cache", "get", [1]),
            ("sqlite", "query"),
        ):
            with pytest.raises(RoteError):
                flow.call(*refused)
    assert lines_of(path) == [
        {"kind": "recording/1", "memory_snapshot_id": None},
        {"seq": 0, "kind": "adapter", "name": "frame.get", "args": {"path": "a"}, "result": 1},
        {
            "seq": 1, "kind": "adapter", "name": "cache.set",
            "args": {"namespace": "n", "key": "k", "value": 1}, "result": {"ok": True},
        },
        {
            "seq": 2, "kind": "adapter", "name": "store.delete", "args": {"id": "urn:a:1"},
            "error": {
                "type": "NotFound", "code": "not_found",
                "message": "urn:a:1 does not exist; there is nothing to delete",
                "details": {"id": "urn:a:1"},
            },
        },
        {"kind": "end", "payload_fingerprint": None},
    ]  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600


def workflow(host: rote.Host) -> list[Any]:
    """Return the results and errors of some calls."""
    told: list[Any] = []
    with host.scope() as flow:
        told.append(flow.memory.put("ops", "k", "i", {"n": 1}))
        told.append(flow.memory.get("ops", "k", "i"))
        told.append(flow.store.set("urn:a:1", told[1]["record"]["payload"]))
        told.append(flow.fs.write("a/b.txt", "text"))
        told.append(flow.fs.list("a"))
        told.append(flow.frame.set("x.y", told[0]["version"]))
        told.append(flow.frame.get())
        told.append(flow.cache.set("n", "k", told[4]))
        calls: list[Any] = [
            ("memory", "put", ["ops", "k", "i", {}, None, None, None, 9]),
            ("fs", "read", ["../up"]), ("fs", "read", ["none"]), ("store", "get", ["record:x"]),
            ("frame", "set", ["x.y.z", 1]), ("frame", "set", ["big", "x" * 2**20]),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(RoteError) as raised:
                flow.call(*call)
            error = raised.value
            told.append([type(error).__name__, error.code, str(error), error.details])
            if isinstance(error, Conflict):
                told.append([conflict.actual_version for conflict in error.conflicts])
    return told


def test_a_replay_gives_the_same_results_and_errors_and_touches_nothing(
    host: rote.Host, tmp_path: Path
) -> None:
    with host.record(tmp_path / "r.jsonl"):
        first = workflow(host)
    with bare().replay(tmp_path / "r.jsonl") as replaying:
        assert workflow(replaying) == first
        assert {error[0] for error in first[8:] if isinstance(error[0], str)} == {
            "Conflict", "Denied", "NotFound", "InvalidInput", "LimitExceeded",
        }  # fmt: skip
    assert replaying.cache.get("n", "k")["found"] is False
    assert replaying.frame.get() == {}
    # Where everything is configured, nothing is touched either.
    before = host.store.scan()
    with host.replay(tmp_path / "r.jsonl"):
        assert workflow(host) == first
    assert host.store.scan() == before


def test_a_replay_recorded_again_gives_the_same_bytes(host: rote.Host, tmp_path: Path) -> None:
    with host.record(tmp_path / "r.jsonl"):
        host.cache.get("n", "k", [1])
    with host.record(tmp_path / "s.jsonl"):
        host.cache.get("n", "k", [1])
    assert (tmp_path / "r.jsonl").read_bytes() == (tmp_path / "s.jsonl").read_bytes()


def recorded(host: rote.Host, path: Path) -> None:
    with host.record(path):
        host.cache.set("n", "k", 1)
        host.cache.get("n", "k")


@pytest.mark.parametrize(
    "call",
    [
        ("cache", "set", ["n", "k", 2]), ("cache", "set", ["n", "k", True]), ("cache", "delete", ["n", "k"]),
        ("cache", "set", ["n", "k", 1, None]), ("frame", "get", []), ("cache", "set", ["n", "k", [1]]),
        ("cache", "set", ["n", "k", 1.5]), ("cache", "set", ["n", "k", None]),
    ],
)  # fmt: skip
def test_the_first_difference_and_every_call_after_it_are_refused(
    host: rote.Host, tmp_path: Path, call: Any
) -> None:
    recorded(host, tmp_path / "r.jsonl")
    with (
        pytest.raises(InvalidInput) as left_over,
        bare().replay(tmp_path / "r.jsonl") as replaying,
    ):
        for again in (call, ("cache", "set", ["n", "k", 1]), ("cache", "get", ["n", "k"])):
            with pytest.raises(InvalidInput) as refused:
                replaying.call(*again)
            assert refused.value.code == "replay_differs"
            assert "cache.set" in refused.value.details["recorded"]
            assert f"{call[0]}.{call[1]}" in refused.value.details["made"]
    assert left_over.value.code == "replay_differs"


def test_a_difference_is_a_new_error_at_each_call(host: rote.Host, tmp_path: Path) -> None:
    """The one error was raised again and again: its traceback had a line for each call before."""
    recorded(host, tmp_path / "r.jsonl")
    depths = []
    with pytest.raises(InvalidInput) as last, bare().replay(tmp_path / "r.jsonl") as replaying:
        for _ in range(5):
            with pytest.raises(InvalidInput) as refused:
                replaying.cache.get("n", "other")
            depths.append(len(list(traceback.walk_tb(refused.value.__traceback__))))
        replaying.cache.get("n", "other")
    assert max(depths[1:]) == min(depths[1:]) > depths[0]  # each also shows where it was first
    assert last.value.details == refused.value.details
    assert len(list(traceback.walk_tb(last.value.__traceback__))) <= depths[-1]
    assert last.value is not refused.value


def test_a_replay_that_ends_by_its_difference_tells_that(host: rote.Host, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), host.record(tmp_path / "r.jsonl"):
        raise ZeroDivisionError
    with pytest.raises(InvalidInput) as refused, bare().replay(tmp_path / "r.jsonl") as replaying:
        with pytest.raises(InvalidInput):
            replaying.cache.get("n", "k")
        replaying.cache.get("n", "k")
    assert refused.value.__cause__ is None  # not the end, compared once more


def test_a_difference_of_adapter_calls_names_the_terms_of_a_host(
    host: rote.Host, tmp_path: Path
) -> None:
    recorded(host, tmp_path / "r.jsonl")
    for calls in ([], [("n", "k", 1), ("n", "k", 2)]):
        with (
            pytest.raises(InvalidInput, match="the profile, grant, limits and redact"),
            bare().replay(tmp_path / "r.jsonl") as replaying,
        ):
            for call in calls:
                replaying.cache.set(*call)


def test_calls_left_over_and_calls_too_many_differ(host: rote.Host, tmp_path: Path) -> None:
    recorded(host, tmp_path / "r.jsonl")
    with pytest.raises(InvalidInput) as refused, bare().replay(tmp_path / "r.jsonl") as replaying:
        replaying.cache.set("n", "k", 1)
    assert refused.value.code == "replay_differs"
    assert "cache.get" in refused.value.details["recorded"]
    with pytest.raises(InvalidInput) as refused, bare().replay(tmp_path / "r.jsonl") as replaying:
        replaying.cache.set("n", "k", 1)
        replaying.cache.get("n", "k")
        replaying.cache.get("n", "k")
    assert refused.value.code == "replay_differs"


def test_a_replaying_host_refuses_by_its_own_profile_grant_and_limits(
    host: rote.Host, tmp_path: Path
) -> None:
    with host.record(tmp_path / "r.jsonl"):
        host.memory.put("ops", "k", "i", {})
    args: list[Any] = ["ops", "k", "i", {}]
    for options, kind, code in (
        ({"profile": "minimal"}, Denied, "adapter_denied"),
        ({"grant": {"verbs": {"memory": ["get"]}}}, Denied, "verb_denied"),
        ({"grant": {"memory": {"namespaces": ["session"]}}}, Denied, "grant_denied"),
        ({"limits": {"max_adapter_calls": 0}}, LimitExceeded, "limit_exceeded"),
    ):  # fmt: skip
        given: dict[str, Any] = {"profile": "operator-controlled", **options}
        other = rote.Host(**given)
        with pytest.raises(RoteError) as refused, other.replay(tmp_path / "r.jsonl"):
            other.call("memory", "put", args)
        assert (type(refused.value), refused.value.code) == (kind, code)


def test_what_a_grant_of_names_refuses_is_not_recorded(host: rote.Host, tmp_path: Path) -> None:
    with host.record(tmp_path / "r.jsonl"):
        flow = host.scope(grant={"memory": {"namespaces": ["ops"]}})
        with pytest.raises(Denied):
            flow.memory.get("session", "k", "i")
    assert len(lines_of(tmp_path / "r.jsonl")) == 2


def test_one_at_a_time_scopes_included(host: rote.Host, tmp_path: Path) -> None:
    flow = host.scope()
    with flow.record(tmp_path / "r.jsonl"):
        for other in (host.record(tmp_path / "s.jsonl"), host.scope().replay(tmp_path / "r.jsonl")):
            with pytest.raises(InvalidInput), other:
                pass
        host.cache.get("n", "k")
    assert len(lines_of(tmp_path / "r.jsonl")) == 3
    assert not (tmp_path / "s.jsonl").exists()
    with host.record(tmp_path / "s.jsonl"):
        pass


class Watched(SeededIds):
    """Ids that tell of each draw while it is made."""

    tell: Callable[[], None] | None = None

    def random_bytes(self, size: int, /) -> bytes:
        if (tell := self.tell) is not None:
            self.tell = None
            tell()
        return super().random_bytes(size)


def test_one_that_begins_in_the_same_instant_is_refused(tmp_path: Path) -> None:
    ids, told = Watched(3), list[str]()
    with rote.open(":memory:", ids=ids) as store:
        host = rote.Host("operator-controlled", store=store)

        def begin_another() -> None:
            try:
                host.record(tmp_path / "s.jsonl").__enter__()
                told.append("begun")
            except InvalidInput as error:
                told.append(str(error))

        def begin_beside() -> None:
            thread = threading.Thread(target=begin_another)
            thread.start()
            thread.join()

        ids.tell = begin_beside
        with host.record(tmp_path / "r.jsonl"):
            host.cache.get("n", "k")
        with pytest.raises(InvalidInput), host.record(tmp_path / "r.jsonl"):
            pass
        with host.record(tmp_path / "t.jsonl"):  # one that could not begin is in nobody's way
            pass
    assert len(told) == 1
    assert "one at a time" in told[0]
    assert len(lines_of(tmp_path / "r.jsonl")) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"r.jsonl", "t.jsonl"}


def test_a_call_that_comes_after_the_end_finds_no_closed_file(
    host: rote.Host, tmp_path: Path
) -> None:
    """Another thread may be on its way to the recording when the block is left."""
    path = tmp_path / "r.jsonl"
    given: Any = {"namespace": "n", "key": "k"}
    with host.record(path):
        recorder = host._shared.exchange
    assert recorder is not None
    assert recorder.call("cache.get", given, lambda: "made") == "made"
    with host.replay(path):
        replayer = host._shared.exchange
    assert replayer is not None
    with pytest.raises(InvalidInput, match="has ended"):
        replayer.call("cache.get", given, lambda: "made")
    assert len(lines_of(path)) == 2


def test_a_block_that_fails_is_recorded_and_its_replay_fails_alike(
    host: rote.Host, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    with pytest.raises(KeyError), host.record(path):
        host.cache.get("n", "k")
        raise KeyError("k")
    assert lines_of(path)[-1] == {"kind": "end", "error": {"type": "KeyError"}}
    with pytest.raises(KeyError), bare().replay(path) as replaying:
        replaying.cache.get("n", "k")
        raise KeyError("another")
    with pytest.raises(InvalidInput) as refused, bare().replay(path) as replaying:
        replaying.cache.get("n", "k")
    assert refused.value.code == "replay_differs"
    with pytest.raises(InvalidInput) as refused, bare().replay(path) as replaying:
        replaying.cache.get("n", "k")
        raise ValueError
    assert refused.value.code == "replay_differs"


class Failing:
    """An adapter with a fault of its own."""

    name = "cache"
    switches: dict[str, bool] = {}  # noqa: RUF012

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def call(self, verb: str, arguments: Any, granted: Any, /) -> Any:
        raise self.error

    def close(self) -> None:
        pass


def test_what_is_no_error_of_rote_is_recorded_too(tmp_path: Path) -> None:
    host = rote.Host("compute-and-store", redact=["value"])
    host._adapters["cache"] = Failing(ValueError(f"bad {SECRET}"))  # type: ignore[assignment]
    path = tmp_path / "r.jsonl"
    with host.record(path), pytest.raises(ValueError, match="bad"):
        host.cache.set("n", "k", SECRET)
    assert SECRET.encode() not in path.read_bytes()
    with (
        rote.Host("compute-and-store").replay(path) as replaying,
        pytest.raises(RecordedError, match=r"bad \[redacted\]"),
    ):
        replaying.cache.set("n", "k", SECRET)


def test_errors_of_the_system_become_unavailable() -> None:
    host = rote.Host("compute-and-store")
    for error, code in (
        (OSError(5, "Input/output error"), "unavailable"),
        (OSError(28, "full"), "disk_full"),
    ):
        host._adapters["cache"] = Failing(error)  # type: ignore[assignment]
        with pytest.raises(rote.errors.Unavailable) as raised:
            host.cache.set("n", "k", 1)
        assert raised.value.code == code


# -- files -----------------------------------------------------------------------------------------


def test_a_recording_takes_a_new_name(host: rote.Host, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    for path in (tmp_path / "there", tmp_path, tmp_path / "nowhere" / "r"):
        with pytest.raises(InvalidInput), host.record(path):
            pass
    assert (tmp_path / "there").read_text() == "mine"
    for bad in (1, "", "a\0b", "http://x"):
        with pytest.raises(InvalidInput):
            host.record(bad)  # type: ignore[arg-type]
    with pytest.raises(NotFound), host.replay(tmp_path / "none"):
        pass
    with pytest.raises(InvalidInput), host.replay(tmp_path / "there"):
        pass
    host.cache.get("n", "k")  # and it is neither recorded nor replayed afterwards


def test_recordings_of_runs_and_of_hosts_are_told_apart(host: rote.Host, tmp_path: Path) -> None:
    with host.record(tmp_path / "host.jsonl"):
        pass
    with rote.open(":memory:") as store:
        space = store.space("s")
        terms: Any = {"workflow_id": "w", "model": None, "policy_set_id": "p"}
        with pytest.raises(InvalidInput, match=r"host\.replay"):
            space.run(**terms, replay=tmp_path / "host.jsonl")
        with space.run(**terms, record=tmp_path / "run.jsonl"):
            pass
    with pytest.raises(InvalidInput, match=r"space\.run"), host.replay(tmp_path / "run.jsonl"):
        pass


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data + b"{}\n",
        lambda data: data.replace(b'"seq":0', b'"seq":1'),
        lambda data: data.replace(b'"kind":"adapter"', b'"kind":"tier"'),
        lambda data: data.replace(b'"code":"not_found",', b'"code":7,'),
        lambda data: data.replace(b'"NotFound"', b'"Conflict"'),
    ],
)  # fmt: skip
def test_a_recording_that_was_changed_is_refused(
    host: rote.Host, tmp_path: Path, change: Any
) -> None:
    path = tmp_path / "r.jsonl"
    with host.record(path), pytest.raises(NotFound):
        host.store.delete("urn:a:1")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InvalidInput), bare().replay(path) as replaying:
        replaying.store.delete("urn:a:1")


def test_a_line_that_no_replay_would_read_is_not_recorded(
    host: rote.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower_limits(monkeypatch, {"RECORDING_LINE_BYTES_MAX": 10_000})
    many = [{"password": n} for n in range(200)]  # small, until each one is a digest
    with pytest.raises(LimitExceeded), host.record(tmp_path / "r.jsonl"):
        with pytest.raises(LimitExceeded):
            host.cache.set("n", "k", many)
        host.cache.get("n", "other")
    assert list(tmp_path.iterdir()) == []


def _leave_in_a_fork(host: rote.Host, path: Path, answers: Any) -> None:
    try:
        with pytest.raises(RoteError), host.record(path):
            pass
    finally:
        answers.send("left")


def test_a_fork_neither_ends_nor_begins_a_recording(host: rote.Host, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    with host.record(tmp_path / "r.jsonl"):
        host.cache.get("n", "k")
        child = context.Process(target=_leave_in_a_fork, args=(host, tmp_path / "s.jsonl", there))
        child.start()
        assert here.recv() == "left"
        child.join()
        host.cache.get("n", "k")
    assert len(lines_of(tmp_path / "r.jsonl")) == 4
    assert not (tmp_path / "s.jsonl").exists()


def test_threads_are_recorded_one_call_at_a_time(host: rote.Host, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with host.record(path):
        threads = [
            threading.Thread(
                target=lambda name=name: [host.cache.set(name, str(n), n) for n in range(50)]
            )
            for name in "abcd"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = lines_of(path)
    assert [line["seq"] for line in lines[1:-1]] == list(range(200))
    with bare().replay(path) as replaying:
        for line in lines[1:-1]:
            replaying.call("cache", "set", line["args"])


# -- redaction -------------------------------------------------------------------------------------


def mark_of(salt: bytes, value: Any) -> dict[str, str]:
    """Return what stands for a value, as the contract says."""
    return {"$redacted": f"{salt.hex()}:{hashlib.sha256(salt + rote.canonical(value)).hexdigest()}"}


def test_a_redacted_value_is_its_salted_digest(tmp_path: Path) -> None:
    ids = SeededIds(9)
    with rote.open(":memory:", ids=ids) as store:
        host = rote.Host("compute-and-store", store=store, redact=("password",))
        with host.record(tmp_path / "r.jsonl"):
            salt = ids.draws[-1]
            host.memory.put(
                "ops", "k", "i", {"password": {"deep": [1]}, "list": [{"password": None}]}
            )
            host.memory.get("ops", "k", "i")
    put, get = lines_of(tmp_path / "r.jsonl")[1:3]
    expected = {
        "password": mark_of(salt, {"deep": [1]}),
        "list": [{"password": mark_of(salt, None)}],
    }
    assert len(salt) == 16
    assert put["args"]["payload"] == expected
    assert get["result"]["record"]["payload"] == expected


def test_a_replay_compares_digests_and_passes_marks_on(host: rote.Host, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    def flow(host: rote.Host, password: str) -> Any:
        host.memory.put("ops", "k", "i", {"password": password})
        found = host.memory.get("ops", "k", "i")["record"]["payload"]["password"]
        host.cache.set("n", "k", {"password": found, "Password_2": found})
        host.frame.set("user.password", found)
        return host.frame.get("user.password")

    with host.record(path):
        assert flow(host, SECRET) == SECRET
    assert SECRET.encode() not in path.read_bytes()
    for other in (bare(), rote.Host("operator-controlled")):  # digests need no names
        with other.replay(path):
            assert set(flow(other, SECRET)) == {"$redacted"}
    with pytest.raises(InvalidInput) as refused, bare().replay(path) as replaying:
        flow(replaying, SECRET + "!")
    assert refused.value.code == "replay_differs"
    assert SECRET not in str(refused.value)
    assert SECRET not in str(refused.value.details)
    assert str(refused.value).count("$redacted") == 2


def test_messages_and_details_tell_nothing_of_it(tmp_path: Path) -> None:
    long = "q" * 30 + 'with "quotes" and \n lines'
    for secret in (SECRET, long, "кот-в-мешке", "1234567", "the king's own"):
        around = f'say "{secret}"'
        host = rote.Host("compute-and-store", redact=["value", "path"])
        path = tmp_path / f"{len(secret)}.jsonl"
        error = InvalidInput(
            f"the text {secret!r} and {secret} and {secret!r:.20}, {rote.canonical(secret)!r},"
            f" {around!r}",
            value=secret,
            place=[{"text": f"<{secret}>"}],
        )
        host._adapters["cache"] = Failing(error)  # type: ignore[assignment]
        with host.record(path), pytest.raises(InvalidInput) as raised:
            host.cache.set("n", "k", secret)
        data = path.read_bytes()
        shown = f"{raised.value} {raised.value.details}"
        for text in (
            secret,
            secret[:18],
            repr(secret)[1:-1],
            repr(around)[6:-2],
            rote.canonical(secret).decode()[1:-1],
        ):
            assert text not in shown
            assert text.encode() not in data
        assert "[redacted]" in str(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__


def test_short_texts_stay_in_messages(tmp_path: Path) -> None:
    host = rote.Host("compute-and-store", redact=["value"])
    host._adapters["cache"] = Failing(InvalidInput("the cat sat"))  # type: ignore[assignment]
    with host.record(tmp_path / "r"), pytest.raises(InvalidInput, match="the cat sat"):
        host.cache.set("n", "k", "cat")
