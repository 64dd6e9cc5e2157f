"""Limits of state tiers: what a host, its cache, queues, files and tables may hold."""

from rote.values.limits import CALL_BYTES_MAX, KIB, MIB

# -- tiers ----------------------------------------------------------------------------------------
# Arguments together, and the result, of one call of a host; larger data goes into blobs.
HOST_CALL_BYTES_MAX = CALL_BYTES_MAX
# Levels of a call's arguments that stand around the deepest value in them.
HOST_CALL_LEVELS = 8
# The frame of one workflow run, by default.
FRAME_BYTES_MAX = 1 * MIB
# Entries and bytes of a cache, by default, and the bytes of one name in it.
CACHE_ENTRIES_MAX = 10_000
CACHE_VALUES_BYTES_MAX = 16 * MIB
CACHE_NAME_BYTES_MAX = 1 * KIB
# One line of a cache's file: the arguments of a call and what is noted beside them.
CACHE_LINE_BYTES_MAX = HOST_CALL_BYTES_MAX + 4 * KIB
# Bytes of a cache's file that tell of nothing any more, beside as many as still do: then it is written anew.
CACHE_FILE_BYTES_SPARE = 1 * MIB
# Shorter texts are not taken out of messages when they are redacted: they stand in other words, too. Of a
# longer text its beginning is taken out, as messages cut long texts off.
REDACTED_CHARACTERS_MIN = 4
REDACTED_BEGINNING_CHARACTERS = 16
# Takes of a message before it is dead, by default, and the bytes of its payload.
MESSAGE_TRIES_DEFAULT = 5
MESSAGE_BYTES_DEFAULT = 1 * MIB
# Queues of which a host remembers where its messages begin.
QUEUES_REMEMBERED = 10_000
# Commits since a look at a queue that are looked through for merges; after more the next one begins anew.
MERGES_LOOKED_FOR_MAX = 100
# Messages of a queue looked at first: more are needed where the oldest are leased or dead.
MESSAGES_READ_FIRST = 4
# Side rows asked for at first: a queue has few messages that were tried.
SIDES_READ_FIRST = 64
# Names that options, grants and redactions list.
HOST_NAMES_MAX = 10_000

# -- files in a sandbox ---------------------------------------------------------------------------
# A path, and its names; one name may have FILE_NAME_BYTES_MAX.
FS_PATH_BYTES_MAX = 1 * KIB
FS_SEGMENTS_MAX = 32
# One file that is read or written, by default.
FS_FILE_BYTES_MAX = 1_000_000
FS_READ_BYTES = 1 * MIB
# Names read in one folder; the result of a longer list would not fit into a call.
FS_ENTRIES_MAX = 100_000
# How long a writer waits for others in the same folder, and the pause between two looks.
FS_LOCK_SECONDS_MAX = 5
FS_LOCK_LOOK_SECONDS = 0.001

# -- SQLite files in a sandbox --------------------------------------------------------------------
# Bounds of one statement, by default: its text, its result, its time and the memory of its worker.
SQL_BYTES_MAX = 100_000
SQL_ROWS_MAX = 1_000
SQL_RESULT_BYTES_MAX = 1 * MIB
SQL_SECONDS_MAX = 5
SQL_MEMORY_BYTES_MAX = 256 * MIB
# The least memory in which SQLite can open a file.
SQL_MEMORY_BYTES_MIN = 4 * MIB
# How long a worker may take to end a statement that is late before it is killed, to start, and to
# end when its host is closed.
SQL_KILL_SECONDS = 0.5
SQL_START_SECONDS_MAX = 30
SQL_CLOSE_SECONDS_MAX = 1
# A reply is the result, or an error whose words come from the statement.
SQL_REPLY_BYTES_MORE = 64 * KIB
