"""The tables of a store in SQLite. Frozen: a change is one more format at the end, with a page.
A format makes some table, index or view: a number that does not fit them counts as damage.

Facts are appended in rowid order and never change; two narrow indexes lead to them (by entity, and
by place in the log). Commits are clustered by (space, version), so the newest commit of a space is
the end of its range and needs no row of its own. An entity has a thin row for each branch that
wrote it. While it lives there, the row is in `entities` and points to a fact that gave it a value.
After its deletion the row is in `tombstones`, so that scans pass no dead rows. The data of blobs is
cut into chunks. Chunks have a rowid, because long rows make a tree without rowids slow. So have
segments, blocks of postings and vectors. Spaces are numbered; ids are text, because a table of
names would cost every new entity one more tree.
"""

import apsw

# "Rote" in ASCII: tells Rote's files from others.
APPLICATION_ID = 0x526F7465

# The tables that hold the rows of spaces, each with its number in the column `space`.
TABLES_OF_SPACES = (
    "branches", "commits", "facts", "entities", "tombstones", "sides", "derived", "derived_state",
    "blobs", "chunks", "segments", "postings", "vectors",
)  # fmt: skip

_FORMAT_1 = """
create table spaces (
  number integer primary key,
  did text not null unique,
  name text not null unique,
  seal blob not null
) strict;

create table branches (
  space integer not null,
  branch integer not null,
  name text not null,
  parent integer,
  fork_version integer not null,
  created_version integer not null,
  deleted_version integer,
  seal blob not null,
  primary key (space, branch),
  unique (space, name)
) strict, without rowid;

create table commits (
  space integer not null,
  version integer not null,
  branch integer not null,
  hash blob not null,
  at integer not null,
  author text,
  key text,
  meta blob,
  event blob,
  attempt blob not null,
  primary key (space, version)
) strict, without rowid;

create table facts (
  number integer primary key,
  space integer not null,
  branch integer not null,
  version integer not null,
  position integer not null,
  id text not null,
  op integer not null,
  hash blob not null,
  parent blob not null,
  salt blob,
  body blob,
  value blob
) strict;
create unique index facts_by_entity on facts (space, id, version, position, branch);
create unique index facts_by_log on facts (space, branch, version, position, id);

create table entities (
  space integer not null,
  branch integer not null,
  id text not null,
  version integer not null,
  position integer not null,
  primary key (space, branch, id)
) strict, without rowid;

create table tombstones (
  space integer not null,
  branch integer not null,
  id text not null,
  version integer not null,
  position integer not null,
  primary key (space, branch, id)
) strict, without rowid;
create index tombstones_by_version on tombstones (space, branch, version, id);

create table sides (
  space integer not null,
  kind text not null,
  key text not null,
  fence integer not null,
  body blob not null,
  seal blob not null,
  primary key (space, kind, key)
) strict, without rowid;

create table derived (
  space integer not null,
  name text not null,
  term text not null,
  id text not null,
  branch integer not null,
  start integer not null,
  until integer,
  primary key (space, name, term, id, branch, start)
) strict, without rowid;
create index derived_by_entity on derived (space, name, id);

create table derived_state (
  space integer not null,
  name text not null,
  indexed integer not null,
  primary key (space, name)
) strict, without rowid;

create table blobs (
  space integer not null,
  upload blob not null,
  hash blob,
  size integer not null,
  at integer not null,
  seal blob not null,
  primary key (space, upload),
  unique (space, hash)
) strict, without rowid;

create table chunks (
  number integer primary key,
  space integer not null,
  upload blob not null,
  until integer not null,
  data blob not null
) strict;
create unique index chunks_by_place on chunks (space, upload, until);
"""

# The indexes are for commits with an event and for leases, of which there are few. Files of format 1
# have them, too, unless an early Rote made them.
_FORMAT_2 = """
create index if not exists commits_with_event on commits (space, version) where event is not null;
create index if not exists leases on sides (space) where kind = 'lease';

create table segments (
  number integer primary key,
  space integer not null,
  name text not null,
  segment integer not null,
  size integer not null,
  until integer not null,
  body blob not null
) strict;
create unique index segments_by_place on segments (space, name, segment);

create table postings (
  number integer primary key,
  space integer not null,
  name text not null,
  segment integer not null,
  term text not null,
  terms blob not null,
  ends blob not null,
  body blob not null
) strict;
create unique index postings_by_term on postings (space, name, segment, term);

create table vectors (
  number integer primary key,
  space integer not null,
  name text not null,
  hash blob not null,
  body blob not null,
  seal blob not null
) strict;
create unique index vectors_by_hash on vectors (space, name, hash);
"""

# Pages have checksums, see checksums.py; the view tells it to readers and to an earlier Rote. A file
# of an earlier format has no room for them, so it stays what it is.
_FORMAT_3 = """
create view page_checksums as select 'cksumvfs, 8 bytes at the end of each page' as made_by;
"""

# The statements that bring a file to each format from the one before.
FORMATS = (_FORMAT_1, _FORMAT_2, _FORMAT_3)
FORMAT = len(FORMATS)
FORMAT_WITH_SEGMENTS = 2
FORMAT_WITH_CHECKSUMS = 3


def bring_up_to_date(connection: apsw.Connection, *, done: int, format: int) -> None:
    """Bring a file of a format, 0 for an empty one, to a later one; inside a transaction."""
    for statements in FORMATS[done:format]:
        connection.execute(statements)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", format)
