"""Rewriting tables, so that nothing of old rows is left in their files."""

from rote.engines.postgres.connections import Session
from rote.values.limits import BUSY_SECONDS_MAX

# Whose rows hold content that may have been rewritten or dropped.
_TABLES = ("facts", "commits", "sides", "derived")
_PAYLOAD_TABLES = ("chunks",)

# Others keep these, and nothing here can tell where.
OUT_OF_REACH = ("the server's write-ahead log, its archives, replicas and backups",)


def scrub(session: Session, schema: str, *, payloads: bool) -> list[str]:
    """Rewrite the tables; which of them could not be. Nobody reads or writes a table meanwhile."""
    session.run(f"set lock_timeout = '{BUSY_SECONDS_MAX}s'")
    left = []
    for table in (*_TABLES, *(_PAYLOAD_TABLES if payloads else ())):
        # PostgreSQL passes over what is not one's own with a warning.
        owns = session.rows(
            "select pg_has_role(relowner, 'usage') from pg_class where oid = $1::regclass",
            (f"{schema}.{table}",),
        )
        if owns == [(True,)]:
            session.run(f"vacuum (full) {schema}.{table}")
        else:
            left.append(f"old rows of {schema}.{table}, until its owner runs VACUUM FULL on it")
    return left
