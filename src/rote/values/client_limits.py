"""Bounds of the client of a server, each with its reason. No hash and no answer depends on them."""

from rote.values.limits import KIB, MIB

# A whole call, with its repetitions, unless rote.open is told otherwise; and the longest that it takes.
CALL_SECONDS_DEFAULT, CALL_SECONDS_MAX = 30, 86_400
# Making a connection, so that an address that swallows everything is known soon.
CONNECT_SECONDS_MAX = 5
# Long work may be silent for so long; one piece of a blob or one line of progress ends the silence.
SILENCE_SECONDS_MAX = 900
# The pause before a repetition: the first, doubled each time up to the last.
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 5
# Bytes that are taken from a socket at once, and of a head that may be an answer of a server.
RECEIVED_BYTES, HEAD_BYTES_MAX = 256 * KIB, 256 * KIB
# Pinned values and values held to ask whether they are unchanged.
KEPT_BYTES_MAX = 64 * MIB
# What is kept counts so long after the last answer: it may have been erased since.
KEPT_SECONDS_MAX = 60
# A smaller value is sent again sooner than its hash is compared.
HELD_VALUE_BYTES_MIN = 256
# Of one thing that is kept beside its bytes.
KEPT_ENTRY_BYTES = 500
# An upload waits in memory up to this size, and in a file without a name beyond it.
UPLOAD_MEMORY_BYTES_MAX = 4 * MIB
# A grant is asked for anew when such a part of its time is over.
GRANT_RENEWED_AFTER = 2 / 3
GRANT_ATTEMPTS = 3  # to get one
# A signed request counts for so long.
SIGNED_SECONDS = 60
NONCE_BYTES = 16
# How often a line that gets no message looks whether anybody needs it.
LINE_LOOK_SECONDS = 0.08
# How long the end of a line waits for the other side's word.
LINE_CLOSE_SECONDS = 1
# Waiting for a commit asks for the head, with pauses that are doubled each time.
AWAIT_PAUSE_SECONDS_MIN, AWAIT_PAUSE_SECONDS_MAX = 0.02, 0.5
