"""Engines: they keep the bytes of a store. Only the kernel calls them."""

from rote.engines.abandoning import Abandoning
from rote.engines.protocol import (
    ASKED_FOR,
    Contended,
    Engine,
    OutcomeUnknown,
    Reader,
    Scrubbed,
    Writer,
    check_writable,
)

__all__ = [
    "ASKED_FOR",
    "Abandoning",
    "Contended",
    "Engine",
    "OutcomeUnknown",
    "Reader",
    "Scrubbed",
    "Writer",
    "check_writable",
]
