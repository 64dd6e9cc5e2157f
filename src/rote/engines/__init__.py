"""Engines: they keep the bytes of a store. Only the kernel calls them."""

from rote.engines.abandoning import Abandoning
from rote.engines.protocol import (
    Contended,
    Engine,
    OutcomeUnknown,
    Reader,
    Writer,
    refused_write,
)

__all__ = [
    "Abandoning",
    "Contended",
    "Engine",
    "OutcomeUnknown",
    "Reader",
    "Writer",
    "refused_write",
]
