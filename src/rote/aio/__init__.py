"""The async face of everything below, made from it, with no behaviour of its own."""

from rote.aio.hosts import Host
from rote.aio.opening import of, open
from rote.aio.runs import Event, Run
from rote.aio.sessions import Pending, Session
from rote.aio.stores import BlobFile, Memory, Space, Store, Transaction

__all__ = [
    "BlobFile",
    "Event",
    "Host",
    "Memory",
    "Pending",
    "Run",
    "Session",
    "Space",
    "Store",
    "Transaction",
    "of",
    "open",
]
