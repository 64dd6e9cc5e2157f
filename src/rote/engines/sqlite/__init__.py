"""The embedded engine on SQLite."""

from rote.engines.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
