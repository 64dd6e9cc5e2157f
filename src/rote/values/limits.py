"""Every bound in Rote, with its reason. Nothing grows, waits or nests without one of these."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# -- values ---------------------------------------------------------------------------------------
# Deeper data is a bug or an attack; 64 keeps every walk far from the interpreter's stack.
DEPTH_MAX = 64
# What every engine, JSON library and language can hold exactly.
INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1
# One entity is read and decoded whole; larger data are blobs.
VALUE_BYTES_MAX = 16 * MIB

# -- names ----------------------------------------------------------------------------------------
# Ids are index keys in every engine.
ENTITY_ID_BYTES_MAX = 1024
SPACE_NAME_CHARACTERS_MAX = 100
BRANCH_NAME_CHARACTERS_MAX = 200
# Idempotency keys are index keys too.
KEY_BYTES_MAX = 200
KEY_PREFIX_RESERVED = "rote:"
AUTHOR_BYTES_MAX = 1024
# Why something was erased: a sentence, or the number of a case.
REASON_BYTES_MAX = 1024

# -- commits --------------------------------------------------------------------------------------
OPERATIONS_MAX = 100_000
COMMIT_BYTES_MAX = 64 * MIB
READS_MAX = 100_000

# -- commands as bytes ----------------------------------------------------------------------------
# A command or an answer as JSON: a commit, or a page that ends with the value that passes its bytes.
MESSAGE_BYTES_MAX = 2 * COMMIT_BYTES_MAX
# Levels that stand around the deepest value in it.
MESSAGE_LEVELS = 16

# -- blobs ----------------------------------------------------------------------------------------
# One blob; larger data belong into several.
BLOB_BYTES_MAX = 16 * GIB
# All blobs of a space, unfinished uploads included: nobody fills a disk unnoticed.
SPACE_BLOB_BYTES_MAX = 1024 * GIB
# Of what is left of that, the part a process takes before it adds up all blobs again.
BLOB_ROOM_PARTS = 64
# A row of a payload: every engine can hold it, move it and back it up like any other.
BLOB_CHUNK_BYTES = 256 * KIB
# What one transaction writes of a payload, so that other writers get their turn.
BLOB_PIECE_BYTES = 4 * MIB
# Uploads of a space whose hashes a process keeps while they come; others are read again.
UPLOADS_HASHED_MAX = 256
# What one transaction drops of a payload.
BLOB_DROP_BYTES = 64 * MIB
CONTENT_TYPE_CHARACTERS_MAX = 255
LABELS_MAX = 64
LABEL_BYTES_MAX = 200
# How long a payload that nothing refers to is kept, unless gc is told otherwise.
GC_GRACE_SECONDS = 3_600
# An upload that nobody has added to for so long was given up.
UPLOAD_IDLE_SECONDS_MAX = 3_600
# Payloads that gc looks for references to at once, and that it lets go in one transaction.
GC_CANDIDATES_MAX = 10_000
GC_BATCH = 64

# -- erasing --------------------------------------------------------------------------------------
# Facts that are rewritten at once; each may hold a whole value.
ERASE_CHUNK_FACTS = 16

# -- reading --------------------------------------------------------------------------------------
# One page of anything: large enough to amortise a call, small enough to hold.
PAGE_MAX = 1_000
# The same in bytes: a page ends with the value that passes it.
PAGE_BYTES_MAX = 4 * MIB
# Values kept per space, so that a warm read costs no engine work.
CACHE_BYTES_MAX = 64 * MIB
# What a decoded document takes in memory, as a multiple of its text.
DECODED_TIMES = 12
# Lines of branches that are kept, so that reads of one view find theirs; each is as long as the
# branch has ancestors.
LINES_KEPT_MAX = 256
# Changed entities that are dropped one by one when others commit; past it the cache starts anew.
CACHE_CATCH_UP_MAX = 1_000

# -- schemas --------------------------------------------------------------------------------------
# One schema is read, checked and compiled in the transaction of a commit.
SCHEMA_BYTES_MAX = 64 * KIB
# Id prefixes in the registry of one branch.
SCHEMA_PREFIXES_MAX = 1_000
# Schemas applied to one value, one behind the other: each is a call on the stack, at every level.
SCHEMA_STEPS_MAX = 32
# Members and elements that the schemas of one document tell apart, added up over all of them.
SCHEMA_KEYS_MAX = 20_000
# Times that one document may apply its schemas to one place of a value.
SCHEMA_EVALUATIONS_MAX = 1_000_000
# The same times the bytes of the value: some seconds at the worst.
JUDGING_WORK_MAX = 2**30
# The same where the place of a violation is looked for below anyOf and oneOf, which costs its square.
TELLING_WORK_MAX = 2**17
# A compiled pattern.
PATTERN_BYTES_MAX = 1 * MIB
# Compiled schemas, and registries, that a process keeps.
VALIDATORS_KEPT_MAX = 256
# What the library says about a violation, in an error.
VIOLATION_CHARACTERS_MAX = 200

# -- queries --------------------------------------------------------------------------------------
# Entities that a query selects for one page, and how many it does unless told otherwise.
QUERY_LIMIT_MAX = 10_000
QUERY_LIMIT_DEFAULT = 1_000
# Links followed on one way.
QUERY_DEPTH_MAX = 1_000_000
QUERY_DEPTH_DEFAULT = 10
# Distinct entities that one walk visits.
QUERY_ENTITIES_MAX = 1_000_000
QUERY_ENTITIES_DEFAULT = 1_000
# Members of `select`; each costs every wildcard match one comparison.
SELECTORS_MAX = 10_000
# Steps of a path, also of one that links have made longer.
QUERY_PATH_MAX = 1_000
# Places (entity, path, schema) that one walk expands: so many for each entity that it may visit, and
# some more. Only data that is made for it has an entity visited so often.
PLACES_PER_ENTITY_MAX = 16
PLACES_MORE_MAX = 100_000
# Schemas in one schema document; those of whole industries have fewer.
SCHEMA_NODES_MAX = 10_000
# Schemas that are narrowed with each other: links on one way that each bring one of their own.
NARROWED_MAX = 64
# Ways in which the options of one schema may combine for one value.
ALTERNATIVES_MAX = 256
# Looks at schemas while one place is expanded, those that every container has free left aside. So
# large values under large schemas do not cost their product.
EXPANSION_STEPS_MAX = 2_000_000
EXPANSION_STEPS_FREE = 16
# Links that are looked through, one behind the other, to judge a value.
LOOK_THROUGH_MAX = 64
# Values that `values` puts in the places of links, counted with everything in them.
FILLED_NODES_MAX = 4_000_000

# -- watches --------------------------------------------------------------------------------------
# How often the watchers of a process look for what others have committed, together.
WATCH_LOOK_SECONDS = 0.02
# A watcher is woken at most so often; commits in between are one frame.
WATCH_PAUSE_SECONDS = 0.05
# Watchers of a process and a space work in turns. A turn that takes longer, the rest after it
# included, is over for the others: so long each of them can delay those behind it at most.
WATCH_TURN_SECONDS_MAX = 0.25
# Turns at once where a look at the store is a round trip: such a watcher mostly waits.
WATCH_TURNS_REMOTE = 8
# Steps between versions whose changes are kept, so that watchers who go them together read them once.
WATCH_CHANGES_KEPT = 16
# Distinct schemas of links that a watch remembers before it starts anew.
WATCH_SCHEMAS_MAX = 10_000

# -- snapshots ------------------------------------------------------------------------------------
# Up to here a patch fact carries its whole result: reading it back is cheaper than replaying.
INLINE_SNAPSHOT_BYTES_MAX = 1 * KIB
# Patches replayed at the most to read any version of a large document.
REPLAY_MAX = 1_024
# Where gc has taken inline snapshots away, one of so many is left.
INLINE_SNAPSHOT_EVERY = 32

# -- waiting --------------------------------------------------------------------------------------
# How long a writer waits for others before it gives up as Busy.
BUSY_SECONDS_MAX = 30
# How long a thread sleeps in line before it looks whether anyone still leads.
WAKE_SECONDS_MAX = 1.0
# How long an update waits for its turn before it tries without.
TURN_SECONDS_MAX = 1.0
# Commits that one transaction takes along while others wait for the disk.
GROUP_MAX = 256
# Plans made anew after others moved the space first.
CONTENTION_ATTEMPTS_MAX = 32
# Of these, the ones that are made without holding a lock.
OPTIMISTIC_ATTEMPTS_MAX = 2
# How long one of them waits for the others to be through, at the most.
CONTENTION_PAUSE_SECONDS_MAX = 0.02

# -- SQLite ---------------------------------------------------------------------------------------
SQLITE_CACHE_KIB = 64 * KIB
SQLITE_READER_CACHE_KIB = 16 * KIB  # there is a reader for each thread
SQLITE_WAL_BYTES_KEPT = 64 * MIB
# Payload that may pass through a connection before its memory is given back.
SQLITE_CHUNK_BYTES_KEPT = 8 * MIB
# Pages in the log that wake the checkpointer, and that make a writer checkpoint by itself. With fewer
# a lone writer syncs faster, because the log has its size sooner, and one beside readers slower.
SQLITE_WAL_PAGES_SOFT = 1_000
SQLITE_WAL_PAGES_HARD = 16_000

# -- PostgreSQL -----------------------------------------------------------------------------------
# Per process; a server has 100 for everyone unless told otherwise.
POSTGRES_CONNECTIONS_MAX = 16
POSTGRES_CONNECT_SECONDS_MAX = 10
# One statement of a transaction that holds a space; the largest commit takes seconds.
POSTGRES_STATEMENT_SECONDS_MAX = 120
# How long any answer is waited for; counting a hundred million rows takes less.
POSTGRES_ANSWER_SECONDS_MAX = 300
# Writing a table anew, which takes as long as it is large.
POSTGRES_REWRITE_SECONDS_MAX = 24 * 3_600
# How long a transaction that holds a space may do nothing before the server ends it, so that others
# get their turn.
POSTGRES_IDLE_SECONDS_MAX = 30
# How long an unknown outcome is looked into; more than the above, or a lost connection's
# transaction could outlive the question.
POSTGRES_SETTLE_SECONDS_MAX = 40

# -- indexes --------------------------------------------------------------------------------------
# Commits that an index takes in at once when it catches up, so that writers get their turn.
INDEX_BATCH_COMMITS = 256
# Changes that an index is not told of one by one but together: rows that are written with others
# cost a fraction, and whoever asks looks at the changed entities themselves.
INDEX_PENDING_MAX = 16
INDEX_PENDING_BYTES_MAX = 64 * KIB  # of their values
# Commits that leave an index alone which was behind before the first of them: to look each time
# costs a commit more than it is worth, since whoever asks the index brings it up.
INDEX_BEHIND_COMMITS = 32

# -- records --------------------------------------------------------------------------------------
# The parts of a record's key as they are written in its entity id; together they fit into one.
NAMESPACE_BYTES_MAX = 64
RECORD_KIND_BYTES_MAX = 200
RECORD_ID_BYTES_MAX = 512
NAMESPACES_MAX = 1_000
# From the first to the last second of the calendar: no sum of a time and a ttl means more.
TTL_SECONDS_MAX = 9_999 * 366 * 86_400
# One page of a list; without a limit a list is everything.
LIST_LIMIT_MAX = 10_000
# Tags in one filter; each is a look into the index.
FILTER_TAGS_MAX = 100
# Records whose values are held at once while a list goes through them.
RECORDS_READ_AT_ONCE = 256
# The same when it begins: many a list ends early, and values may be large.
RECORDS_READ_FIRST = 32
# How often a verb is tried when others write the same record in between. Processes do not take
# turns: among 64 of them one in seven million writes would lose so often in a row.
RECORD_ATTEMPTS_MAX = 1_000
# Texts of times whose instants are remembered: a commit of many records looks at each more than once.
TIMES_REMEMBERED = 32_768
# Tags and sources whose terms are remembered: many records have the same.
TERMS_REMEMBERED = 4_096
# Expired records deleted by one commit, so that other writers get their turn.
PRUNE_BATCH = 1_000
# Patches of a record that are applied again to see whether a file was edited; what was written as a
# whole is compared however long ago that was.
RECORD_PAST_MAX = 256
# What one message names before it says that there is more.
NAMED_IN_ERROR_MAX = 20
# Records that a retention report names; it counts all of them.
REPORT_RECORDS_MAX = 1_000

# -- Markdown -------------------------------------------------------------------------------------
# One file: a record of the largest size fits, whatever of it has to be escaped.
MARKDOWN_FILE_BYTES_MAX = 6 * VALUE_BYTES_MAX
# The lines of a file; a record has not half as many.
MARKDOWN_LINES_MAX = VALUE_BYTES_MAX
# Bullets and paragraphs of a file that was written by others: what one commit holds as records.
MARKDOWN_BLOCKS_MAX = OPERATIONS_MAX
# All files of a folder that become one commit.
MARKDOWN_FOLDER_BYTES_MAX = 4 * COMMIT_BYTES_MAX
# Names that are looked at in a folder and below it, and how far below.
MARKDOWN_NAMES_MAX = 100_000
MARKDOWN_DEPTH_MAX = 8
# One line of a file that was written by others; longer ones are no notes.
MARKDOWN_LINE_BYTES_MAX = 1 * MIB
# The name of a file, on every file system.
FILE_NAME_BYTES_MAX = 255
# What is left out of an import and named in its report.
MARKDOWN_WARNINGS_MAX = 1_000

# -- retrieval ------------------------------------------------------------------------------------
# A question is a few sentences, at most a page; every term of it is looked for in every memory.
RETRIEVAL_QUERY_CHARACTERS_MAX = 64 * KIB
RETRIEVAL_TERMS_MAX = 10_000
RETRIEVAL_STORES_MAX = 1_000
TRUST_SNAPSHOT_BYTES_MAX = 64 * MIB
# Receipts of one instant of the clock.
RECEIPTS_AT_ONCE_MAX = 10_000
# A longer line is no record, and is not held.
JSONL_LINE_BYTES_MAX = VALUE_BYTES_MAX
JSONL_READ_BYTES = MIB
# Decoded at once: what becomes of so much stays in the caches of a processor.
JSONL_DECODED_BYTES = 128 * KIB
# Corpora kept in a process, and what one takes in memory: a multiple of its file, and for each row.
RETRIEVAL_CACHE_BYTES_MAX = 512 * MIB
CORPUS_TIMES = 3
CORPUS_ROW_BYTES = 768
# Corpora kept in a cache directory; a request that names every store it may still finds room.
SIDECARS_BYTES_MAX = 2 * GIB
SIDECARS_MAX = RETRIEVAL_STORES_MAX
SIDECAR_BLOCK_BYTES = MIB
# Terms looked for in all texts of a corpus before it gets a vocabulary, which costs as much as they.
RETRIEVAL_TERMS_PLAIN_MAX = 64
# What one question adds to a vocabulary takes about a quarter of a second, and is worth it from so
# many rows on.
VOCABULARY_PIECE_CHARACTERS = 4 * MIB
VOCABULARY_PIECE_ROWS_MIN = 1_024
# The corpus of a space follows its commits until so many rows of it are new or gone, at least this
# number and at most one of so many; then it is read anew.
RETRIEVAL_DRIFT_MIN = 1_000
RETRIEVAL_DRIFT_SHARE = 4
# Texts of times that are remembered: memories come many to the second, and logs repeat theirs.
INSTANTS_REMEMBERED = 65_536
TAG_LISTS_REMEMBERED = 4_096

# -- traces ---------------------------------------------------------------------------------------
# One artifact of a run, unless told otherwise: what is written past it is cut, and said to be.
TRACE_BYTES_MAX = 10 * MIB
# A trace nests what a value may nest, and its own levels around it.
TRACE_DEPTH_MAX = 2 * DEPTH_MAX
# Names in a trace: of workflows, policies, roles, guardrails, tools, models.
TRACE_NAME_BYTES_MAX = 1 * KIB
# Types of output that a process knows beside ours.
OUTPUT_SHAPES_MAX = 1_000
# Places of an argument, a result or an effect that one profile names.
PROFILE_FIELDS_MAX = 1_000
TOOLS_MAX = 1_000
# What is read of one: also those that were written under a larger limit.
TRACE_READ_BYTES_MAX = 256 * MIB
# Failures that a report lists; it counts all of them. Every event of a large trace may have some.
TRACE_FAILURES_MAX = 250_000
# A value inside a report; of a longer one its beginning is shown.
TRACE_FAILURE_BYTES_MAX = 1 * KIB
# Names that are looked at in a folder of traces and below it, and how far below.
TRACE_NAMES_MAX = 1_000_000
TRACE_FOLDERS_DEPTH_MAX = 8
# How long traces of deterministic runs are kept at the least.
TRACE_DAYS_MIN = 14
# Candidates of an approximate search, and the numbers in one of its vectors.
APPROXIMATE_CANDIDATES_MAX = 100_000
VECTOR_DIMENSIONS_MAX = 65_536

# -- runs -----------------------------------------------------------------------------------------
# A run id names a folder, on every file system.
RUN_ID_CHARACTERS_MAX = 100
# Calls, guardrails and retrievals of one event, each; it is held until it ends.
EVENT_PARTS_MAX = 10_000
# Arguments, result and effects of one call, each; larger data are blobs.
CALL_BYTES_MAX = VALUE_BYTES_MAX
# One line of a recording holds all three.
RECORDING_LINE_BYTES_MAX = 4 * CALL_BYTES_MAX
RECORDING_CALLS_MAX = 1_000_000
# Unfinished artifacts of one process in one folder.
DRAFTS_MAX = 10_000
# What is kept of the message of an error, and what is shown of a call in one.
ERROR_MESSAGE_CHARACTERS_MAX = 10_000
CALL_CHARACTERS_SHOWN = 2_000
# Entities, ranges and answers that one run may depend on: what one commit can check.
RUN_READS_MAX = READS_MAX
# How often answers are looked at again beside others who write, before it is done while they wait.
ANSWER_ROUNDS_MAX = 8
# Conflicts that the ledger keeps of a run; an error has all of them.
RUN_CONFLICTS_KEPT = 100
# A file of settings.
SETTINGS_BYTES_MAX = 1 * MIB
# How long a lease may be; its parts are what a thread sleeps.
LEASE_SECONDS_DEFAULT = 30
LEASE_SECONDS_MAX = 86_400
# So many times a lease is renewed before it would end.
LEASE_RENEWALS = 3
# How often, and how many times, a run whose lease was lost looks how its new owner has ended it.
TAKEOVER_LOOK_SECONDS = 0.05
TAKEOVER_LOOKS_MAX = 200
# How often a run is registered again when its lease was lost meanwhile.
LEASE_ATTEMPTS_MAX = 8

# -- copies ---------------------------------------------------------------------------------------
# Commits or rows asked for at once while a page is filled or looked up: sizes are known only after,
# and what does not fit was read for nothing.
COPY_CHUNK_MAX = 8
# Room for documents that one transaction patches; past it the rest of the page comes later.
COPY_DOCUMENT_BYTES_MAX = 64 * MIB

# -- verify ---------------------------------------------------------------------------------------
VERIFY_PAGE_ROWS = 256
VERIFY_PAGE_BYTES = 4 * MIB
# Past this many a report says nothing more to anyone.
FAULTS_MAX = 1_000
