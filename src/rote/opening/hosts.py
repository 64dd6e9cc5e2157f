"""rote.Host: a host of state tiers. Made here, because it needs a clock and randomness."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rote.contract import Clock, IdSource
from rote.errors import InvalidInput
from rote.opening.engines import keys_beside
from rote.opening.opening import check_sources
from rote.opening.sources import SystemClock, SystemIds, SystemTokens
from rote.records.memory import Memory
from rote.space import Space, Store
from rote.space.home import Home
from rote.space.sources import home_of, now_of
from rote.tiers import host as tiers
from rote.tiers.adapters import Adapter
from rote.tiers.agent import open_agent
from rote.tiers.cache import open_cache
from rote.tiers.fs.adapter import open_fs
from rote.tiers.memory import MemoryTier, memory_settings
from rote.tiers.queue import QueueTier, queue_settings
from rote.tiers.registry import check_options
from rote.tiers.sqlite.adapter import open_sqlite
from rote.tiers.store import StoreTier
from rote.values import Json, micros_of

_SPACE_DEFAULT = "default"
_Options = Mapping[str, Any]


class Host(tiers.Host):
    """The state tiers that a workflow may use, behind one door that grants, counts and records."""

    def __init__(
        self,
        profile: str,
        *,
        store: Store | None = None,
        space: str | Space | None = None,
        cache: _Options | None = None,
        memory: _Options | None = None,
        sqlite: _Options | None = None,
        fs: _Options | None = None,
        queue: _Options | None = None,
        agent: _Options | None = None,
        grant: Mapping[str, Json] | None = None,
        limits: Mapping[str, int | None] | None = None,
        redact: Iterable[str] = (),
        clock: Clock | None = None,
    ) -> None:
        """Make a host of a profile: minimal, compute-and-store, network-restricted or
        operator-controlled.

        store, space  the space of memory, store, queue and agent: in a store a name or did, which is
                      `default` when left out, or a Space without store=
        cache         path, max_entries, max_bytes
        memory        settings as rote.Memory takes them
        sqlite        path, allow_tables, create, allow_write, max_rows, max_result_bytes, max_sql_bytes,
                      timeout_seconds, max_memory_bytes
        fs            sandbox_root, allow_extensions, max_read_bytes, max_write_bytes, allow_delete
        queue         max_tries, lease_seconds, max_payload_bytes
        agent         root, a folder of files beside the space
        grant         narrows what the profile allows
        limits        max_adapter_calls, max_frame_bytes, of the host and of each of its scopes
        redact        names of members whose values are neither recorded nor shown
        clock         when left out the store's, else the system's
        """
        check_sources(clock, None)
        terms = tiers.check_terms(profile, grant=grant, limits=limits, redact=redact)
        check_options({"cache": cache, "sqlite": sqlite})
        settings = memory_settings({} if memory is None else memory)
        queues = queue_settings({} if queue is None else queue)
        home = _home(store, space)
        if sqlite is not None and home.file is None:
            _check_no_store(Path(sqlite["path"]))
        adapters: dict[str, Adapter] = {}
        try:
            # First what must be there, then what may be made: a space, a cache, a database.
            if fs is not None:
                adapters["fs"] = open_fs(fs)
            mailbox = {} if agent is None else agent
            open_agent(mailbox, None)
            makes_tables = sqlite is not None and sqlite.get("create") is True
            if sqlite is not None and not makes_tables:
                adapters["sqlite"] = open_sqlite(sqlite, store_path=home.file)
            place = _space(store, space)
            ids = home.ids or SystemIds()
            if place is not None:
                adapters |= _tiers_of(place, settings, queues, mailbox, ids)
            adapters["cache"] = open_cache({} if cache is None else cache, now=_now(clock, place))
            if sqlite is not None and makes_tables:
                adapters["sqlite"] = open_sqlite(sqlite, store_path=home.file)
            tiers.start_host(self, terms, adapters, ids=ids, space=place)
        except BaseException:
            for adapter in adapters.values():
                adapter.close()
            raise


def _check_no_store(path: Path) -> None:
    """Refuse the file of a store, known by its keys; a store without them is told by the first call.

    The file is not read: closing it would end the locks that this process has on it.
    """
    if path.is_file() and keys_beside(path).is_dir():
        raise InvalidInput(
            f"{str(path)!r} is a store of Rote, with its keys beside it; name another database",
            path=str(path),
        )


def _home(store: object, space: object) -> Home:
    """Return the home of the store that is named, if the names are of the right kinds."""
    if isinstance(space, Space):
        if store is not None:
            raise InvalidInput("a Space has its store already; leave out store=")
        return home_of(space)
    if store is None:
        if space is not None:
            raise InvalidInput("space= is a Space, or a name together with store=")
        return Home()
    if not isinstance(store, Store):
        raise InvalidInput("store= is a store that rote.open returned")
    if space is not None and type(space) is not str:
        raise InvalidInput("space= is a name, a did or a Space")
    return home_of(store)


def _space(store: Store | None, space: str | Space | None) -> Space | None:
    if isinstance(space, Space):
        return space
    if store is None:
        return None
    return store.space(_SPACE_DEFAULT if space is None else space)


def _tiers_of(
    space: Space,
    settings: Mapping[str, Any],
    queues: Mapping[str, Any],
    mailbox: Mapping[str, Any],
    ids: IdSource,
) -> dict[str, Adapter]:
    """Return the tiers of a space; they offer what can be called on it."""
    made: dict[str, Adapter] = {
        "memory": MemoryTier(lambda **taken: Memory(space, **taken), settings),
        "store": StoreTier(space),
        "queue": QueueTier(space, queues, ids=ids, tokens=SystemTokens()),
    }
    if (agent := open_agent(mailbox, space)) is not None:
        made["agent"] = agent
    for adapter in made.values():
        adapter.verbs = {
            name: verb
            for name, verb in adapter.verbs.items()
            if not (space.is_pinned and verb.writes) and (name != "bridge" or mailbox.get("root"))
        }
    return made


def _now(clock: Clock | None, space: Space | None) -> Callable[[], int]:
    """Return the host's time in microseconds: by its own clock, the store's or the system's."""
    if clock is None and space is not None:
        return lambda: now_of(space)
    source = SystemClock() if clock is None else clock
    return lambda: micros_of(source.now())
