"""Admission: what the reads of a session's commit say about its own earlier commits.

A read may have `layers`, the locals of own commits that it has seen. They were decided before, so each
is accepted, and its commit does not count as a write since; or rejected, and so is what has seen it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rote.errors import DependencyRejected, InvalidInput
from rote.sessions.rows import VerdictBody
from rote.values.session_limits import SESSION_WINDOW_MAX


def admitted_reads(
    reads: Any, window: Mapping[int, VerdictBody], *, local: int, basis: int
) -> list[Any]:
    """Return the reads with versions in `besides` in place of layers; raise for a layer that is
    rejected or not known."""
    if type(reads) not in (list, tuple):
        raise InvalidInput("reads must be a list")
    layers = [_layers(index, read, local) for index, read in enumerate(reads)]
    named = sorted({layer for each in layers for layer in each})
    for layer in named:
        if layer in window and not window[layer].is_accepted:
            raise DependencyRejected(layer)
    for layer in named:
        if layer not in window:
            raise InvalidInput(f"commit {layer} of this session is not among those still kept")
    return [
        _admitted(read, [window[layer].version for layer in each], basis)
        for read, each in zip(reads, layers, strict=True)
    ]


def _layers(index: int, read: Any, local: int) -> Sequence[int]:
    named: Any = read.get("layers", ()) if type(read) is dict else ()
    if (
        type(named) not in (list, tuple)
        or len(named) > SESSION_WINDOW_MAX
        or not all(type(layer) is int and 0 < layer < local for layer in named)
        or any(first >= second for first, second in pairwise(named))
    ):
        raise InvalidInput(
            f"read {index}: layers are own commits before this one, each once, in their order"
        )
    layers: Sequence[int] = named
    return layers


def _admitted(read: Any, versions: list[int], basis: int) -> Any:
    if type(read) is not dict:
        return read  # the store refuses it
    admitted = {name: part for name, part in read.items() if name != "layers"}
    admitted.setdefault("version", basis)
    besides = admitted.get("besides", [])
    if versions and type(besides) in (list, tuple):
        admitted["besides"] = [*besides, *versions]
    return admitted
