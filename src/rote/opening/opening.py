"""rote.open: make a store from a URL. The only place that knows the parts of a store."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rote.client.address import is_remote
from rote.contract import Caller, Clock, IdSource
from rote.errors import InvalidInput
from rote.kernel import Kernel
from rote.opening.deferred import (
    WORDS,
    WORDS_NONE,
    DeferredQuestions,
    DeferredRuns,
    DeferredSearching,
    DeferredTexts,
    local_sessions,
    open_remote,
)
from rote.opening.engines import SCHEMA_DEFAULT, Location, open_engine
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.opening.sources import SystemClock, SystemIds, SystemTokens
from rote.records.contents import RECORD_CONTENTS
from rote.records.erasing import MATCHER
from rote.records.index import RECORDS
from rote.runs.leases import check_lease_seconds
from rote.runs.modes import check_modes
from rote.runs.side_rules import SIDE_RULES as RUN_RULES
from rote.sessions.side_rules import SIDE_RULES as SESSION_RULES
from rote.space import Store
from rote.space.arguments import check_flags, check_path
from rote.space.home import Home
from rote.space.receipts import ReceiptRule
from rote.tiers.messages import MESSAGES
from rote.values import Identity, check_author
from rote.values.client_limits import CALL_SECONDS_DEFAULT
from rote.values.limits import LEASE_SECONDS_DEFAULT

# The folder of traces beside a store's file.
TRACES_NAME = "observability"


def open(
    url: str | os.PathLike[str],
    *,
    durability: str = "fsync",
    author: str | None = None,
    modes: Iterable[str] | None = None,
    lease_seconds: float = LEASE_SECONDS_DEFAULT,
    traces: str | os.PathLike[str] | None = None,
    keys: str | os.PathLike[str] | None = None,
    schema: str = SCHEMA_DEFAULT,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    create: bool = True,
    recover: bool = True,
    read_only: bool = False,
    key: bytes | None = None,
    token: str | None = None,
    proofs: Sequence[Mapping[str, Any]] = (),
    timeout: float = CALL_SECONDS_DEFAULT,
) -> Store:
    """Open a store: a path, ":memory:", "sqlite:///path", "postgresql://user@host/database" or
    "https://host:port", where a server runs.

    durability  "fsync": an answered commit survives a power cut. "os": it survives a crash of the
                process; a power cut may lose the last commits, but never a part of one
    author      noted in every commit
    modes       modes of runs that are enabled: of "off", "read_only" (these two when left out),
                "buffered_write" and "live_read_write"
    lease_seconds  how long a run counts as alive after its last sign of life; then others end it
    traces      folder of the traces of runs; when left out, `observability` beside a file, else none
    keys        folder of the private keys of spaces; PostgreSQL only, `.rote/keys` in your home
    schema      the schema that holds the store; PostgreSQL only
    clock, ids  sources of time and randomness; the system's when left out
    create      make the store and its spaces on first use; otherwise they must be there
    recover     end runs whose owners are gone, as store.recover() does
    read_only   make, recover and write nothing; every write is Denied
    key         32 bytes: the seed of the next space that is made; behind a server, of who calls

    Behind a server, durability, author, keys, schema, clock and ids are the server's, and nothing is
    recovered here. For such a store alone:

    token       who calls, instead of a key
    proofs      delegations that the right of the key comes from
    timeout     seconds of a call, with its repetitions
    """
    check_flags(create=create, recover=recover, read_only=read_only)
    both: dict[str, Any] = {
        "modes": modes, "lease_seconds": lease_seconds, "traces": traces, "create": create,
        "read_only": read_only, "key": key,
    }  # fmt: skip
    of_server: dict[str, Any] = {
        "durability": durability, "author": author, "keys": keys, "schema": schema,
        "clock": clock, "ids": ids,
    }  # fmt: skip
    if is_remote(url):
        return open_remote(str(url), of_server, token=token, proofs=proofs, timeout=timeout, **both)
    _check_embedded(token=token, proofs=proofs or None, timeout=timeout)
    return _open(url, recover=recover, **of_server, **both)


def _check_embedded(*, timeout: float, **given: Any) -> None:
    """Refuse options that are for stores behind a server."""
    if timeout != CALL_SECONDS_DEFAULT:
        given["timeout"] = timeout
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(f"{name} is for a store behind a server, http(s)://", argument=name)


def open_as_allowed(
    url: str,
    *,
    create: bool,
    recover: bool,
    author: str | None,
    read_only: bool = False,
    modes: Iterable[str] | None = None,
    traces: os.PathLike[str] | None = None,
    token: str | None = None,
    key: bytes | None = None,
) -> Store:
    """Open a store as the command line does: read only too where it cannot be written.

    token, key  who calls, where the store is behind a server
    """
    if is_remote(url):
        return open_remote(
            url,
            {},
            token=token,
            key=key,
            modes=modes,
            traces=traces,
            create=create,
            read_only=read_only,
        )
    return _open(
        url,
        create=create,
        recover=recover,
        read_only=read_only or None,
        author=author,
        modes=modes,
        traces=traces,
    )


def _open(
    url: str | os.PathLike[str],
    *,
    create: bool,
    recover: bool,
    read_only: bool | None,
    durability: str = "fsync",
    author: str | None = None,
    modes: Iterable[str] | None = None,
    lease_seconds: float = LEASE_SECONDS_DEFAULT,
    traces: str | os.PathLike[str] | None = None,
    keys: str | os.PathLike[str] | None = None,
    schema: str = SCHEMA_DEFAULT,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    key: bytes | None = None,
) -> Store:
    url = str(check_path(url)) if isinstance(url, os.PathLike) else url
    check_sources(clock, ids)
    if key is not None:
        Identity.from_seed(key)
    if author is not None:
        check_author(author)
    check_modes(modes)
    check_lease_seconds(lease_seconds)
    folder = None if traces is None else check_path(traces).absolute()
    engine, location = open_engine(
        url, durability=durability, create=create, read_only=read_only, schema=schema, keys=keys
    )
    is_read_only = engine.read_only is not None
    tokens = SystemTokens()
    kernel = Kernel(
        engine,
        clock=clock or SystemClock(),
        ids=ids or SystemIds(),
        tokens=tokens,
        keys=MemoryKeys() if location.keys is None else FolderKeys(location.keys),
        questions=DeferredQuestions(),
        caller=Caller(author),
        seed=key,
        indexes=(RECORDS, WORDS, WORDS_NONE, MESSAGES),
        side_rules=(*RUN_RULES, *SESSION_RULES, ReceiptRule()),
        matchers=(MATCHER,),
        content_rules=(RECORD_CONTENTS,),
        texts=DeferredTexts(),
        presumes=ids is None,
    )
    if folder is None and location.path is not None and not is_read_only:
        folder = location.path.with_name(TRACES_NAME)
    runs = DeferredRuns(
        kernel,
        ids=ids or SystemIds(),
        tokens=tokens,
        modes=modes,
        lease_seconds=lease_seconds,
        folder=folder,
        read_only=is_read_only,
    )
    if recover and not is_read_only:
        runs.recover_if_possible()
    return Store(
        kernel,
        url=location.shown,
        local=kernel,
        create=create and not is_read_only,
        read_only=is_read_only,
        runs=runs,
        searching=DeferredSearching(),
        home=_home(kernel, location, ids),
    )


def _home(kernel: Kernel, location: Location, ids: IdSource | None) -> Home:
    # However the path is written, journals are of the same store.
    place = location.shown if location.path is None else str(location.path.resolve())
    sessions = local_sessions(kernel, place)
    return Home(ids or SystemIds(), location.path, sessions=sessions)


def check_sources(clock: object, ids: object) -> None:
    if clock is not None and not callable(getattr(clock, "now", None)):
        raise InvalidInput("a clock has a method now() that returns an aware datetime")
    if ids is not None and not callable(getattr(ids, "random_bytes", None)):
        raise InvalidInput("ids have a method random_bytes(size)")
