"""The seam between a host and a tier.

A host decides whether a call may be made: profile, grants of adapters and verbs, switches, counts and
the form of the arguments. An adapter does it: it judges what the arguments mean, its own members of
the grant, and its bounds.

The file of an adapter has the table `VERBS` and a function `open_<name>(options, …)` that makes the
adapter. It raises InvalidInput for options that are unknown or ill-typed, and NotFound for a database
or a folder that is missing.
"""

from collections.abc import Mapping
from typing import Protocol

from rote.tiers.verbs import Verb
from rote.values import Json


class Adapter(Protocol):
    """One tier. It may be called by several threads, and reads no clock, environment or randomness
    but what came in when it was made."""

    name: str  # in lower case
    verbs: Mapping[str, Verb]  # those that are offered, by their names in lower case
    switches: Mapping[str, bool]  # for each `Verb.switch`, whether the options switch it on

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        """Do what a verb says and return plain data.

        arguments  by name, each of the type that its parameter has, with defaults in their places
        granted    the adapter's members of all grants, narrowed to one; what is absent is not narrowed

        It raises the errors of rote.errors, and changes nothing where it raises.
        """
        ...

    def close(self) -> None:
        """Let go of files and processes; a second time does nothing."""
        ...
