"""Profiles, adapters and verbs: the table of the contract, typed from it and not from the code."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import rote
from rote.errors import Denied, InvalidInput

# The first profile that has an adapter, and its verbs: name, writes, destructive, required arguments.
CONTRACT = """
frame minimal
    get     -  -  |
    set     w  -  | path value
    delete  w  d  | path
cache compute-and-store
    get     -  -  | namespace key
    set     w  d  | namespace key value
    delete  w  d  | namespace key
memory compute-and-store
    put     w  d  | namespace kind id payload
    get     -  -  | namespace kind id
    append  w  -  | namespace kind id entry
    list    -  -  | namespace
    delete  w  d  | namespace kind id
    prune   w  d  |
    touch   w  -  | namespace kind id
    update  w  d  | namespace kind id
    put_many          w  d  | records
    history           -  -  | namespace kind id
    search            -  -  | text
    stats             -  -  |
    capabilities      -  -  |
    retention_report  -  -  |
store compute-and-store
    get       -  -  | id
    read      -  -  | id
    scan      -  -  |
    set       w  d  | id value
    patch     w  d  | id ops
    delete    w  d  | id
    transact  w  d  | operations
sqlite compute-and-store
    query    -  -  | sql
    execute  w  d  | sql
fs compute-and-store
    read    -  -  | path
    write   w  d  | path content
    append  w  -  | path content
    list    -  -  |
    exists  -  -  | path
    delete  w  d  | path
queue network-restricted
    put     w  -  | queue payload
    take    w  -  | queue
    ack     w  d  | queue id lease
    nack    w  -  | queue id lease
    extend  w  -  | queue id lease
    peek    -  -  | queue
    depth   -  -  | queue
    revive  w  -  | queue id
    drop    w  d  | queue id
agent operator-controlled
    send_task    w  -  | envelope
    read_task    -  -  | task_id
    read_result  -  -  | task_id
    tasks        -  -  |
    post_result  w  -  | envelope
    bridge       w  -  |
"""
ORDER = ["minimal", "compute-and-store", "network-restricted", "operator-controlled"]


def _table() -> dict[str, tuple[str, dict[str, tuple[bool, bool, list[str]]]]]:
    table: dict[str, tuple[str, dict[str, tuple[bool, bool, list[str]]]]] = {}
    verbs: dict[str, tuple[bool, bool, list[str]]] = {}
    for line in CONTRACT.strip().splitlines():
        if not line.startswith(" "):
            name, first = line.split()
            verbs = {}
            table[name] = (first, verbs)
        else:
            told, required = line.split("|")
            verb, writes, destructive = told.split()
            verbs[verb] = (writes == "w", destructive == "d", required.split())
    return table


TABLE = _table()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[rote.Store]:
    with rote.open(tmp_path / "memory.db") as store:
        yield store


def host_of(profile: str, store: rote.Store) -> rote.Host:
    """Return a host that has everything configured, beside its store."""
    folder = Path(store.url).parent
    tables = {
        "path": str(folder / "m.db"),
        "allow_tables": ["*"],
        "allow_write": True,
        "create": True,
    }
    return rote.Host(
        profile,
        store=store,
        sqlite=tables,
        fs={"sandbox_root": str(folder), "allow_delete": True},
    )


@pytest.mark.parametrize("profile", ORDER)
def test_a_profile_offers_these_adapters_with_these_verbs(profile: str, store: rote.Store) -> None:
    offered = host_of(profile, store).capabilities()["adapters"]
    assert set(offered) == {
        name for name, (first, _) in TABLE.items() if ORDER.index(first) <= ORDER.index(profile)
    }
    for name, verbs in offered.items():
        assert {
            verb: (told["writes"], told["destructive"], told["input_schema"]["required"])
            for verb, told in verbs.items()
        } == TABLE[name][1]


@pytest.mark.parametrize("profile", ORDER)
@pytest.mark.parametrize("name", TABLE)
def test_what_a_profile_lacks_is_denied_and_the_rest_reaches_its_adapter(
    profile: str, name: str, store: rote.Store
) -> None:
    host = host_of(profile, store)
    first, verbs = TABLE[name]
    for verb in verbs:
        # Arguments that no verb takes: they are judged only where the adapter may be used.
        with pytest.raises((Denied, InvalidInput)) as refused:
            host.call(name, verb, {"no such argument": 1})
        is_there = ORDER.index(first) <= ORDER.index(profile)
        assert refused.value.code == ("bad_arguments" if is_there else "adapter_denied")


def test_an_input_schema_tells_names_types_and_defaults(store: rote.Store) -> None:
    offered = host_of("operator-controlled", store).capabilities()["adapters"]
    assert offered["store"]["scan"]["input_schema"] == {
        "type": "object",
        "properties": {
            "prefix": {"type": "string", "default": ""},
            "after": {"type": ["string", "null"], "default": None},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 100},
        },
        "required": [],
        "additionalProperties": False,
    }


def test_only_what_may_be_called_is_offered(store: rote.Store, tmp_path: Path) -> None:
    bare = rote.Host("operator-controlled")
    assert set(bare.capabilities()["adapters"]) == {"frame", "cache"}  # the others need more
    grant = {"adapters": ["Cache ", "memory"], "verbs": {"cache": ["CacheGet"]}}
    narrow = rote.Host("operator-controlled", store=store, grant=grant)
    offered = narrow.capabilities()["adapters"]
    assert set(offered) == {"cache", "memory"}
    assert set(offered["cache"]) == {"get"}
    first = rote.Host("operator-controlled", store=store, memory={"profile": "v1"})
    assert {"history", "put_many", "touch", "update", "search"}.isdisjoint(
        first.capabilities()["adapters"]["memory"]
    )


def test_limits_are_told() -> None:
    assert rote.Host("minimal").capabilities()["limits"] == {
        "max_adapter_calls": None,
        "max_frame_bytes": 1_048_576,
    }
    told = rote.Host(
        "minimal", limits={"max_adapter_calls": 3}, grant={"limits": {"max_frame_bytes": 9}}
    )
    assert told.capabilities()["limits"] == {"max_adapter_calls": 3, "max_frame_bytes": 9}


@pytest.mark.parametrize("profile", ["Minimal", " MINIMAL ", "minimal"])
def test_profiles_are_trimmed_and_case_insensitive(profile: str) -> None:
    assert rote.Host(profile).capabilities()["profile"] == "minimal"


@pytest.mark.parametrize("profile", ["", "maximal", None, 1, ["minimal"]])
def test_an_unknown_profile_is_refused(profile: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        rote.Host(profile)
    assert refused.value.code == "unknown_profile"


def test_a_verb_is_switched_on_by_options_and_grants(tmp_path: Path) -> None:
    root = {"sandbox_root": str(tmp_path)}
    (tmp_path / "a.txt").write_text("a")
    for allowed, granted, is_on in (
        (False, None, False), (True, None, True), (True, False, False), (True, True, True),
        (False, True, False),
    ):  # fmt: skip
        host = rote.Host(
            "compute-and-store",
            fs={**root, "allow_delete": allowed},
            grant={"fs": {"allow_delete": granted}},
        )
        assert ("delete" in host.capabilities()["adapters"]["fs"]) is is_on
        if is_on:
            assert host.fs.delete("none.txt") == {"ok": True, "deleted": False}
            continue
        for args in (["a.txt"], []):  # before the arguments are looked at
            with pytest.raises(Denied) as refused:
                host.call("fs", "delete", args)
            assert refused.value.code == "verb_denied"
    with pytest.raises(Denied) as refused:  # nothing was switched off: there is nothing
        rote.Host("compute-and-store").call("fs", "delete", ["a.txt"])
    assert refused.value.code == "adapter_not_configured"
