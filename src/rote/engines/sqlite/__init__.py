"""The engine on SQLite, and the one that only looks."""

from rote.engines.sqlite.engine import SqliteEngine
from rote.engines.sqlite.looking import SqliteLook

__all__ = ["SqliteEngine", "SqliteLook"]
