"""The engine on PostgreSQL, for many writers on many machines; needs the extra `postgres`."""

from rote.engines.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
