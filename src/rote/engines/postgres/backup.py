"""Copies every space, each as of one moment, into a SQLite store."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rote.engines.postgres.connections import Session
from rote.engines.rows import STORE
from rote.engines.sqlite.backup import StoreFile

# The columns of the SQLite tables, in their order, as PostgreSQL has them.
_COLUMNS = {
    "branches": "space, branch, name, parent, fork_version, created_version, deleted_version, seal",
    "commits": "space, version, branch, hash, at, author, key, meta, event, attempt",
    "facts": "null, space, branch, version, position, id, op, hash, parent, salt, body, value",
    "entities": "space, branch, id, version, position",
    "tombstones": "space, branch, id, version, position",
    "sides": "space, kind, key, fence, body, seal",
    "derived": "space, name, term, id, branch, start, until",
    "derived_state": "space, name, indexed",
    "blobs": "space, upload, hash, size, at, seal",
    "chunks": "null, space, upload, until, data",
    "segments": "null, space, name, segment, size, until, body",
    "postings": "null, space, name, segment, term, terms, ends, body",
    "vectors": "null, space, name, hash, body, seal",
}
# The columns of a row whose texts PostgreSQL keeps as bytes, since they may hold NUL.
_BYTES = {"sides": (1, 2), "derived": (2,), "postings": (4,)}
# The order of the rows of a table, so that equal stores give equal files.
_ORDER = {
    "facts": "version, position",
    "commits": "version",
    "sides": "kind, key",
    "derived": "name, term, id, branch, start",
    "derived_state": "name",
    "blobs": "upload",
    "chunks": "upload, until",
    "segments": "name, segment",
    "postings": "name, segment, term",
    "vectors": "name, hash",
}


def copy_store(session: Session, schema: str, part: Path) -> None:
    """Copy the store in one transaction, which sees one state however long the copying takes."""
    session.run("begin isolation level repeatable read read only")
    with StoreFile(part) as file:
        spaces = session.rows(
            f"select number, did, name, seal from {schema}.spaces order by number"
        )
        file.insert("spaces", spaces)
        # A store of an older format, which is only looked at, lacks some.
        tables = {
            table: columns
            for table, columns in _COLUMNS.items()
            if session.rows("select to_regclass($1)", (f"{schema}.{table}",)) != [(None,)]
        }
        for number in (STORE, *(number for number, *_ in spaces)):
            for table, columns in tables.items():
                order = _ORDER.get(table, "branch, name" if table == "branches" else "branch, id")
                rows = session.stream(
                    f"select {columns} from {schema}.{table} where space = $1 order by {order}",
                    (number,),
                )
                file.insert(table, _decoded(rows, _BYTES.get(table, ())))
    session.run("commit")


def _decoded(
    rows: Iterable[tuple[Any, ...]], columns: tuple[int, ...]
) -> Iterable[tuple[Any, ...]]:
    if not columns:
        return rows
    return (
        tuple(cell.decode() if place in columns else cell for place, cell in enumerate(row))
        for row in rows
    )
