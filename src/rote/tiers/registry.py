"""The verbs and options of every adapter, also of those that a host does not have: a name is known, or it
is not."""

from collections.abc import Callable, Mapping, Sequence

from rote.tiers import agent, cache, frame, memory, queue, store
from rote.tiers.fs import adapter as fs
from rote.tiers.options import checked_options
from rote.tiers.sqlite import adapter as sqlite
from rote.tiers.verbs import Parameter, Verb
from rote.values import Json

VERBS: Mapping[str, Mapping[str, Verb]] = {
    "frame": frame.VERBS,
    "cache": cache.VERBS,
    "memory": memory.VERBS,
    "store": store.VERBS,
    "sqlite": sqlite.VERBS,
    "fs": fs.VERBS,
    "queue": queue.VERBS,
    "agent": agent.VERBS,
}
# For each adapter whose names a grant lists, the check of those that a call names: verb, arguments, grant.
NAMES_CHECKS: Mapping[str, Callable[[str, Mapping[str, Json], Mapping[str, Json]], None]] = {
    "memory": memory.check_names,
    "queue": queue.check_names,
    "agent": agent.check_names,
}
# Of the adapters that may make a file: a host judges their options before anything is made.
_OPTIONS: Mapping[str, Sequence[Parameter]] = {
    "cache": cache.OPTIONS,
    "sqlite": sqlite.OPTIONS,
}
# Other names of verbs, in small letters.
_ALIASES = {"cache": {"cacheget": "get", "cacheset": "set"}, "queue": {"queueput": "put"}}
# For each adapter, the verb that each name stands for.
VERB_NAMES: Mapping[str, Mapping[str, str]] = {
    adapter: {
        **{name: name for name in verbs},
        **{name: verb for name, verb in _ALIASES.get(adapter, {}).items() if verb in verbs},
    }
    for adapter, verbs in VERBS.items()
}


def check_options(given: Mapping[str, object]) -> None:
    """Raise InvalidInput unless the options of adapters that are given are well formed."""
    for adapter, options in given.items():
        if options is not None:
            checked_options(adapter, _OPTIONS[adapter], options)
