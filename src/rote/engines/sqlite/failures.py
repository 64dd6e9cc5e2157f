"""Driver errors become Rote's errors here, once, at the engine's edge."""

import apsw

from rote.errors import (
    Busy,
    Corrupt,
    Denied,
    InternalError,
    RoteError,
    Unavailable,
    disk_full,
)

# After these errors the state of the connection is in doubt, so it is not used again.
FATAL = (apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.NotADBError, apsw.NoMemError)


BAD_PAGE = "a page does not fit its checksum"

# Errors that the driver raises; the second is for text that is no longer UTF-8.
DRIVER_ERRORS = (apsw.Error, UnicodeDecodeError)

# The first three are SQLite's words for damage. Statements never change, so the others mean that
# the tables or the types of their cells are not as Rote made them.
_DAMAGE = (
    apsw.CorruptError,
    apsw.NotADBError,
    UnicodeDecodeError,
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
)


def translate(error: Exception, *, filename: str) -> RoteError:
    """Return the error that a caller sees for a driver's error."""
    words = f"{filename}: {error}"
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Busy(f"{filename} is held by other writers; try again", reason=str(error))
    if isinstance(error, apsw.FullError) or _lacks_room(error):
        return disk_full(filename, filename)
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
        words = f"{filename}: {BAD_PAGE}"
        return Corrupt(f"{words}; run `rote verify`, restore a backup", reason=BAD_PAGE)
    if isinstance(error, _DAMAGE):
        return Corrupt(f"{words}; run `rote verify`, restore a backup", reason=str(error))
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError | apsw.AuthError):
        return Denied(f"{words}; make the file and its folder writable", reason=str(error))
    if isinstance(error, apsw.CantOpenError):
        return Unavailable(f"{words}; check that the folder exists and may be written")
    if isinstance(error, apsw.IOError | apsw.NoMemError | apsw.ThreadingViolationError):
        return Unavailable(f"{words}; check the disk, then open the store again")
    if isinstance(error, apsw.ConnectionClosedError | apsw.CursorClosedError):
        return Unavailable("the store is closed; open it again")
    return InternalError(f"unexpected answer from SQLite: {words}")


def _lacks_room(error: Exception) -> bool:
    """Whether the memory that processes share could not grow: it lies in a file beside the store."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
