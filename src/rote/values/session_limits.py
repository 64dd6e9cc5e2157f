"""Limits of sessions. They bound queues and rows; no hash and no answer depends on them."""

from rote.values.limits import BESIDES_MAX, KIB, MIB
from rote.values.sync_limits import SYNC_TRANSACTS_MAX

# Commits of a session whose verdicts are kept: a read may name as many of them as versions.
SESSION_WINDOW_MAX = BESIDES_MAX
# The rows of a session go so long after it was last touched.
SESSION_SECONDS = 90 * 86_400
# Tokens that open a session: the last that was used, and those given since.
SESSION_TOKENS_MAX = 8
SESSION_TOKEN_BYTES = 32
SESSION_ID_BYTES = 16
SESSION_SECRET_BYTES = 16
SESSIONS_PER_PRINCIPAL_MAX = 1_000
# The error of a rejected commit as it is stored, and a message that is cut.
VERDICT_ERROR_BYTES_MAX = 64 * KIB
VERDICT_TEXT_MAX = 4_096
# What a client holds that is not decided yet.
SESSION_PENDING_MAX = 1_000
SESSION_PENDING_BYTES_MAX = 256 * MIB
SESSION_TRANSACTIONS_MAX = 64
SESSION_EVENTS_MAX = 10_000
# Entities that steps have written while a transaction was open.
SESSION_MOVES_MAX = 10_000
# States that were read of the confirmed version, in bytes.
SESSION_KEPT_BYTES_MAX = 64 * MIB
# Times that a decision is tried again after another writer of its rows.
SESSION_ATTEMPTS_MAX = 8
# Requests of a link that are not answered: commits, and all others.
LINK_COMMITS_MAX = SYNC_TRANSACTS_MAX
LINK_REQUESTS_MAX = 64
# How often a session that has nothing to say looks whether it was taken over.
SESSION_LOOK_SECONDS = 2
# Verdicts that a client gathers before it acknowledges them: each time a row is written.
SESSION_ACK_VERDICTS = 64
# Between two attempts to connect, and before what was refused is sent again: doubling, with jitter.
LINE_PAUSE_SECONDS_MIN, LINE_PAUSE_SECONDS_MAX = 0.1, 5
