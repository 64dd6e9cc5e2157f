"""A host: the one door between a workflow and its state.

    host.call(adapter, verb, args)
      │
      ├─ usable?      not closed, not in a fork of its process
      ├─ counted      in its scope and the scopes above, but for the frame's calls
      ├─ adapter      known, in the profile, granted
      ├─ verb         known, granted, switched on
      ├─ arguments    copied, bound by name, of their types
      ├─ configured   the host has its space or its options
      ├─ names        those that a grant lists: namespaces, queues, targets
      ├─ run          in the scope of a run: its mode allows it
      └─ adapter.call the result is copied; in a replay the recording answers

The first of these that fails is the error. A scope is a host of its own for one workflow run: it has a
new frame and a new count, shares everything else, and may do what its parent may, or less. In the scope
of a `Run` the tiers of the space are the run's (run_tiers.py), and the run records the calls.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from msgspec import Struct

from rote.contract import IdSource
from rote.errors import (
    Denied,
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    Unavailable,
    system_failure,
)
from rote.recordings.adapter_calls import AdapterCall
from rote.recordings.redaction import Redaction
from rote.space import Space
from rote.space.arguments import check_path
from rote.tiers.adapters import Adapter
from rote.tiers.exchanges import SALT_BYTES, Exchange, Exchanging, Recorder, Replayer
from rote.tiers.frame import Frame
from rote.tiers.grants import Grant, narrowed, parse_grant, parse_limits
from rote.tiers.profiles import ADAPTERS, PROFILES, adapters_of, check_profile, plain
from rote.tiers.queue import check_not_pinned
from rote.tiers.registry import NAMES_CHECKS, VERB_NAMES, VERBS
from rote.tiers.run_tiers import (
    RECORDED_ADAPTERS,
    SPACE_ADAPTERS,
    JoiningAdapter,
    adapters_in_run,
)
from rote.tiers.runs import RunOfScope, ScopedRun
from rote.tiers.verbs import Verb
from rote.values import Encoded, Json, canonical, decode_canonical
from rote.values.limits import DEPTH_MAX
from rote.values.names import told
from rote.values.tier_limits import (
    FRAME_BYTES_MAX,
    HOST_CALL_BYTES_MAX,
    HOST_CALL_LEVELS,
    HOST_NAMES_MAX,
)

SomeExchange = TypeVar("SomeExchange", bound=Exchange)
_DEPTH_MAX = DEPTH_MAX + HOST_CALL_LEVELS


class Shared:
    """The parts that a host shares with all of its scopes."""

    def __init__(
        self,
        profile: str,
        adapters: Mapping[str, Adapter],
        redact: frozenset[str],
        ids: IdSource,
        space: Space | None,
    ) -> None:
        self.profile = profile
        self.space = space
        self.adapters = adapters  # those that are configured, without the frame
        self.redact = redact  # names of members whose values are never recorded or shown
        self.ids = ids
        self.exchange: Exchange | None = None  # while calls are recorded or replayed
        self.is_beginning = False  # to record or replay
        self.process = os.getpid()
        self.lock = threading.Lock()


class Host:
    """The state tiers that a workflow may use. Threads may share it; a fork of its process may not."""

    frame: "Calls"
    cache: "Calls"
    memory: "Calls"
    store: "Calls"
    sqlite: "Calls"
    fs: "Calls"
    queue: "Calls"
    agent: "Calls"

    def _begin(
        self,
        shared: Shared,
        *,
        parent: "Host | None",
        limits: Mapping[str, int],
        grant: Grant,
        frame: Mapping[str, Json] | None = None,
        run: ScopedRun | None = None,
    ) -> None:
        """Make it ready, as a host without a parent or as a scope."""
        self._shared = shared
        self._parent = parent
        self._run = run
        if run is not None:
            run.calls().redact(shared.redact, self._draw_salt)
        self._grant = grant
        self._limits: dict[str, int] = narrowed(limits, grant.get("limits", {}))
        shown = shared.adapters if run is None else adapters_in_run(shared.adapters, run)
        self._adapters: dict[str, Adapter] = {
            **shown,
            "frame": Frame(frame, size_bytes_max=self._limits["max_frame_bytes"]),
        }
        self._allowed = frozenset(
            name
            for name in adapters_of(shared.profile)
            if "adapters" not in grant or name in grant["adapters"]
        )
        self._count = 0
        self._is_closed = False
        for name in ADAPTERS:
            setattr(self, name, Calls(self, name))

    if not TYPE_CHECKING:  # a checker of types knows the attributes that there are

        def __getattr__(self, name: str) -> NoReturn:
            words = name if name.startswith("_") else f"no adapter {name!r}; {told(ADAPTERS)}"
            raise AttributeError(words, name=name, obj=self)

    # -- calls -------------------------------------------------------------------------------------

    def call(self, adapter: str, verb: str, args: Sequence[Json] | Mapping[str, Json] = ()) -> Json:
        """Call a verb of an adapter, with arguments by position or by name."""
        if isinstance(args, Mapping):
            return self._call(adapter, verb, (), args)
        return self._call(adapter, verb, args, {})

    def _call(
        self, adapter: object, verb: object, positional: object, named: Mapping[str, Json]
    ) -> Json:
        self._check_usable()
        name = plain(adapter)
        if name != "frame":
            self._take_count()
        if name not in ADAPTERS:
            raise InvalidInput(
                f"there is no adapter {adapter!r:.80}; {told(ADAPTERS)}", code="unknown_adapter"
            )
        if name not in self._allowed:
            raise self._adapter_denied(name)
        found = self._verb(name, verb)
        called = f"{name}.{found.name}"
        given = found.bind(*_copied_arguments(called, positional, named), called=called)
        return self._reach(name, found, given)

    def _adapter_denied(self, name: str) -> Denied:
        profile = self._shared.profile
        if name in adapters_of(profile):
            reason = f"{name} is not among the adapters of the grant; {told(sorted(self._allowed))}"
        else:
            least = next(each for each in PROFILES if name in adapters_of(each))
            reason = f"the profile {profile} has no adapter {name}; {least} has it"
        return Denied(reason, code="adapter_denied")

    def _verb(self, adapter: str, verb: object) -> Verb:
        known = VERB_NAMES[adapter]
        name = plain(verb)
        if name not in known:
            raise InvalidInput(
                f"{adapter} has no verb {verb!r:.80}; {told(VERBS[adapter])}", code="unknown_verb"
            )
        found = VERBS[adapter][known[name]]
        if not self._is_on(adapter, found):
            raise self._verb_denied(adapter, found)
        return found

    def _verb_denied(self, adapter: str, verb: Verb) -> Denied:
        granted = self._grant.get("verbs", {}).get(adapter)
        if granted is not None and verb.name not in granted:
            reason = f"not among the verbs of the grant; {told(sorted(granted))}"
        else:
            reason = f"switched off: {verb.switch} is false in {adapter}= or in a grant"
        return Denied(f"{adapter}.{verb.name} is {reason}", code="verb_denied")

    def _is_on(self, adapter: str, verb: Verb) -> bool:
        """Return whether a verb is granted, and switched on by the options and the grant."""
        granted = self._grant.get("verbs", {})
        if adapter in granted and verb.name not in granted[adapter]:
            return False
        if verb.switch is None:
            return True
        configured = self._adapters.get(adapter)
        return bool(
            (configured is None or configured.switches[verb.switch])
            and self._grant.get(adapter, {}).get(verb.switch, True)
        )

    def _reach(self, name: str, verb: Verb, given: dict[str, Json]) -> Json:
        exchange, run = self._shared.exchange, self._run
        is_replay = exchange is not None and exchange.is_replay if run is None else run.is_replay
        if name not in self._adapters and not is_replay:
            needed = (
                "a space (store= or space=)" if name in SPACE_ADAPTERS else f"the option {name}="
            )
            raise Denied(
                f"{name} needs {needed}; this host was made without it",
                code="adapter_not_configured",
            )
        granted = self._grant.get(name)
        if granted and name in NAMES_CHECKS:
            NAMES_CHECKS[name](verb.name, given, granted)
        if run is not None:
            return self._reach_in_run(run, name, verb, given)
        if exchange is None:
            return self._perform(name, verb, given)
        called = f"{name}.{verb.name}"
        return exchange.call(called, given, lambda: self._perform(name, verb, given))

    def _reach_in_run(self, run: ScopedRun, name: str, verb: Verb, given: dict[str, Json]) -> Json:
        self._check_not_recorded()
        calls = run.calls()
        if name in SPACE_ADAPTERS:
            run.check(writes=verb.writes)
            if verb.writes:  # a run is of the space that the view is of, and may well write there
                check_not_pinned(self._shared.space)

        def join_again(result: Json) -> None:
            adapter = self._adapters.get(name)
            if isinstance(adapter, JoiningAdapter):
                adapter.again(verb.name, verb.filled(given), result)

        return calls.call(
            AdapterCall.of(f"{name}.{verb.name}", given, calls.redaction),
            lambda: self._perform(name, verb, given),
            is_line=name in RECORDED_ADAPTERS,
            writes=verb.writes,
            again=join_again,
        )

    def _perform(self, name: str, verb: Verb, given: dict[str, Json]) -> Json:
        adapter = self._adapters[name]
        try:
            result = adapter.call(verb.name, verb.filled(given), self._grant.get(name, {}))
        except OSError as error:
            raise system_failure(f"{name}.{verb.name} failed", error, error.filename) from error
        return _copied_result(result, f"the result of {name}.{verb.name}")

    def _check_usable(self) -> None:
        if os.getpid() != self._shared.process:
            raise Unavailable("this host belongs to another process; make one in this process")
        host: Host | None = self
        while host is not None:
            if host._is_closed:
                raise Unavailable("this host is closed; make another one")
            host = host._parent

    def _take_count(self) -> None:
        """Count a call, here and in the scopes above; LimitExceeded when there are too many."""
        with self._shared.lock:
            over = None
            host: Host | None = self
            while host is not None:
                # A host counts its own calls, and none of its scopes'.
                if host is self or host._parent is not None:
                    host._count += 1
                    limit = host._limits.get("max_adapter_calls")
                    if over is None and limit is not None and host._count > limit:
                        over = (host._count, limit)
                host = host._parent
        if over is not None:
            raise LimitExceeded(
                "max_adapter_calls: the number of calls",
                size=over[0],
                limit=over[1],
                advice="make fewer, or ask for more",
            )

    # -- scopes ------------------------------------------------------------------------------------

    def scope(
        self,
        *,
        run: RunOfScope | None = None,
        frame: Mapping[str, Json] | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a host for one workflow run; use it in a `with` block.

        run    a run of the host's space, which goes on: memory and store are its own, its commit takes
               what is put, acknowledged, sent and posted, and its recording has the calls
        frame  the first values of its frame
        grant  what it may do, of what this host may
        """
        self._check_usable()
        inner = object.__new__(type(self))
        inner._begin(
            self._shared,
            parent=self,
            limits=self._limits,
            grant=narrowed(self._grant, parse_grant(grant, VERB_NAMES)),
            frame=_first_values(frame),
            run=self._run if run is None else self._checked_run(run),
        )
        return inner

    def _checked_run(self, run: object) -> ScopedRun:
        if not isinstance(run, RunOfScope):
            raise InvalidInput("run= is a run that space.run returned")
        scoped, space = run.scoped, self._shared.space
        if space is None or (space.did, space.branch) != (scoped.did, scoped.branch):
            raise InvalidInput(
                "the run is in another space or on another branch than the host; make a host for"
                " those of the run"
            )
        if self._run not in (None, scoped):
            raise InvalidInput("this scope is in another run; ask its host for a scope")
        self._check_not_recorded()
        scoped.calls()
        return scoped

    def _check_not_recorded(self) -> None:
        """Refuse a run while the host itself records or replays: its calls would be in neither."""
        if self._shared.exchange is not None:
            raise InvalidInput(
                "this host is recorded or replayed, and a run has a recording of its own; leave"
                " host.record or host.replay first"
            )

    # -- recording ---------------------------------------------------------------------------------

    def record(self, path: str | os.PathLike[str]) -> Exchanging[Self]:
        """Write every call that reaches an adapter, of all scopes, to a new file; use it in a `with`
        block."""
        file = check_path(path)
        return Exchanging(self, lambda: Recorder(file, self._redaction(None)))

    def replay(self, path: str | os.PathLike[str]) -> Exchanging[Self]:
        """Answer every call from a recording, and touch nothing; use it in a `with` block."""
        file = check_path(path)
        return Exchanging(self, lambda: Replayer(file, self._redaction))

    def _redaction(self, salt: bytes | None) -> Redaction:
        return Redaction(self._shared.redact, salt or self._draw_salt())

    def _draw_salt(self) -> bytes:
        return self._shared.ids.random_bytes(SALT_BYTES)

    def _begin_exchange(self, make: Callable[[], SomeExchange]) -> SomeExchange:
        self._check_usable()
        if self._run is not None:
            raise InvalidInput(
                "the calls of this scope are in the recording of its run; begin that with"
                " space.run(record=…), or replay it with space.run(replay=…)"
            )
        shared = self._shared
        with shared.lock:
            if shared.is_beginning or shared.exchange is not None:
                raise InvalidInput(
                    "this host is recorded or replayed already, perhaps by another scope; one at a"
                    " time"
                )
            shared.is_beginning = True
        try:
            made = shared.exchange = make()
        finally:
            shared.is_beginning = False
        return made

    def capabilities(self) -> dict[str, Json]:
        """Return what may be called, with the JSON Schema of its arguments, and the limits."""
        self._check_usable()
        offered: dict[str, Json] = {}
        for name in ADAPTERS:
            adapter = self._adapters.get(name)
            if adapter is None or name not in self._allowed:
                continue
            verbs = [verb for verb in adapter.verbs.values() if self._is_offered(name, verb)]
            offered[name] = {
                verb.name: {
                    "input_schema": verb.input_schema(),
                    "writes": verb.writes,
                    "destructive": verb.destructive,
                }
                for verb in verbs
            }
        limits = {"max_adapter_calls": None, **self._limits}
        offered = {name: verbs for name, verbs in offered.items() if verbs}
        return {"profile": self._shared.profile, "adapters": offered, "limits": limits}

    def _is_offered(self, adapter: str, verb: Verb) -> bool:
        if self._run is not None and adapter in SPACE_ADAPTERS:
            try:
                self._run.check(writes=verb.writes)
            except Denied:
                return False
        return self._is_on(adapter, verb)

    def close(self) -> None:
        """Close a scope; of a host also its files and processes. Its store stays open."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._parent is None and os.getpid() == self._shared.process:
            for adapter in self._shared.adapters.values():
                adapter.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = "Host" if self._parent is None else "Scope"
        return f"{kind}({self._shared.profile!r}: {', '.join(sorted(self._allowed))})"


class Calls:
    """An adapter as an attribute of its host: host.cache.set("a", "b", 5)."""

    def __init__(self, host: Host, adapter: str) -> None:
        self._host = host
        self._adapter = adapter

    def __getattr__(self, verb: str) -> "CallsVerb":
        if verb.startswith("_"):
            raise AttributeError(verb)
        return CallsVerb(self._host, self._adapter, verb)


class CallsVerb:
    """A verb as a method of its adapter."""

    def __init__(self, host: Host, adapter: str, verb: str) -> None:
        self._place = (host, adapter, verb)

    def __call__(self, /, *args: Json, **named: Json) -> Json:
        host, adapter, verb = self._place
        return host._call(adapter, verb, args, named)


class Terms(Struct, frozen=True):
    """The checked arguments of a host beside its adapters."""

    profile: str
    grant: Grant
    limits: Mapping[str, int]
    redact: frozenset[str]


def check_terms(profile: object, *, grant: object, limits: object, redact: object) -> Terms:
    """Return checked terms; nothing is opened."""
    return Terms(
        check_profile(profile),
        parse_grant(grant, VERB_NAMES),
        {"max_frame_bytes": FRAME_BYTES_MAX, **parse_limits(limits)},
        names_to_redact(redact),
    )


def start_host(
    host: Host,
    terms: Terms,
    adapters: Mapping[str, Adapter],
    *,
    ids: IdSource,
    space: Space | None,
) -> None:
    """Make a new host ready with the adapters that are configured."""
    shared = Shared(terms.profile, adapters, terms.redact, ids, space)
    host._begin(shared, parent=None, limits=terms.limits, grant=terms.grant)


def shared_of(host: Host) -> Shared:
    return host._shared


def stands_alone(host: Host) -> bool:
    """Return whether it is a host without a store, and no scope."""
    return host._parent is None and host._shared.space is None


def names_to_redact(names: object) -> frozenset[str]:
    if (
        not isinstance(names, list | tuple | set | frozenset)
        or len(names) > HOST_NAMES_MAX
        or not all(type(name) is str for name in names)
    ):
        raise InvalidInput("redact is a list of names")
    return frozenset(names)


def _first_values(frame: object) -> dict[str, Json] | None:
    if frame is None:
        return None
    if not isinstance(frame, Mapping):
        raise InvalidInput("frame is an object of first values", code="bad_arguments")
    values: dict[str, Json] = decode_canonical(canonical(dict(frame)))
    return values


def _copied_arguments(
    called: str, positional: object, named: Mapping[str, Json]
) -> tuple[list[Json], dict[str, Json]]:
    """Return copies of arguments; InvalidInput when they are no values, or neither list nor object."""
    if not isinstance(positional, list | tuple):
        raise InvalidInput(
            f"{called}: arguments are a list, or an object by name", code="bad_arguments"
        )
    try:
        data = canonical([list(positional), dict(named)], depth_max=_DEPTH_MAX)
    except InvalidValue as error:
        # Without the list and the object around them.
        pointer = error.details["pointer"][2:]
        reason = error.details["reason"]
        raise InvalidInput(
            f"{called}: an argument is no value at {pointer!r}: {reason}",
            code="bad_arguments",
            pointer=pointer,
        ) from None
    _check_size(data, "the arguments")
    both: tuple[list[Json], dict[str, Json]] = decode_canonical(data)
    return both


def _copied_result(result: Json, what: str) -> Json:
    data = result.data if type(result) is Encoded else canonical(result, depth_max=_DEPTH_MAX)
    _check_size(data, what)
    return decode_canonical(data)


def _check_size(data: bytes, what: str) -> None:
    if len(data) > HOST_CALL_BYTES_MAX:
        raise LimitExceeded(
            f"{what} in bytes",
            size=len(data),
            limit=HOST_CALL_BYTES_MAX,
            advice="put large data into a blob, or ask for less",
        )
