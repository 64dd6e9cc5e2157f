"""Bounds of `/v1/sync`. They bound work and memory; no hash and no answer depends on them."""

from rote.values.limits import KIB, MIB

# Watches of a session, and the bytes of their names.
SYNC_WATCHES_MAX = 100
SYNC_WATCH_NAME_BYTES_MAX = 100
# What a client may have under way; after that its socket is not read.
SYNC_CALLS_MAX, SYNC_TRANSACTS_MAX = 64, 256
# Steps that are sent before one is acknowledged.
SYNC_WINDOW = 2
# A part of a step.
SYNC_PART_STATES_MAX, SYNC_PART_BYTES_MAX = 1_000, 4 * MIB
# A step that only says how far the space has come.
SYNC_EMPTY_SECONDS = 5
# From the connection to hello, and from there to the session.
SYNC_HELLO_SECONDS, SYNC_OPEN_SECONDS = 10, 30
# How long a challenge holds.
SYNC_CHALLENGE_SECONDS = 60
# Both sides ask so often whether the other lives, and wait so long for its word.
SYNC_PING_SECONDS, SYNC_PONG_SECONDS = 20, 20
# Sessions of a principal on a space.
SYNC_SESSIONS_MAX = 1_000
# How often the rights of open sessions are looked up without a step.
SYNC_RIGHTS_SECONDS = 0.5
# The first messages come from nobody known.
SYNC_FIRST_BYTES_MAX = 1 * MIB
# Larger messages are parsed by a thread, so that the event loop does not wait.
SYNC_PARSED_AT_ONCE_BYTES = 16 * KIB
# How long a close waits for the other side's word.
SYNC_CLOSE_SECONDS = 2
