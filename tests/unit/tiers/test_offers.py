"""Profiles, adapters and verbs: the table of the contract, typed from it and not from the code."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import rote
from rote.errors import Denied, InvalidInput
from rote.tiers.registry import VERBS
from rote.values import canonical

# The first profile that has an adapter, and its verbs: name, writes, destructive, arguments in their order:
# with a default, or with ? where one that is left out is not given at all.
CONTRACT = """
frame minimal
    get     -  -  | path="" default=null
    set     w  -  | path value
    delete  w  d  | path
cache compute-and-store
    get     -  -  | namespace key default=null
    set     w  d  | namespace key value ttl_seconds=null
    delete  w  d  | namespace key
memory compute-and-store
    put     w  d  | namespace kind id payload ttl_seconds? metadata? key? if_version?
    get     -  -  | namespace kind id at? include?
    append  w  -  | namespace kind id entry ttl_seconds? metadata? key? if_version?
    list    -  -  | namespace kind? id_prefix? updated_since? filters? at? include? order? descending?
    delete  w  d  | namespace kind id key? if_version?
    prune   w  d  | namespace?
    touch   w  -  | namespace kind id
    update  w  d  | namespace kind id changes? payload? patch? metadata? ttl_seconds? key? if_version?
    put_many          w  d  | records key?
    history           -  -  | namespace kind id limit?
    search            -  -  | text limit? filters? at? include? query_terms? language? context? \
                              min_score? min_share? drop_duplicates? enable_recency_weight? \
                              recency_half_life_days?
    stats             -  -  |
    capabilities      -  -  |
    retention_report  -  -  | expire_soon_seconds? namespace? kinds?
store compute-and-store
    get       -  -  | id default=null
    read      -  -  | id
    scan      -  -  | prefix="" after=null limit=100
    set       w  d  | id value key=null
    patch     w  d  | id ops key=null
    delete    w  d  | id key=null
    transact  w  d  | operations key=null
sqlite compute-and-store
    query    -  -  | sql params=null
    execute  w  d  | sql params=null
fs compute-and-store
    read    -  -  | path encoding="utf-8"
    write   w  d  | path content encoding="utf-8"
    append  w  -  | path content encoding="utf-8"
    list    -  -  | path=""
    exists  -  -  | path
    delete  w  d  | path
queue network-restricted
    put     w  -  | queue payload key=null
    take    w  -  | queue lease_seconds=null wait_seconds=0
    ack     w  d  | queue id lease
    nack    w  -  | queue id lease delay_seconds=0
    extend  w  -  | queue id lease lease_seconds=null
    peek    -  -  | queue limit=1 dead=false
    depth   -  -  | queue
    revive  w  -  | queue id
    drop    w  d  | queue id
agent operator-controlled
    send_task    w  -  | envelope
    read_task    -  -  | task_id
    read_result  -  -  | task_id
    tasks        -  -  | target_agent=null status="open" after=null limit=100
    post_result  w  -  | envelope
    bridge       w  -  |
"""
ORDER = ["minimal", "compute-and-store", "network-restricted", "operator-controlled"]


Verbs = dict[str, tuple[bool, bool, list[str]]]


def _table() -> dict[str, tuple[str, Verbs]]:
    table: dict[str, tuple[str, Verbs]] = {}
    verbs: Verbs = {}
    for line in CONTRACT.strip().splitlines():
        if not line.startswith(" "):
            name, first = line.split()
            verbs = {}
            table[name] = (first, verbs)
        else:
            told, arguments = line.split("|")
            verb, writes, destructive = told.split()
            verbs[verb] = (writes == "w", destructive == "d", arguments.split())
    return table


TABLE = _table()


def as_typed(schema: dict[str, Any]) -> list[str]:
    """Return the arguments of a schema as the table has them."""

    def word(name: str, property: dict[str, Any]) -> str:
        if name in schema["required"]:
            return name
        return (
            f"{name}={canonical(property['default']).decode()}"
            if "default" in property
            else f"{name}?"
        )

    return [word(name, property) for name, property in schema["properties"].items()]


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
        agent={"root": str(folder)},
    )


@pytest.mark.parametrize("profile", ORDER)
def test_a_profile_offers_these_adapters_with_these_verbs(profile: str, store: rote.Store) -> None:
    offered = host_of(profile, store).capabilities()["adapters"]
    assert set(offered) == {
        name for name, (first, _) in TABLE.items() if ORDER.index(first) <= ORDER.index(profile)
    }
    for name, verbs in offered.items():
        assert {
            verb: (told["writes"], told["destructive"], as_typed(told["input_schema"]))
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


SAMPLES: list[Any] = [
    None, True, False, 0, 1, -1, 2**53, 0.5, -0.5, 61, 1_001, 86_401, "", "a", "a b", "open", "utf-8",
    [], ["a"], [None], {}, {"a": 1}, "x" * 1_025,
]  # fmt: skip


def test_what_a_host_accepts_conforms_to_the_schema_that_it_offers(store: rote.Store) -> None:
    """A tool that is made of a schema may say anything that the host would take."""
    offered = host_of("operator-controlled", store).capabilities()["adapters"]
    for adapter, verbs in offered.items():
        for verb, told in verbs.items():
            schema = told["input_schema"]
            validator = jsonschema_rs.Draft202012Validator(schema)
            form = VERBS[adapter][verb]
            for parameter in form.parameters:
                shown = jsonschema_rs.Draft202012Validator(schema["properties"][parameter.name])
                taken = [value for value in SAMPLES if parameter.takes(value)]
                assert all(shown.is_valid(value) for value in taken), (adapter, verb, parameter)
                if parameter.check is None:  # nothing is judged that the schema does not say
                    valid = [value for value in SAMPLES if shown.is_valid(value)]
                    assert taken == valid, (adapter, verb, parameter)
            assert not validator.is_valid({"no such argument": 1})


def test_only_what_may_be_called_is_offered(store: rote.Store, tmp_path: Path) -> None:
    bare = rote.Host("operator-controlled")
    assert set(bare.capabilities()["adapters"]) == {"frame", "cache"}  # the others need more
    grant = {"adapters": ["Cache ", "memory"], "verbs": {"cache": ["CacheGet"]}}
    narrow = rote.Host("operator-controlled", store=store, grant=grant)
    offered = narrow.capabilities()["adapters"]
    assert set(offered) == {"cache", "memory"}
    assert set(offered["cache"]) == {"get"}
    none = rote.Host("operator-controlled", grant={"verbs": {"cache": []}})
    assert set(none.capabilities()["adapters"]) == {"frame"}
    first = rote.Host("operator-controlled", store=store, memory={"profile": "v1"})
    assert {"history", "put_many", "touch", "update", "search"}.isdisjoint(
        first.capabilities()["adapters"]["memory"]
    )


def test_a_pinned_view_offers_what_reads_and_a_mailbox_without_files_no_bridge(
    store: rote.Store,
) -> None:
    space = store.space("default")
    offered = rote.Host("operator-controlled", space=space.at(0)).capabilities()["adapters"]
    for name in ("memory", "store", "queue", "agent"):
        reads = {verb for verb, (writes, _, _) in TABLE[name][1].items() if not writes}
        assert set(offered[name]) == reads
    offered = rote.Host("operator-controlled", space=space).capabilities()["adapters"]
    assert set(TABLE["agent"][1]) - set(offered["agent"]) == {"bridge"}
    with pytest.raises(Denied) as refused:
        rote.Host("operator-controlled", space=space).agent.bridge()
    assert refused.value.code == "adapter_not_configured"


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
