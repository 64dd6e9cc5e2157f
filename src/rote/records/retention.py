"""Retention of records: the defaults of a host, pruning, and the reports."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from rote.contract import State
from rote.errors import InvalidInput
from rote.records.envelope import SECOND, Envelope, Life, check_ttl, life_of, record_of, time_text
from rote.records.index import NAME, instant_range
from rote.records.keys import ids_under
from rote.records.listing import of_newest, scan_records
from rote.space import Space
from rote.values import canonical, micros_of
from rote.values.limits import (
    PRUNE_BATCH,
    RECORD_ATTEMPTS_MAX,
    REPORT_RECORDS_MAX,
    TTL_SECONDS_MAX,
)

TTL_ONLY, NONE = "ttl_only", "none"
_DAY = 86_400 * SECOND
# The names are those of the contract. The age of a record is the time since it was last written.
_AGES = (("last_24h", _DAY), ("24h_to_7d", 7 * _DAY), ("7d_to_30d", 30 * _DAY))
_OLDER = "older"
_COUNTS = ("records", "with_ttl", "without_ttl", "expired", "expiring_soon")


class Retention(Struct, frozen=True):
    """The times to live and prune strategies that a host has chosen for its namespaces."""

    default_ttl: Mapping[str, int | None]
    strategies: Mapping[str, str]

    def ttl_of(self, namespace: str) -> int | None:
        return self.default_ttl.get(namespace)

    def prunes(self, namespace: str) -> bool:
        return self.strategies.get(namespace, TTL_ONLY) == TTL_ONLY


# The retention of a host that chooses nothing.
_DEFAULT = Retention({}, {})


def parse_retention(namespaces: tuple[str, ...], default_ttl: Any, strategies: Any) -> Retention:
    if default_ttl is None and strategies is None:
        return _DEFAULT
    checked = _by_namespace(namespaces, default_ttl, "default_ttl_by_namespace")
    for namespace, ttl in checked.items():
        check_ttl(ttl, f"default_ttl_by_namespace of {namespace}")
    named = _by_namespace(namespaces, strategies, "prune_strategy_by_namespace")
    for namespace, strategy in named.items():
        if strategy not in (TTL_ONLY, NONE):
            raise InvalidInput(
                f"{strategy!r:.80} is no strategy for {namespace}; use {TTL_ONLY!r} or {NONE!r}",
                argument="prune_strategy_by_namespace",
            )
    return Retention(checked, named)


def _by_namespace(namespaces: tuple[str, ...], given: Any, argument: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{argument} must map namespaces", argument=argument)
    for namespace in given:
        if namespace not in namespaces:
            raise InvalidInput(
                f"{argument} names {namespace!r:.80}, which is none of {', '.join(namespaces)}",
                argument=argument,
            )
    return dict(given)


def prune_namespace(space: Space, namespace: str) -> int:
    """Delete expired records in batches; return their number."""
    pruned = 0
    while count := space.retry(lambda: _prune_some(space, namespace), attempts=RECORD_ATTEMPTS_MAX):
        pruned += count
        if count < PRUNE_BATCH:
            break
    return pruned


def _prune_some(space: Space, namespace: str) -> int:
    now = micros_of(space.now)
    start, end = instant_range("expires", namespace, None, now - 1)

    def expired_in(view: Space) -> list[State]:
        hits = view.find(NAME, start=start, end=end, within=ids_under(namespace))
        ids = [hit.id for hit in islice(hits, PRUNE_BATCH)]
        return [state for state in view.read_many(ids) if _has_expired(record_of(state), now)]

    expired = of_newest(space, expired_in)
    if expired:
        space.transact(
            [{"op": "delete", "id": state.id} for state in expired],
            # A record that someone writes meanwhile has not expired any more: that is a conflict.
            reads=[{"id": state.id, "version": state.version} for state in expired],
        )
    return len(expired)


def expired_ids(view: Space, namespaces: Iterable[str]) -> list[str]:
    """Return the ids of all expired records of a state, by namespace and instant of expiry."""
    now = micros_of(view.now)
    found: list[str] = []
    for namespace in namespaces:
        start, end = instant_range("expires", namespace, None, now - 1)
        ids = [hit.id for hit in view.find(NAME, start=start, end=end)]
        for first in range(0, len(ids), PRUNE_BATCH):
            states = view.read_many(ids[first : first + PRUNE_BATCH])
            found += [state.id for state in states if _has_expired(record_of(state), now)]
    return found


def _has_expired(record: Envelope | None, now: int) -> bool:
    life = None if record is None else life_of(record)
    return life is not None and life.has_expired(now)


def stats(view: Space, namespaces: tuple[str, ...]) -> dict[str, Any]:
    """Return the number and the size of records; expired ones count until they are pruned."""
    by_namespace: dict[str, dict[str, int]] = {}
    for record in _all_records(view, namespaces):
        counts = by_namespace.setdefault(record["namespace"], {"records": 0, "bytes": 0})
        counts["records"] += 1
        counts["bytes"] += len(canonical(record))
    return {
        "records": sum(counts["records"] for counts in by_namespace.values()),
        "bytes": sum(counts["bytes"] for counts in by_namespace.values()),
        "by_namespace": by_namespace,
    }


def retention_report(
    view: Space,
    namespaces: tuple[str, ...],
    kinds: tuple[str, ...] = (),
    *,
    now: int,
    expire_soon_seconds: Any,
) -> dict[str, Any]:
    if type(expire_soon_seconds) is not int or not 0 <= expire_soon_seconds <= TTL_SECONDS_MAX:
        raise InvalidInput(
            f"expire_soon_seconds must be an integer from 0 to {TTL_SECONDS_MAX:,}",
            argument="expire_soon_seconds",
        )
    totals, ages = Counter[str](), Counter[str]()
    by_namespace: dict[str, Counter[str]] = {}
    by_kind: dict[str, Counter[str]] = {}
    named: dict[str, list[dict[str, Any]]] = {"expired": [], "expiring_soon": []}
    soon = now + expire_soon_seconds * SECOND
    for record in _all_records(view, namespaces, kinds):
        life = life_of(record)
        assert life is not None
        found = _standing(life, now, soon)
        for counter in (
            totals,
            by_namespace.setdefault(record["namespace"], Counter()),
            by_kind.setdefault(record["record_kind"], Counter()),
        ):
            counter.update(found)
        ages[_age(now - life.updated_at)] += 1
        for name, records in named.items():
            if name in found and len(records) < REPORT_RECORDS_MAX:
                records.append(_named(record, life))
    return {
        "totals": _counts(totals),
        "by_namespace": {name: _counts(counts) for name, counts in sorted(by_namespace.items())},
        "by_kind": {name: _counts(counts) for name, counts in sorted(by_kind.items())},
        "age": {name: ages[name] for name in (*(name for name, _ in _AGES), _OLDER)},
        **named,
    }


def _all_records(
    view: Space, namespaces: tuple[str, ...], kinds: tuple[str, ...] = ()
) -> Iterator[Envelope]:
    for namespace in namespaces:
        for kind in kinds or (None,):
            yield from scan_records(view, ids_under(namespace, kind))


def _standing(life: Life, now: int, soon: int) -> list[str]:
    """Return the names of the counts that a record adds to."""
    expires = life.expires
    if expires is None:
        return ["records", "without_ttl"]
    if now > expires:
        return ["records", "with_ttl", "expired"]
    return ["records", "with_ttl", *(["expiring_soon"] if expires <= soon else [])]


def _counts(counter: Counter[str]) -> dict[str, int]:
    return {name: counter[name] for name in _COUNTS}


def _age(micros: int) -> str:
    return next((name for name, most in _AGES if micros <= most), _OLDER)


def _named(record: Envelope, life: Life) -> dict[str, Any]:
    assert life.expires is not None
    members = ("namespace", "record_kind", "record_id", "updated_at", "ttl_seconds")
    return {**{name: record[name] for name in members}, "expires_at": time_text(life.expires)}
