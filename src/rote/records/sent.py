"""Verbs that a store behind a server answers whole: one request, where each would be several.

A verb is sent when all that it goes by can be: plain arguments, and a memory without rules of its own.
Otherwise it runs here, on the commands of the space, with the same answer. In a session it runs on a
transaction of the session.
"""

from collections.abc import Callable
from copy import copy
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from rote.errors import InvalidInput
from rote.space import Space
from rote.space.home import Verbs
from rote.space.sessions import transact_each
from rote.space.sources import home_of
from rote.values import canonical

F = TypeVar("F", bound=Callable[..., Any])
# Commands whose names are not those of their verbs.
NAMES = {"retention_report": "memory_report"}


def sendable(verb: F) -> F:
    """Return a verb of a memory that is sent where it can be."""
    told = signature(verb)

    @wraps(verb)
    def call(memory: Any, *places: Any, **names: Any) -> Any:
        verbs: Verbs | None = memory.verbs
        if memory.session is not None:
            return transact_each(
                memory.session, lambda space: verb(_over(memory, space), *places, **names)
            )
        if verbs is None:
            return verb(memory, *places, **names)
        try:
            bound = told.bind(memory, *places, **names).arguments
            bound |= bound.pop("scoring", {}) | bound.pop("changes", {})
            del bound["self"]
            arguments = {name: _plain(value) for name, value in bound.items()}
            canonical(arguments)
        except (TypeError, InvalidInput):
            return verb(memory, *places, **names)  # it says what is wrong, or takes more than JSON
        space: Space = memory.space
        version = space.version if space.is_pinned else None
        return verbs.call(
            space.did,
            NAMES.get(verb.__name__, f"memory_{verb.__name__}"),
            {
                "arguments": arguments,
                "namespaces": list(memory.namespaces),
                "profile": memory.profile,
                "branch": space.branch,
                "version": version,
            },
        )

    return cast(F, call)


def verbs_of(space: Space) -> Verbs | None:
    """Return who answers verbs for a space; None where they run here."""
    return home_of(space).verbs


def _over(memory: Any, space: Space) -> Any:
    """Return a memory like this one on the space of a transaction."""
    other = copy(memory)
    other.session, other.space, other._writing = None, space, space
    return other


def _plain(value: Any) -> Any:
    return list(value) if type(value) is tuple else value
