"""Grants by what a host does: for any chain of them, each call is allowed or refused as all of them say.

test_tiers.py compares what is handed to the adapters; here the adapters are called.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.errors import RoteError
from tests.lanes import examples

ADAPTERS = ["frame", "cache", "memory", "store", "sqlite", "fs", "queue", "agent"]
# For each adapter a verb with which it is probed, and others that grants may name beside it.
VERBS = {
    "frame": ["set", "get"],
    "cache": ["get", "set"],
    "memory": ["get", "put"],
    "store": ["get", "set"],
    "sqlite": ["query", "execute"],
    "fs": ["exists", "read", "write", "delete"],
    "queue": ["depth", "put"],
    "agent": ["tasks", "send_task"],
}
NAMES = {
    "sqlite": ("allow_tables", ["a", "A", "b", "é", "É", "*"]),
    "fs": ("allow_extensions", [".a", ".A", ".b"]),
    "memory": ("namespaces", ["a", "b"]),
    "queue": ("queues", ["a", "A", "b"]),
    "agent": ("targets", ["a", "A", "b"]),
}
SIZES = {
    "set": ("limits", "max_frame_bytes"),
    "read": ("fs", "max_read_bytes"),
    "write": ("fs", "max_write_bytes"),
}
FLAGS = {("sqlite", "execute"): "allow_write", ("fs", "delete"): "allow_delete"}
SIZE = 9  # of the files, and of the frame that is probed

Probe = tuple[str, str, str]  # adapter, verb, the name in the call
PROBES: list[Probe] = [
    ("frame", "set", ""),
    ("cache", "get", ""),
    ("store", "get", ""),
    ("sqlite", "execute", "a"),
    ("fs", "read", ".a"),
    ("fs", "write", ".b"),
    ("fs", "delete", ".a"),
    *(("sqlite", "query", name) for name in ("a", "A", "b", "é", "É")),
    *(("fs", "exists", name) for name in (".a", ".A", ".b")),
    *(("memory", "get", name) for name in ("a", "b")),
    *((adapter, VERBS[adapter][0], name) for adapter in ("queue", "agent") for name in "aAb"),
]


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def grants(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a grant that says something about a few things; most of them allow most."""
    grant: dict[str, Any] = {}
    for part, (member, names) in NAMES.items():
        if draw(st.integers(0, 2)) == 0:
            grant.setdefault(part, {})[member] = draw(maybe(st.lists(st.sampled_from(names))))
    for part, member in SIZES.values():
        if draw(st.integers(0, 3)):
            number = st.sampled_from([SIZE, SIZE - 1, None, SIZE + 1])
            grant.setdefault(part, {})[member] = draw(number)
    if draw(st.integers(0, 5)) == 0:
        grant.setdefault("limits", {})["max_adapter_calls"] = draw(st.integers(0, 1))
    for (part, _), member in FLAGS.items():
        if draw(st.integers(0, 2)) == 0:
            grant.setdefault(part, {})[member] = draw(maybe(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        grant["adapters"] = draw(st.lists(st.sampled_from(ADAPTERS), min_size=5))
    if draw(st.integers(0, 3)) == 0:
        adapter = draw(st.sampled_from(ADAPTERS))
        verbs = st.lists(st.sampled_from(VERBS[adapter]))
        grant["verbs"] = {adapter: draw(maybe(verbs))}
    return grant


def member_of(grant: dict[str, Any], part: str, member: str) -> Any:
    return (grant.get(part) or {}).get(member)


def expected(chain: list[dict[str, Any]], probe: Probe) -> str | None:
    """Return the code of the refusal, by the words of the contract; None for a call that is allowed."""
    adapter, verb, name = probe

    def said(part: str, member: str) -> list[Any]:
        """Return what the grants say about something."""
        words = [member_of(grant, part, member) for grant in chain]
        return [word for word in words if word is not None]

    if adapter != "frame" and 0 in said("limits", "max_adapter_calls"):
        return "limit_exceeded"
    if any(
        grant.get("adapters") is not None and adapter not in grant["adapters"] for grant in chain
    ):
        return "adapter_denied"
    switch = FLAGS.get((adapter, verb))
    if any(verb not in verbs for verbs in said("verbs", adapter)) or (
        switch is not None and not all(said(adapter, switch))
    ):
        return "verb_denied"
    if adapter in NAMES:
        member, _ = NAMES[adapter]
        refusal = {"sqlite": "sql_denied", "fs": "extension_denied"}.get(adapter, "grant_denied")
        if not all(is_listed(adapter, name, names) for names in said(adapter, member)):
            return refusal
    if verb in SIZES and any(limit < SIZE for limit in said(*SIZES[verb])):
        return "limit_exceeded"
    return None


def is_listed(adapter: str, name: str, names: list[str]) -> bool:
    if adapter != "sqlite":
        return name in names
    # SQLite compares the letters A to Z without case, and no others.
    return "*" in names or any(each == name or {each, name} == {"a", "A"} for each in names)


def arguments(probe: Probe) -> list[Any]:
    adapter, verb, name = probe
    named: dict[str, list[Any]] = {
        "frame.set": ["", {"a": "x" * (SIZE - len('{"a":""}'))}],
        "cache.get": ["n", "k"],
        "store.get": ["urn:a:1"],
        "memory.get": [name, "k", "i"],
        "sqlite.query": [f'SELECT * FROM "{name}"'],
        "sqlite.execute": [f'DELETE FROM "{name}"'],
        "fs.exists": [f"file{name}"],
        "fs.read": [f"file{name}"],
        "fs.write": [f"file{name}", "x" * SIZE],
        "fs.delete": [f"none{name}"],
        "queue.depth": [name],
        "agent.tasks": [name],
    }
    return named[f"{adapter}.{verb}"]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rote.Host]:
    """Return a host that may do everything that is probed."""
    folder: Path = tmp_path_factory.mktemp("granted")
    for name in (".a", ".A", ".b"):
        (folder / f"file{name}").write_text("x" * SIZE)
    tables = apsw.Connection(str(folder / "m.db"))
    tables.execute("CREATE TABLE a(x); CREATE TABLE b(x); CREATE TABLE é(x); CREATE TABLE É(x)")
    tables.close()
    with (
        rote.open(":memory:") as store,
        rote.Host(
            "operator-controlled",
            store=store,
            memory={"namespaces": ["a", "b"]},
            sqlite={"path": str(folder / "m.db"), "allow_tables": ["*"], "allow_write": True},
            fs={
                "sandbox_root": str(folder),
                "allow_delete": True,
                "allow_extensions": [".a", ".A", ".b"],
            },
        ) as host,
    ):
        yield host


def outcome(host: rote.Host, chain: list[dict[str, Any]], probe: Probe) -> str | None:
    for grant in chain:
        host = host.scope(grant=grant)
    try:
        host.call(probe[0], probe[1], arguments(probe))
    except RoteError as error:
        return error.code
    return None


@given(st.lists(grants(), min_size=2, max_size=3))
@settings(max_examples=examples(100, 3_000))
def test_a_call_is_allowed_where_all_grants_allow_it_and_nowhere_else(
    host: rote.Host, chain: list[dict[str, Any]]
) -> None:
    for probe in PROBES:
        assert outcome(host, chain, probe) == expected(chain, probe), probe


def test_without_a_grant_every_probe_is_allowed(host: rote.Host) -> None:
    assert [probe for probe in PROBES if outcome(host, [{}], probe) is not None] == []
