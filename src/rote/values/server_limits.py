"""Bounds of servers and of access, each with its reason; those that users set are in server/settings.py."""

from rote.values.limits import KIB, MIB

# -- access ---------------------------------------------------------------------------------------
# Grants of an ACL, and revocations in it; delegations of a chain.
ACL_GRANTS_MAX = ACL_REVOKED_MAX = 10_000
DELEGATIONS_MAX = 8
DELEGATION_SECONDS_DEFAULT, DELEGATION_SECONDS_MAX = 86_400, 366 * 86_400
GRANT_SECONDS_DEFAULT, GRANT_SECONDS_MAX = 900, 3_600
# A signed request: from when to when it holds, and how far a client's clock may be ahead.
SIGNED_SECONDS_MAX, SIGNED_AHEAD_SECONDS = 300, 60
TOKENS_MAX = 10_000
# Signed requests between two looks for nonces that have ended.
NONCES_BETWEEN_SWEEPS = 64
# Failed authentications are counted so long, and of so many addresses.
FAILURE_SECONDS, FAILURE_ADDRESSES_MAX = 10, 10_000
# How often a write is tried again because the ACL has changed meanwhile.
ACL_LOOKS_MAX = 16
# How often a read is answered because something was erased meanwhile.
ERASURE_LOOKS_MAX = 4
# ACLs and ports that a server keeps in memory.
ACLS_KEPT = 1_000

# -- what a server tells ---------------------------------------------------------------------
# Lines of the access log that wait for a slow disk; the next ones are counted and dropped.
LOG_LINES_MAX = 10_000
# Bytes of a streamed answer that are made at once.
STREAM_PIECE_BYTES = 64 * KIB
# Seconds after which a watch without a frame says that it lives.
WATCH_BEAT_SECONDS = 15
# Watches that compute a frame at the same time.
SERVER_WATCHES_AT_ONCE = 1
# After a frame of one of many watches, its thread rests so many times as long as that took.
WATCH_RESTS, WATCH_REST_SECONDS_MAX = 2, 0.005

# -- the server: what it holds ---------------------------------------------------------------------
# Principals and credentials that are remembered to count their requests.
SERVER_PRINCIPALS_KEPT = 10_000
# Randomness for ids of requests, drawn at once.
IDS_DRAWN_BYTES = 1 * KIB
# Long work has one thread for so many that answer the rest.
SERVER_LONG_THREADS_SHARE = 4
# Between two lines about the progress of long work.
PROGRESS_SECONDS = 0.5
# How often runs whose owners are gone are ended.
RECOVERY_SECONDS = 10
# How often connections are looked at for those whose time is over.
SERVER_CONNECTION_LOOK_SECONDS = 0.1
# How often the server renews what it says with every answer, such as the date.
SERVER_TICK_SECONDS = 0.1
# How long a stopping server waits for a connection's next request, which it answers, before it closes it.
SERVER_LAST_REQUEST_SECONDS = 0.5
# How long threads that are in the middle of a command may take to end when the server stops.
POOL_END_SECONDS = 1
# A difference of two states that is answered whole; as lines it may be longer.
DIFF_BYTES_MAX = 64 * MIB
# How long `rote doctor` waits for a server.
DOCTOR_SECONDS_MAX = 5
# How often a server asks its store whether it answers, and how long it waits for that.
READY_SECONDS = 1
# What is read of a body that was refused, so that its sender gets the answer.
DISCARD_BYTES = 1 * MIB
DISCARD_SECONDS = 0.2
# Files that a server may need besides its connections: those of the store, for each of its threads.
FILES_BESIDE_CONNECTIONS = 4_096
