"""Rewrites tables, so that nothing of old rows is left in their files."""

import time

from rote.engines.postgres.connections import Session
from rote.errors import Busy
from rote.values.limits import (
    BUSY_SECONDS_MAX,
    CONTENTION_PAUSE_SECONDS_MAX,
    POSTGRES_REWRITE_SECONDS_MAX,
)

# Tables whose rows hold content that may have been rewritten or dropped.
_TABLES = ("facts", "commits", "sides", "derived", "segments", "postings", "vectors")
# Those with data of blobs, and those whose rows go only with a whole space.
_PAYLOAD_TABLES = (
    "chunks", "blobs", "entities", "tombstones", "branches", "derived_state", "spaces",
)  # fmt: skip

# Others keep copies there, and Rote cannot know where.
OUT_OF_REACH = ("the server's write-ahead log, its archives, replicas and backups",)


# PostgreSQL keeps old rows for these. Sessions of any database that began a transaction earlier: a
# transaction that begins now can see as far back as theirs. And sessions of this database that can
# see that far back themselves. A plain vacuum looks at no rows and does not count.
_OLDER = """
select 'session ' || pid from pg_stat_activity
where pid <> pg_backend_pid() and (
  age(backend_xid) > age($1::text::xid) or age(backend_xmin) > age($1::text::xid)
  and (datid is null or datname = current_database())
  and pid not in (select pid from pg_stat_progress_vacuum)
)
union all select 'the prepared transaction ' || quote_literal(gid) from pg_prepared_xacts
where age(transaction) > age($1::text::xid)
union all select 'the replication slot ' || slot_name from pg_replication_slots
where age(xmin) > age($1::text::xid)
limit 1
"""


def scrub(session: Session, schema: str, *, payloads: bool) -> list[str]:
    """Rewrite the tables, which nobody can read or write meanwhile; return those that were left out."""
    session.run(f"set lock_timeout = '{BUSY_SECONDS_MAX}s'; set statement_timeout = 0")
    session.patience = POSTGRES_REWRITE_SECONDS_MAX
    _outlast_older(session)
    left = []
    for table in (*_TABLES, *(_PAYLOAD_TABLES if payloads else ())):
        # PostgreSQL skips tables of another owner, only with a warning.
        owns = session.rows(
            "select pg_has_role(relowner, 'usage') from pg_class where oid = $1::regclass",
            (f"{schema}.{table}",),
        )
        if owns == [(True,)]:
            session.run(f"vacuum (full) {schema}.{table}")
        else:
            left.append(f"old rows of {schema}.{table}, until its owner runs `rote gc`")
    return left


def _outlast_older(session: Session) -> None:
    """Wait until no transaction is left that could see the replaced rows: rewriting a table would
    copy those rows too."""
    next_transaction = session.rows(
        "select (pg_snapshot_xmax(pg_current_snapshot())::text::numeric % 4294967296)::text"
    )[0]
    deadline = time.monotonic() + BUSY_SECONDS_MAX
    while older := session.rows(_OLDER, next_transaction):
        if time.monotonic() > deadline:
            raise Busy(
                f"{session.place}: {older[0][0]} still sees old rows; end it, or wait for it",
                holder=str(older[0][0]),
            )
        time.sleep(CONTENTION_PAUSE_SECONDS_MAX)
