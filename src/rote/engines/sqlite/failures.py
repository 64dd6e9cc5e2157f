"""Driver errors become Rote's errors here, once, at the engine's edge."""

import apsw

from rote.errors import Busy, Corrupt, Denied, InternalError, RoteError, Unavailable

# After these errors the state of the connection is in doubt, so it is not used again.
FATAL = (apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.NotADBError, apsw.NoMemError)


# Errors that the driver raises; the second is for text that is no longer UTF-8.
DRIVER_ERRORS = (apsw.Error, UnicodeDecodeError)


def translate(error: Exception, *, filename: str) -> RoteError:
    """Return the error that a caller sees for a driver's error."""
    words = f"{filename}: {error}"
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Busy(f"{filename} is held by other writers; try again", reason=str(error))
    if isinstance(error, apsw.FullError):
        return Unavailable(f"{words}; free some disk space and try again", reason="disk_full")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | UnicodeDecodeError):
        return Corrupt(f"{words}; restore a backup", reason=str(error))
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError | apsw.AuthError):
        return Denied(f"{words}; make the file and its folder writable", reason=str(error))
    if isinstance(error, apsw.CantOpenError):
        return Unavailable(f"{words}; check that the folder exists and may be written")
    if isinstance(error, apsw.IOError | apsw.NoMemError | apsw.ThreadingViolationError):
        return Unavailable(f"{words}; check the disk, then open the store again")
    if isinstance(error, apsw.ConnectionClosedError | apsw.CursorClosedError):
        return Unavailable("the store is closed; open it again")
    return InternalError(f"unexpected answer from SQLite: {words}")
