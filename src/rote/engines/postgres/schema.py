"""The tables of a store in PostgreSQL, and the migrations that make them.

Frozen: a migration that was released never changes; a change is one more at the end. The space
leads every key, so a store can be spread over servers by it, and no statement needs two of them.
The row of a space carries its newest commit and counts every write to the space (`changes`): a
statement that moves the counter from a known value proves that nothing was written since.

Texts compare by code point (`collate "C"`). Kinds, keys and terms may hold NUL, which PostgreSQL
refuses in text: they are the bytes of their UTF-8, which sort the same way.
"""

import re

from rote.engines.postgres.connections import Session
from rote.errors import InvalidInput, NotFound, Unavailable

# PostgreSQL cuts longer identifiers off silently.
NAME_BYTES_MAX = 63

_name = re.compile(r"[a-z_][a-z0-9_]*").fullmatch

_CLASSES = (
    "select 1 from pg_class as c join pg_namespace as n on n.oid = c.relnamespace"
    " where n.nspname = $1"
)

# `{s}` is the schema, quoted. Numbered from 1; `store.format` says how many were applied.
MIGRATIONS = (
    """
create table {s}.store (
  format bigint not null,
  hardened bigint not null
);

create table {s}.spaces (
  number bigint primary key,
  did text collate "C" not null unique,
  name text collate "C" not null unique,
  seal bytea not null,
  version bigint not null,
  hash bytea not null,
  at bigint not null,
  changes bigint not null
);

create table {s}.branches (
  space bigint not null,
  branch bigint not null,
  name text collate "C" not null,
  parent bigint,
  fork_version bigint not null,
  created_version bigint not null,
  deleted_version bigint,
  seal bytea not null,
  primary key (space, branch),
  unique (space, name)
);

create table {s}.commits (
  space bigint not null,
  version bigint not null,
  branch bigint not null,
  hash bytea not null,
  at bigint not null,
  author text collate "C",
  key text collate "C",
  meta bytea,
  event bytea,
  attempt bytea not null,
  primary key (space, version)
);

create table {s}.facts (
  space bigint not null,
  branch bigint not null,
  version bigint not null,
  position bigint not null,
  id text collate "C" not null,
  op bigint not null,
  hash bytea not null,
  parent bytea not null,
  salt bytea,
  body bytea,
  value bytea,
  primary key (space, id, version, position, branch)
);
create unique index facts_by_log on {s}.facts (space, branch, version, position, id);

create table {s}.entities (
  space bigint not null,
  branch bigint not null,
  id text collate "C" not null,
  version bigint not null,
  position bigint not null,
  primary key (space, branch, id)
);

create table {s}.tombstones (
  space bigint not null,
  branch bigint not null,
  id text collate "C" not null,
  version bigint not null,
  position bigint not null,
  primary key (space, branch, id)
);
create index tombstones_by_version on {s}.tombstones (space, branch, version, id);

create table {s}.sides (
  space bigint not null,
  kind bytea not null,
  key bytea not null,
  fence bigint not null,
  body bytea not null,
  seal bytea not null,
  primary key (space, kind, key)
);

create table {s}.derived (
  space bigint not null,
  name text collate "C" not null,
  term bytea not null,
  id text collate "C" not null,
  branch bigint not null,
  start bigint not null,
  until bigint,
  primary key (space, name, term, id, branch, start)
);
create index derived_by_entity on {s}.derived (space, name, id);

create table {s}.derived_state (
  space bigint not null,
  name text collate "C" not null,
  indexed bigint not null,
  primary key (space, name)
);

-- The counter of a space, and the newest fact of one entity on one branch: what comes before most
-- commits. A function for the same reason as the next one.
create function {s}.look_at_one(bigint, text, bigint, bigint) returns table (
  changes bigint, branch bigint, version bigint, place bigint, id text, op bigint, hash bytea,
  parent bytea, salt bytea, body bytea, value bytea
) language plpgsql stable as $function$
begin
  return query select s.changes, f.branch, f.version, f.position, f.id, f.op, f.hash, f.parent,
    f.salt, f.body, f.value
  from {s}.spaces as s left join lateral (
    select * from {s}.facts as f
    where f.space = $1 and f.id = $2 and f.branch = $3 and f.version <= $4
    order by f.version desc, f.position desc limit 1
  ) as f on true where s.number = $1;
end $function$;
create table {s}.blobs (
  space bigint not null,
  upload bytea not null,
  hash bytea,
  size bigint not null,
  at bigint not null,
  seal bytea not null,
  primary key (space, upload),
  unique (space, hash)
);

create table {s}.chunks (
  space bigint not null,
  upload bytea not null,
  until bigint not null,
  data bytea not null,
  primary key (space, upload, until)
);
-- Payloads are mostly compressed already; trying again costs more than it gains.
alter table {s}.chunks alter column data set storage external;

-- One commit of one fact of an entity that exists then, and the row of its key if it has one: what
-- writes.py would otherwise send as a statement. In a function PostgreSQL keeps the plan, for every
-- client of a server connection, without a prepared statement that a pooler would have to follow.
create function {s}.append_one(
  bigint, bigint, bytea, text,
  bigint, bigint, bytea, bigint, text, text, bytea, bytea, bytea,
  bigint, text, bigint, bytea, bytea, bytea, bytea, bytea,
  bytea, bytea, bigint, bytea, bytea
) returns setof bigint language plpgsql as $function$
begin
  return query with moved as (
    update {s}.spaces set changes = changes + 1, version = $5, hash = $7, at = $8
    where number = $1 and changes = $2 and hash = $3
      and set_config('lock_timeout', $4, true) <> ''
    returning number
  ), part_1 as (
    insert into {s}.commits select number, $5, $6, $7, $8, $9, $10, $11, $12, $13 from moved
  ), part_2 as (
    insert into {s}.facts
    select number, $6, $5, $14, $15, $16, $17, $18, $19, $20, $21 from moved
  ), part_3 as (
    insert into {s}.entities select number, $6, $15, $5, $14 from moved
    on conflict (space, branch, id) do update
    set version = excluded.version, position = excluded.position
  ), part_4 as (
    insert into {s}.sides select number, $22, $23, $24, $25, $26 from moved where $22 is not null
    on conflict (space, kind, key) do update
    set fence = excluded.fence, body = excluded.body, seal = excluded.seal
  )
  select number from moved;
end
$function$;

insert into {s}.store values (0, 0);
""",
    # Commits with an event are few, and are searched for on their own.
    """
create index commits_with_event on {s}.commits (space, version) where event is not null;
""",
    # PostgreSQL must not sample what can be erased: no statement of Rote could delete it from the statistics.
    """
alter table {s}.facts alter column salt set statistics 0, alter column body set statistics 0,
  alter column value set statistics 0;
alter table {s}.sides alter column body set statistics 0;
alter table {s}.derived alter column term set statistics 0;
""",
    # A commit may write an entity and a key that its writer has not looked for; it is written only
    # if both are new. The function moves the row of the space. That proves that nobody has written
    # since its writer read the space, and keeps all others out until the end. So everything that
    # was read before still holds, and each statement can stand alone, which is faster than one
    # statement of many parts.
    """
drop function {s}.append_one(
  bigint, bigint, bytea, text,
  bigint, bigint, bytea, bigint, text, text, bytea, bytea, bytea,
  bigint, text, bigint, bytea, bytea, bytea, bytea, bytea,
  bytea, bytea, bigint, bytea, bytea
);
create function {s}.append_one(
  bigint, bigint, bytea, text, text,
  boolean, boolean,
  bigint, bigint, bytea, bigint, text, text, bytea, bytea, bytea,
  bigint, text, bigint, bytea, bytea, bytea, bytea, bytea,
  bytea, bytea, bigint, bytea, bytea
) returns boolean language plpgsql as $function$
declare
  setting text := set_config('lock_timeout', $4, true);
begin
  if $5 = 'os' then
    setting := set_config('synchronous_commit', 'off', true);
  elsif current_setting('synchronous_commit') = 'off' then
    setting := set_config('synchronous_commit', 'on', true);
  end if;
  if $6 and exists (select from {s}.facts where space = $1 and id = $18) then
    return false;
  end if;
  if $7 and exists (select from {s}.sides where space = $1 and kind = $25 and key = $26) then
    return false;
  end if;
  update {s}.spaces set changes = changes + 1, version = $8, hash = $10, at = $11
  where number = $1 and changes = $2 and hash = $3;
  if not found then
    return false;
  end if;
  insert into {s}.commits values ($1, $8, $9, $10, $11, $12, $13, $14, $15, $16);
  insert into {s}.facts values ($1, $9, $8, $17, $18, $19, $20, $21, $22, $23, $24);
  insert into {s}.entities values ($1, $9, $18, $8, $17)
  on conflict (space, branch, id) do update
  set version = excluded.version, position = excluded.position;
  if $25 is not null then
    insert into {s}.sides values ($1, $25, $26, $27, $28, $29)
    on conflict (space, kind, key) do update
    set fence = excluded.fence, body = excluded.body, seal = excluded.seal;
  end if;
  return true;
end
$function$;
alter table {s}.chunks alter column data set statistics 0;
""",
    # Leases are few, and are searched for in all spaces at once when a store is opened.
    """
create index leases on {s}.sides (space) where kind = 'lease'::bytea;
""",
    # Segments of packed indexes and vectors. Their bodies are dense already, blocks of postings are
    # read whole and stay in their rows, and nothing of what these tables hold is sampled.
    """
create table {s}.segments (
  space bigint not null,
  name text collate "C" not null,
  segment bigint not null,
  size bigint not null,
  until bigint not null,
  body bytea not null,
  primary key (space, name, segment)
);
alter table {s}.segments alter column body set storage external,
  alter column body set statistics 0;

create table {s}.postings (
  space bigint not null,
  name text collate "C" not null,
  segment bigint not null,
  term bytea not null,
  terms bytea not null,
  ends bytea not null,
  body bytea not null,
  primary key (space, name, segment, term)
) with (toast_tuple_target = 4080);
alter table {s}.postings alter column body set storage external,
  alter column term set statistics 0, alter column terms set statistics 0,
  alter column ends set statistics 0, alter column body set statistics 0;

create table {s}.vectors (
  space bigint not null,
  name text collate "C" not null,
  hash bytea not null,
  body bytea not null,
  seal bytea not null,
  primary key (space, name, hash)
);
alter table {s}.vectors alter column body set storage external,
  alter column hash set statistics 0, alter column body set statistics 0,
  alter column seal set statistics 0;
""",
)

# The number of values that append_one takes.
APPEND_ONE_TAKES = 29


def check_schema(name: object) -> str:
    """Return the name; raise unless it is the same with quotes and without, as typed in psql."""
    if type(name) is not str or len(name) > NAME_BYTES_MAX or not _name(name):
        raise InvalidInput(
            f"{name!r:.80} cannot name a schema; use 1 to {NAME_BYTES_MAX} characters of a-z 0-9 _"
            " and start with a letter"
        )
    if name.startswith("pg_"):
        raise InvalidInput(f"{name!r} is one of PostgreSQL's own schemas; name another one")
    return name


def quoted(schema: str) -> str:
    """Return the name in quotes: `user`, `order` and `table` are otherwise words of SQL."""
    return f'"{schema}"'


def prepare(session: Session, schema: str, *, create: bool) -> None:
    """Bring the schema to the newest format; when several processes start, one does it and the
    others wait."""
    if _format(session, schema) == len(MIGRATIONS):
        return
    session.run("begin isolation level read committed")
    try:
        # Held until the transaction ends. It only keeps processes that start together from failing
        # on each other; PostgreSQL itself prevents that two of them make the tables.
        session.run("select pg_advisory_xact_lock(hashtextextended($1, 0))", (f"rote {schema}",))
        done = _format(session, schema)
        if done is None:
            _refuse_unless_empty(session, schema, create=create)
            if not session.rows("select 1 from pg_namespace where nspname = $1", (schema,)):
                session.run(f"create schema {quoted(schema)}")
        for number in range(done or 0, len(MIGRATIONS)):
            session.run(MIGRATIONS[number].format(s=quoted(schema)))
        session.run(f"update {quoted(schema)}.store set format = {len(MIGRATIONS)}")
        session.run("commit")
    except BaseException:
        session.close()
        raise


def check_format(session: Session, schema: str) -> None:
    """Raise unless the schema holds a store that can be read; an older format can."""
    if _format(session, schema) is None:
        _refuse_unless_empty(session, schema, create=False)


def _format(session: Session, schema: str) -> int | None:
    """Return the number of migrations the schema has seen; None when it holds no store."""
    # Not to_regclass: it may answer with the state from before the wait for the lock.
    if not session.rows(f"{_CLASSES} and c.relname = 'store'", (schema,)):
        return None
    format: int = session.rows(f"select format from {quoted(schema)}.store")[0][0]
    if format > len(MIGRATIONS):
        raise Unavailable(
            f"{session.place}, schema {schema!r}: has format {format}, this Rote knows"
            f" {len(MIGRATIONS)}; upgrade Rote"
        )
    return format


def _refuse_unless_empty(session: Session, schema: str, *, create: bool) -> None:
    if session.rows(f"{_CLASSES} limit 1", (schema,)):
        raise InvalidInput(
            f"{session.place}, schema {schema!r}: holds other tables; name another schema"
        )
    if not create:
        raise NotFound(
            f"{session.place}: there is no store in the schema {schema!r};"
            " write something to make one"
        )
