"""The mark that changes with every commit of any process, read without a lock.

In WAL mode every commit, of any process, ends with a new header in the log's index, which SQLite
keeps in memory that all processes share. SQLite itself looks there, without a lock, to see whether
a connection is behind (walformat, section 2.1; walTryBeginRead in its source). Rote reads the same
memory. It asks for its address through the function of SQLite's file system that SQLite itself
calls. It does not open the file a second time, because closing that would drop SQLite's locks.

    file  ->  methods  ->  xShmMap(region 0)  ->  | header, 48 bytes | its copy, 48 bytes | ...

The copy is written first and the header last, before the commit is answered. The header holds the
log's salts, its last frame with its checksum and a counter, so two states never have the same one.
"""

import ctypes

import apsw

_HEADER_BYTES = 48
_REGION_BYTES = 32_768  # the unit in which SQLite maps the index

# sqlite3_io_methods from its version 2 on: one number and twelve functions come before xShmMap.
_VERSION_WITH_SHARED_MEMORY = 2
_ShmMap = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_void_p),
)


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("before", ctypes.c_void_p * 12),
        ("map_shared_memory", _ShmMap),
    )


class _File(ctypes.Structure):
    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


# Its `raw` is the present content of the header. Valid only while the connection is open.
LogMark = ctypes.Array[ctypes.c_char]


def log_mark(connection: apsw.Connection) -> LogMark | None:
    """Return the header of the log's index; None where there is none, as for a database in memory.

    The connection must have read from the file already.
    """
    address = ctypes.c_void_p()
    connection.file_control("main", apsw.SQLITE_FCNTL_FILE_POINTER, ctypes.addressof(address))
    if address.value is None:
        return None
    file = _File.from_address(address.value)
    if not file.methods:
        return None  # no file is open
    methods = file.methods[0]
    if methods.version < _VERSION_WITH_SHARED_MEMORY or not methods.map_shared_memory:
        return None
    region = ctypes.c_void_p()
    result = methods.map_shared_memory(address, 0, _REGION_BYTES, 0, ctypes.byref(region))
    if result != apsw.SQLITE_OK or region.value is None:
        return None
    return (ctypes.c_char * _HEADER_BYTES).from_address(region.value)
