"""The database that statements are tried on: some tables are allowed, and others hold secrets."""

from pathlib import Path

import apsw

SECRET = "S3CRET-7f2c"
ALLOWED = ("metrics", "events", "logged", "guarded", "odd name", "É", "new", "scratch", "kept")
FORBIDDEN = ("users", "audit", "keys", "é", "docs_content")

SCHEMA = f"""
create table metrics(id integer primary key, name text, value real, at text);
insert into metrics values (1, 'cpu', 0.5, '2026-01-01'), (2, 'mem', 2.5, '2026-01-02'),
  (3, 'disk', null, '2026-01-03'), (4, 'cpu', 1.5, '2026-01-04');
create index metrics_name on metrics(name);
create table events(id integer primary key autoincrement, metric_id integer, body text);
insert into events(metric_id, body) values (1, '{{"level": 3}}'), (2, '{{"level": 1}}');
create table kept(k primary key, v, twice generated always as (v || v) virtual) without rowid;
insert into kept(k, v) values ('a', 1), ('b', 2);
create table "odd name"("a column", "select");
insert into "odd name" values (1, 2);
create table "É"(x);
create table "é"(x);
insert into "é" values ('{SECRET}');

create table users(id integer primary key, name text, password text);
insert into users values (1, 'root', '{SECRET}'), (2, 'guest', '{SECRET}!');
create index users_name on users(name, password);
create table keys(k text primary key) without rowid;
insert into keys values ('{SECRET}');
create table audit(what text);
insert into audit values ('{SECRET}');

create table logged(x);
create trigger logged_in after insert on logged begin insert into audit values (new.x); end;
create table guarded(x);
create trigger guarding before update on guarded
  when exists (select 1 from users where name = new.x) begin select raise(abort, 'taken'); end;

create view open_metrics as select name, value from metrics;
create view twice_open as select name from open_metrics;
create view leaky as select name, password as p from users;
create view twice_leaky as select p from leaky;
create view mixed as select m.name, u.password from metrics m, users u;
create view counted as select count(*) as n from users;
create view schema_view as select name, sql from sqlite_schema;
create view pragma_view as select name from pragma_table_info('users');
create view hidden_read as select name from metrics where exists (select 1 from keys);
create view inlet as select x from logged;
create trigger into_users instead of insert on inlet
  begin insert into users(name) values (new.x); end;
create view good_inlet as select name from metrics;
create trigger into_metrics instead of insert on good_inlet
  begin insert into metrics(name) values (new.name); end;

create virtual table docs using fts5(body);
insert into docs values ('{SECRET}');
create virtual table boxes using rtree(id, low, high);
"""


def make_database(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(SCHEMA)
    connection.close()


def contents(path: Path) -> str:
    """Return the schema and all rows of all tables, read without any judge."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = [
            str(name)
            for (name,) in connection.execute(
                "select name from sqlite_schema where type = 'table' and rootpage > 0"
                " union all select 'sqlite_schema' order by 1"
            )
        ]
        return "\n".join(
            f"{name} {row}"
            for name in tables
            for row in connection.execute(f'select * from "{name}" order by 1')
        )
    finally:
        connection.close()
