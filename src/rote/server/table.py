"""The one table of commands and routes: rights, documents, metrics and answers come from it."""

from msgspec import structs

from rote.contract.table import Row
from rote.errors import InternalError
from rote.kernel.kernel import TABLE as KERNEL
from rote.server import differences
from rote.server.access_rows import ACCESS_ROUTES, ACCESS_ROWS
from rote.server.foundations import FOUNDATION_IN
from rote.server.own_rows import OWN_ROWS
from rote.server.people import PEOPLE_ROUTES
from rote.server.routes import Route
from rote.server.rows import Bound, ServerRow, Way, kernel_row

# Commands whose bodies hold values, operations or pages of them.
_COMMIT_SIZED = (
    "commit", "rehearse", "merge", "put_side", "copy_in", "sides_in", "find", "put_vectors",
)  # fmt: skip
# Bytes of blobs never travel in JSON: they have routes of their own. A watch is a stream.
_BY_ROUTES = ("blob_put", "blob_get", "adopt_blob", "watch", "foundation_in")
# An upload is the server's own between its pieces, and states are read by the pages of `read`.
_INSIDE = ("blob_piece", "blob_drop", "await", "drop_sides", "states")


def _bound(name: str) -> Bound:
    if name in ("blob_put", "adopt_blob", "foundation_in"):
        return "blob_bytes"
    return "commit_bytes" if name in _COMMIT_SIZED else "body_bytes"


def _way(name: str) -> Way:
    return "routes" if name in _BY_ROUTES else "inside" if name in _INSIDE else "command"


def _row(name: str, row: Row) -> ServerRow:
    made = kernel_row(row, bound=_bound(name), way=_way(name))
    if name == "diff":
        made = structs.replace(made, answer=differences.whole, lines=differences.changes)
    return made


ROWS: tuple[ServerRow, ...] = (
    *(_row(name, row) for name, row in KERNEL.names.items()),
    *OWN_ROWS,
    *ACCESS_ROWS,
)
ROUTES: tuple[Route, ...] = (*PEOPLE_ROUTES, *ACCESS_ROUTES, FOUNDATION_IN)
TABLE = {row.name: row for row in ROWS}


def check_table() -> None:
    """Raise InternalError when a command has no row, or two."""
    if len(TABLE) != len(ROWS):
        raise InternalError("two commands of the server have one name")
    for name in KERNEL.names:
        if name not in TABLE:
            raise InternalError(f"the command {name} has no row in the table of the server")
