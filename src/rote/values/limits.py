"""Bounds, each with its reason: everything that grows, waits, nests or is tried again has one here.

The numbers of one algorithm, of one text form or of one table on a screen stand in its own file.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# -- values ---------------------------------------------------------------------------------------
# Deeper data is a bug or an attack; 64 keeps every walk far from the interpreter's stack.
DEPTH_MAX = 64
# Integers that every engine, JSON library and language can hold exactly.
INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1
# One entity is read and decoded whole; larger data goes into blobs.
VALUE_BYTES_MAX = 16 * MIB

# -- names ----------------------------------------------------------------------------------------
# Ids are index keys in every engine.
ENTITY_ID_BYTES_MAX = 1024
SPACE_NAME_CHARACTERS_MAX = 100
# Spaces of the library itself, such as that of a server.
SPACE_PREFIX_RESERVED = "rote."
BRANCH_NAME_CHARACTERS_MAX = 200
# Idempotency keys are index keys too.
KEY_BYTES_MAX = 200
KEY_PREFIX_RESERVED = "rote:"
# The name of one try to write, which the caller draws.
ATTEMPT_BYTES = 16
# How long the store knows what an attempt did, at least.
ATTEMPT_SECONDS = 7 * 86_400
AUTHOR_BYTES_MAX = 1024
# The reason of an erasure: a sentence, or the number of a case.
REASON_BYTES_MAX = 1024

# -- commits --------------------------------------------------------------------------------------
OPERATIONS_MAX = 100_000
COMMIT_BYTES_MAX = 64 * MIB
READS_MAX = 100_000
# Versions in `besides` of one read of a commit.
BESIDES_MAX = 1_024

# -- commands as bytes ----------------------------------------------------------------------------
# A command or an answer as JSON: a commit, or a page that ends with the value that passes its bytes.
MESSAGE_BYTES_MAX = 2 * COMMIT_BYTES_MAX
# Levels that stand around the deepest value in it.
MESSAGE_LEVELS = 16

# -- blobs ----------------------------------------------------------------------------------------
# One blob; larger data is split into several.
BLOB_BYTES_MAX = 16 * GIB
# All blobs of a space, unfinished uploads included, so that nobody fills a disk unnoticed.
SPACE_BLOB_BYTES_MAX = 1024 * GIB
# A process writes one of so many parts of the room left before it adds up all blobs again.
BLOB_ROOM_PARTS = 64
# One row of a payload: every engine can hold, move and back up a row of this size.
BLOB_CHUNK_BYTES = 256 * KIB
# Bytes of a payload that one transaction writes, so that other writers get their turn. Larger ones are
# no faster, and the allocator keeps several of them for each thread that has had one.
BLOB_PIECE_BYTES = 1 * MIB
# Uploads of a space whose hashes a process keeps while they come; others are read again.
UPLOADS_HASHED_MAX = 256
# Names of uploads come from outside.
TOKEN_BYTES_MAX = 64
# Bytes of a payload that one transaction drops.
BLOB_DROP_BYTES = 64 * MIB
CONTENT_TYPE_CHARACTERS_MAX = 255
LABELS_MAX = 64
LABEL_BYTES_MAX = 200
# How long a payload that nothing refers to is kept, unless gc is told otherwise.
GC_GRACE_SECONDS = 3_600
# An upload that nobody has added to for so long counts as given up.
UPLOAD_IDLE_SECONDS_MAX = 3_600
# Payloads whose references gc looks for at once, and payloads that it drops in one transaction.
GC_CANDIDATES_MAX = 10_000
GC_BATCH = 64

# -- erasing --------------------------------------------------------------------------------------
# Facts that are rewritten at once; each may hold a whole value.
ERASE_CHUNK_FACTS = 16
# Entities of one erasure; its commit names them all.
ERASE_ENTITIES_MAX = 100_000

# -- differences -----------------------------------------------------------------------------------
# Insertions and deletions that are searched for between two arrays: as many as the root of the number
# of their elements, because the work grows with the square; and at least and at most so many.
ALIGNMENT_EDITS_MIN = 32
ALIGNMENT_EDITS_MAX = 256
# Equal elements that the search may pass, for each element of both arrays: lists like [1, 1, 1, …]
# have equal elements on every way.
ALIGNMENT_RUNS = 16

# -- reading --------------------------------------------------------------------------------------
# One page of anything: large enough to amortise a call, small enough to hold.
PAGE_MAX = 1_000
# The same in bytes: a page ends with the value that passes this bound.
PAGE_BYTES_MAX = 4 * MIB
# Facts, commits or values read at first while a page is filled: few, because they may be large.
ROWS_READ_FIRST = 16
# The most of them that are read at once, when all before were small.
ROWS_READ_MAX = 256
# Entities that a merge or a diff reads from its two or three states at once: so few that the second
# state finds the pages of the index that the first one has brought into the cache of the connection.
ENTITIES_COMPARED_AT_ONCE = 64
# Hits of an index asked for at first: few, because most callers stop early.
HITS_READ_FIRST = 128
# Values kept per space, so that a warm read costs no engine work.
CACHE_BYTES_MAX = 64 * MIB
# Memory of a decoded document, as a multiple of the size of its text.
DECODED_TIMES = 12
# Lines of branches that are kept, so that reads of one view find their line. A line has one entry
# for each ancestor of the branch.
LINES_KEPT_MAX = 256
# Changed entities that the cache drops one by one when others commit; past it the cache is emptied.
CACHE_CATCH_UP_MAX = 1_000

# -- schemas --------------------------------------------------------------------------------------
# One schema is read, checked and compiled in the transaction of a commit.
SCHEMA_BYTES_MAX = 64 * KIB
# Id prefixes in the registry of one branch.
SCHEMA_PREFIXES_MAX = 1_000
# Schemas applied to one value, one within the other: each is a call on the stack, at every level.
SCHEMA_STEPS_MAX = 32
# Members and elements that the schemas of one document name, added up over all schemas.
SCHEMA_KEYS_MAX = 20_000
# Times that one document may apply its schemas to one place of a value.
SCHEMA_EVALUATIONS_MAX = 1_000_000
# Evaluations times the bytes of the value: some seconds at the worst.
JUDGING_WORK_MAX = 2**30
# The same bound for finding a violation below anyOf and oneOf, which costs the square of it.
TELLING_WORK_MAX = 2**17
# A compiled pattern.
PATTERN_BYTES_MAX = 1 * MIB
# Compiled schemas, and registries, that a process keeps.
VALIDATORS_KEPT_MAX = 256
# Characters of the library's text about a violation, in an error.
VIOLATION_CHARACTERS_MAX = 200

# -- queries --------------------------------------------------------------------------------------
# Entities that a query selects for one page: at most, and by default.
QUERY_LIMIT_MAX = 10_000
QUERY_LIMIT_DEFAULT = 1_000
# Links followed on one path.
QUERY_DEPTH_MAX = 1_000_000
QUERY_DEPTH_DEFAULT = 10
# Distinct entities that one walk visits.
QUERY_ENTITIES_MAX = 1_000_000
QUERY_ENTITIES_DEFAULT = 1_000
# Members of `select`; every wildcard match is compared with each of them.
SELECTORS_MAX = 10_000
# Steps of a path, also of a path that links have made longer.
QUERY_PATH_MAX = 1_000
# Places (entity, path, schema) that one walk expands: so many for each entity that it may visit, and
# some more. Only data that was made for it makes a walk visit an entity so often.
PLACES_PER_ENTITY_MAX = 16
PLACES_MORE_MAX = 100_000
# Schemas in one schema document; standards of whole industries have fewer.
SCHEMA_NODES_MAX = 10_000
# Schemas that are narrowed with each other: each link on a path may bring one of its own.
NARROWED_MAX = 64
# Ways in which the options of one schema may combine for one value.
ALTERNATIVES_MAX = 256
# Steps through schemas while one place is expanded, so that a large value under a large schema does
# not cost their product. Each container has some free steps, which do not count.
EXPANSION_STEPS_MAX = 2_000_000
EXPANSION_STEPS_FREE = 16
# Links that are followed one after the other to judge a value.
LOOK_THROUGH_MAX = 64
# Values that `values` puts in the places of links, nested values counted too.
FILLED_NODES_MAX = 4_000_000

# -- watches --------------------------------------------------------------------------------------
# Seconds between two looks for new commits; the watchers of a process share each look.
WATCH_LOOK_SECONDS = 0.02
# Seconds between two wakings of a watcher, at least; commits in between are one frame.
WATCH_PAUSE_SECONDS = 0.05
# Watchers of a process and a space work in turns. After so long a turn, the pause after it included,
# the next watcher begins: no watcher delays the next one for longer.
WATCH_TURN_SECONDS_MAX = 0.25
# Turns at once where a look at the store is a round trip: a watcher there mostly waits.
WATCH_TURNS_REMOTE = 8
# How long one command waits for a commit.
AWAIT_SECONDS_MAX = 60
# Steps between versions whose changes are kept, so that watchers that share a step read it once.
WATCH_CHANGES_KEPT = 16
# Distinct schemas of links that a watch remembers before it starts anew.
WATCH_SCHEMAS_MAX = 10_000

# -- snapshots ------------------------------------------------------------------------------------
# Up to this size a patch fact carries its whole result: reading it is cheaper than replaying.
INLINE_SNAPSHOT_BYTES_MAX = 1 * KIB
# Patches that are replayed, at most, to read a version of a large document.
REPLAY_MAX = 1_024
# gc removes inline snapshots and leaves one of so many.
INLINE_SNAPSHOT_EVERY = 32

# -- waiting --------------------------------------------------------------------------------------
# How long a writer waits for others before it gives up as Busy.
BUSY_SECONDS_MAX = 30
# How long a waiting thread sleeps before it checks that another thread still leads.
WAKE_SECONDS_MAX = 1.0
# How long an update waits for its turn before it goes on without one.
TURN_SECONDS_MAX = 1.0
# Commits that one transaction holds at most; they share one wait for the disk.
GROUP_MAX = 256
# Attempts to read a file that was opened read only and that others change meanwhile.
LOOKS_MAX = 32
# Attempts to plan a commit again after others committed first.
CONTENTION_ATTEMPTS_MAX = 32
# Those of these attempts that hold no lock.
OPTIMISTIC_ATTEMPTS_MAX = 2
# How long an attempt waits for other writers to finish, at most.
CONTENTION_PAUSE_SECONDS_MAX = 0.02

# -- SQLite ---------------------------------------------------------------------------------------
SQLITE_CACHE_KIB = 64 * KIB
SQLITE_READER_CACHE_KIB = 1 * KIB  # each thread has a reader
SQLITE_WAL_BYTES_KEPT = 64 * MIB
# Bytes of payload that may pass through a connection before its memory is given back.
SQLITE_CHUNK_BYTES_KEPT = 4 * MIB
# Pages in the log that wake the checkpointer, by durability, and pages that make a writer checkpoint
# by itself. With fewer pages a lone writer syncs faster, because the log reaches its full size
# sooner; a writer beside readers syncs slower. SQLite finds a page in 4,000 as fast as in 1,000.
SQLITE_WAL_PAGES_SOFT = {"fsync": 1_000, "os": 4_000}
SQLITE_WAL_PAGES_HARD = 16_000

# -- PostgreSQL -----------------------------------------------------------------------------------
# Connections of one process; a server has 100 for everyone by default.
POSTGRES_CONNECTIONS_MAX = 16
POSTGRES_CONNECT_SECONDS_MAX = 10
# One statement of a transaction that holds a space; the largest commit takes seconds.
POSTGRES_STATEMENT_SECONDS_MAX = 120
# How long Rote waits for any answer; counting a hundred million rows takes less.
POSTGRES_ANSWER_SECONDS_MAX = 300
# Rewriting a table, which takes longer the larger it is.
POSTGRES_REWRITE_SECONDS_MAX = 24 * 3_600
# How long a transaction that holds a space may do nothing before the server ends it, so that others
# get their turn.
POSTGRES_IDLE_SECONDS_MAX = 30
# How long Rote tries to learn an unknown outcome. It is longer than the bound above, so that the
# transaction of a lost connection has ended by then.
POSTGRES_SETTLE_SECONDS_MAX = 40

# -- indexes --------------------------------------------------------------------------------------
# Commits that an index takes in at once when it catches up, so that writers get their turn.
INDEX_BATCH_COMMITS = 256
# Commits that are read together before their size is looked at.
INDEX_SPAN_COMMITS = 16
# Changes that wait for an index and are then written together, which costs a fraction of writing
# each alone. A read in the meantime looks at the changed entities themselves.
INDEX_PENDING_MAX = 16
INDEX_PENDING_BYTES_MAX = 64 * KIB  # of their values
# The same for a packed index, which takes changes in by the segment.
PACKED_PENDING_MAX = 256
PACKED_PENDING_BYTES_MAX = 1 * MIB
# Values that a commit packs itself, while all other writers wait, and that are packed at once when a
# packed index catches up; and the largest of them, since one can have a row in every few bytes.
# After a larger commit, or one with more rows, the index is behind until it is asked.
PACKED_COMMIT_BYTES_MAX = 4 * MIB
PACKED_COMMIT_ROWS_MAX = 4_096
PACKED_CHANGE_BYTES_MAX = 1 * MIB
# A segment with fewer rows is small. Small ones are merged once they have so many rows together, or
# are so many; a merge takes in no more than the rows, and those of one more segment.
SEGMENT_SMALL_ROWS = 16_384
SEGMENT_MERGE_ROWS = 24_576
SEGMENT_SMALL_MAX = 64
SEGMENT_MERGES_MAX = 1_000  # in a row; the next ones go on
# Bodies of segments in one answer, and those that an erasure holds at once.
SEGMENT_ANSWER_BYTES_MAX = 32 * MIB
SEGMENTS_READ_AT_ONCE = 16
# Segments that a question may name because the caller has them; others are sent once more.
SEGMENTS_KNOWN_MAX = 1_000_000
# Commits that do not check an index after one has found it behind. A check costs a commit more than
# it is worth, since the next read of the index brings it up to date.
INDEX_BEHIND_COMMITS = 32
# Terms with their postings that share a row, unless one alone is longer.
POSTINGS_BLOCK_BYTES = 1_950
# About as many terms are in one such row.
POSTINGS_BLOCK_TERMS = 32

# -- records --------------------------------------------------------------------------------------
# The parts of a record's key as written in its entity id; all of them together fit into an id.
NAMESPACE_BYTES_MAX = 64
RECORD_KIND_BYTES_MAX = 200
RECORD_ID_BYTES_MAX = 512
NAMESPACES_MAX = 1_000
# The whole calendar: a longer ttl ends after the last year for every time.
TTL_SECONDS_MAX = 9_999 * 366 * 86_400
# One page of a list; a list without a limit holds everything.
LIST_LIMIT_MAX = 10_000
# Entries of the history of a record that are asked for at once; each holds the whole record.
HISTORY_LIMIT_MAX = 1_000
# Tags in one filter; each is one read of the index.
FILTER_TAGS_MAX = 100
# How often a list looks for the id that its offset leads to: once more for expired records among those
# that it has skipped, and again for those among the further ones. What is left is read.
SKIP_ROUNDS_MAX = 8
# Records whose values a list holds at once while it reads them.
RECORDS_READ_AT_ONCE = 256
# The same for the first read: many lists end early, and values may be large.
RECORDS_READ_FIRST = 32
# How often a verb is tried when others write the same record in between. Processes do not take
# turns: among 64 of them one in seven million writes loses that often in a row.
RECORD_ATTEMPTS_MAX = 1_000
# Texts of times whose instants are remembered: a commit of many records reads each several times.
TIMES_REMEMBERED = 32_768
# Tags and sources whose terms are remembered: many records have the same.
TERMS_REMEMBERED = 4_096
# Expired records deleted by one commit, so that other writers get their turn.
PRUNE_BATCH = 1_000
# Patches of a record that are applied again to see whether a file was edited. Values that were
# written as a whole are compared without this bound.
RECORD_PAST_MAX = 256
# Names that one message lists before it says that there are more.
NAMED_IN_ERROR_MAX = 20
# Records that a retention report names; it counts all of them.
REPORT_RECORDS_MAX = 1_000

# -- Markdown -------------------------------------------------------------------------------------
# One file: a record of the largest size fits, also when all of it has to be escaped.
MARKDOWN_FILE_BYTES_MAX = 6 * VALUE_BYTES_MAX
# The lines of a file; a record has less than half as many.
MARKDOWN_LINES_MAX = VALUE_BYTES_MAX
# Bullets and paragraphs of a file that others wrote: as many as one commit can hold as records.
MARKDOWN_BLOCKS_MAX = OPERATIONS_MAX
# All files of a folder that become one commit.
MARKDOWN_FOLDER_BYTES_MAX = 4 * COMMIT_BYTES_MAX
# Names read in a folder and below it, and the levels below it that are read.
MARKDOWN_NAMES_MAX = 100_000
MARKDOWN_DEPTH_MAX = 8
# Patterns of names to leave out; each is compared with every name.
MARKDOWN_SKIPS_MAX = 100
# One line of a file that others wrote; longer lines are no notes.
MARKDOWN_LINE_BYTES_MAX = 1 * MIB
# The name of a file, on every file system.
FILE_NAME_BYTES_MAX = 255
# Parts left out of an import that its report names; of more it gives the number.
MARKDOWN_WARNINGS_MAX = 10_000

# -- retrieval ------------------------------------------------------------------------------------
# A question is a few sentences, at most a page; each of its terms is searched in every memory.
RETRIEVAL_QUERY_CHARACTERS_MAX = 64 * KIB
RETRIEVAL_TERMS_MAX = 10_000
RETRIEVAL_STORES_MAX = 1_000
TRUST_SNAPSHOT_BYTES_MAX = 64 * MIB
# Receipts that have the same instant of the clock.
RECEIPTS_AT_ONCE_MAX = 10_000
# A longer line is no record, and is not kept in memory.
JSONL_LINE_BYTES_MAX = VALUE_BYTES_MAX
JSONL_READ_BYTES = 512 * KIB
# Bytes decoded at once: their result fits into the caches of a processor.
JSONL_DECODED_BYTES = 128 * KIB
# Corpora kept in a process; the memory of one is a multiple of its file and some bytes per row.
RETRIEVAL_CACHE_BYTES_MAX = 512 * MIB
CORPUS_TIMES = 3
CORPUS_ROW_BYTES = 768
# Corpora kept in a cache directory: a request that names the most stores has room for all.
SIDECARS_BYTES_MAX = 2 * GIB
SIDECARS_MAX = RETRIEVAL_STORES_MAX
SIDECAR_BLOCK_BYTES = MIB
# Terms searched in all texts of a corpus before it gets a vocabulary, which costs as much.
RETRIEVAL_TERMS_PLAIN_MAX = 64
# One question adds so much text to a vocabulary, in about a tenth of a second, and never more rows
# than two bytes number. It adds nothing while fewer rows than these are new.
VOCABULARY_PIECE_CHARACTERS = 4 * MIB
VOCABULARY_PIECE_ROWS_MIN = 1_024
VOCABULARY_PIECE_ROWS_MAX = 65_536
# Parts of words whose rows are remembered, with a byte for each row.
VOCABULARY_PARTS_MAX = 128
# The corpus of a space follows its commits until too many of its rows are new or gone. Then it is
# read again. Too many are more than this number, and more than one of so many rows.
RETRIEVAL_DRIFT_MIN = 1_000
RETRIEVAL_DRIFT_SHARE = 4
# Texts of times that are remembered: many memories share a second, and logs repeat their times.
INSTANTS_REMEMBERED = 65_536
TAG_LISTS_REMEMBERED = 4_096
KINDS_REMEMBERED = 1_024  # of records, each with its namespace
# Characters of a term, frozen with the analyser; and words and days whose terms are remembered.
TERM_CHARACTERS_MAX = 64
WORDS_REMEMBERED = 65_536  # each language
DAYS_REMEMBERED = 4_096
# How often an excerpt is made until its tokens fit, and how many memories that do not fit into the
# budget are passed over. Frozen with the policies of ranking.
EXCERPT_ATTEMPTS_MAX = 17
MISFITS_MAX = 16
# Candidates of an answer that are put in order at first; then so many times as many, again and again.
CANDIDATES_FIRST = 64
CANDIDATES_GROWTH = 16
# Memories in the answer of one search, and the tokens of each excerpt.
SEARCH_LIMIT_MAX = 1_000
SEARCH_EXCERPT_TOKENS = 256
# Numbers in a vector of an embedder, and bytes of the name of its vectors, which is an index key.
# Frozen with hybrid-1.
VECTOR_DIMENSION_MAX = 4_096
VECTOR_NAME_BYTES_MAX = 512
# Texts that an embedder gets at once; vectors that are asked for or sent at once, and that are
# multiplied at once, which then fit into the caches of a processor.
EMBEDDED_AT_ONCE = 64
VECTORS_AT_ONCE_MAX = 1_000
VECTORS_MULTIPLIED_AT_ONCE = 1_024
# Vectors of which a sweep finds out at once whether a state has their text: one walk over all values.
VECTORS_SWEPT_AT_ONCE = 500_000
# Vectors kept in a process, of the states and files that were asked last.
VECTOR_CACHE_BYTES_MAX = 512 * MIB
# Bytes that a vector takes beside its own.
VECTOR_ENTRY_BYTES = 192
# A longer text is analysed in parts of about so many characters.
ANALYSED_CHARACTERS = 64 * KIB

# Rows of one segment of the index of words, so that two bytes tell a row.
SEGMENT_ROWS_MAX = 65_535
# Segments read by a process are kept; the memory of one is a multiple of its body and some bytes per row.
SEGMENT_TIMES = 8
SEGMENT_ROW_BYTES = 512
# Besides, of each index that is kept, and of each change that no segment has yet.
PLACE_BYTES = 4 * KIB
CHANGE_KEPT_BYTES = 128
# States of an index that are kept beside them, and segments of changes that the index has not yet.
LIVING_KEPT = 4
PENDING_SEGMENTS_MAX = 16
# Memories written lately that are looked up beside all others, until both become one.
LIVING_LATE_MAX = 8_192
# Threads are laid out anew when more than one of so many cells is empty.
LAYOUT_EMPTY_SHARE = 4
# A thread that has moved gets room for one of so many cells more.
LAYOUT_ROOM_SHARE = 8
# The shares of a term that one of so many cells has are found in all cells at once.
CELLS_OF_MANY = 16
# Cells of threads of which only a bound is found at first: no fewer than lending reaches.
BLOCK_CELLS = 8

# -- traces ---------------------------------------------------------------------------------------
# One artifact of a run, by default; a longer one is cut, and says that it was cut.
TRACE_BYTES_MAX = 10 * MIB
# Bytes of an artifact that are written at once when it is composed.
TRACE_WRITE_BYTES = 16 * KIB
# A trace nests as deep as a value may, plus its own levels around the value.
TRACE_DEPTH_MAX = 2 * DEPTH_MAX
# Names in a trace: of workflows, policies, roles, guardrails, tools, models.
TRACE_NAME_BYTES_MAX = 1 * KIB
# Types of output that a process registers beside ours.
OUTPUT_SHAPES_MAX = 1_000
# Places of an argument, a result or an effect that one profile names.
PROFILE_FIELDS_MAX = 1_000
TOOLS_MAX = 1_000
# Bytes read of one artifact, also of one that was written under a larger limit.
TRACE_READ_BYTES_MAX = 256 * MIB
# Failures that a report lists; it counts all of them. Every event of a large trace may have some.
TRACE_FAILURES_MAX = 250_000
# A value inside a report; a report shows the beginning of a longer one.
TRACE_FAILURE_BYTES_MAX = 1 * KIB
# Names read in a folder of traces and below it, and the levels below it that are read.
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
# Calls, guardrails and retrievals of one event, each; the event is held in memory until it ends.
EVENT_PARTS_MAX = 10_000
# Threads on which the calls of one list are made: a model asks for a handful of tools at once.
CALLS_AT_ONCE_MAX = 16
# Arguments, result and effects of one call, each; larger data goes into blobs.
CALL_BYTES_MAX = VALUE_BYTES_MAX
# One line of a recording holds all three.
RECORDING_LINE_BYTES_MAX = 4 * CALL_BYTES_MAX
RECORDING_CALLS_MAX = 1_000_000
# Errors that are looked through for the first cause of one.
ERROR_CHAIN_MAX = 100
# Unfinished artifacts of one process in one folder.
DRAFTS_MAX = 10_000
# Characters kept of the message of an error, and characters of a call that an error shows.
ERROR_MESSAGE_CHARACTERS_MAX = 10_000
CALL_CHARACTERS_SHOWN = 2_000
# Characters of the name of an exception's class in a trace.
ERROR_NAME_CHARACTERS_MAX = 200
# Characters of a recorded value that a report shows.
RECORDED_CHARACTERS_SHOWN = 200
# Characters of the values of one recording that are held to find where they differ. Of the values past
# this number only their beginnings are held.
RECORDED_CHARACTERS_HELD_MAX = 16 * MIB
# Bytes of a recording whose calls a timeline shows; of the others it has fingerprints.
RECORDING_SHOWN_BYTES_MAX = 64 * MIB
# Entities, ranges and answers that one run may depend on: as many as one commit can check.
RUN_READS_MAX = READS_MAX
# Scans of a run or a transaction that were left in the middle and could go on.
SCANS_OPEN_MAX = 1_024
# How often answers are checked again while others write, before the check makes writers wait.
ANSWER_ROUNDS_MAX = 8
# Conflicts that the ledger keeps of a run; an error has all of them.
RUN_CONFLICTS_KEPT = 100
# A file of settings.
SETTINGS_BYTES_MAX = 1 * MIB
# How long a lease may be; a thread sleeps for parts of it.
LEASE_SECONDS_DEFAULT = 30
LEASE_SECONDS_MAX = 86_400
# How often a lease is renewed before it would end.
LEASE_RENEWALS = 3
# A run whose lease was lost looks how its new owner ended it: the pause, and the number of looks.
TAKEOVER_LOOK_SECONDS = 0.05
TAKEOVER_LOOKS_MAX = 200
# How often a run is registered again when its lease was lost in the meantime.
LEASE_ATTEMPTS_MAX = 8

# -- copies ---------------------------------------------------------------------------------------
# Commits or rows read at once while a page is filled or looked up. Their sizes are known only after
# the read, and those that do not fit were read for nothing.
COPY_CHUNK_MAX = 8
# Room for documents that one transaction patches; the rest of the page goes into the next one.
COPY_DOCUMENT_BYTES_MAX = 64 * MIB

# -- verify ---------------------------------------------------------------------------------------
VERIFY_PAGE_ROWS = 256
VERIFY_PAGE_BYTES = 4 * MIB
# A report with more faults would tell nobody anything more.
FAULTS_MAX = 1_000

# -- pages ----------------------------------------------------------------------------------------
# Characters of one name and of one value that a page shows; it says how many there are.
PAGE_NAME_CHARACTERS_MAX = 500
PAGE_VALUE_CHARACTERS_MAX = 2_000
# The page of a run or of a comparison. A quarter of it is for its frame, and for the last part of each
# section, which is made before its size is known.
REPORT_BYTES_MAX = 8 * MIB
# Events of one run that a report shows: half of them from its beginning, half from its end.
REPORT_EVENTS_MAX = 1_000
# Calls, retrievals or guardrails of one event, records of one retrieval, writes of one commit.
REPORT_PARTS_MAX = 200
# Differences that a report of a comparison shows with both values.
REPORT_DIFFERENCES_MAX = 500
# Pairs of pieces that are looked at to mark what differs: of two values, and on one page. What would
# take more is marked as a whole.
MARKING_STEPS_MAX = 400_000
PAGE_MARKING_STEPS_MAX = 10_000_000
# Of two words that differ and are so long, only what is between their common beginning and end is marked.
MARKED_WORD_CHARACTERS = 20
