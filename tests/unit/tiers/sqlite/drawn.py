"""Statements by plain random draws: most are valid, and half of them reach for what is forbidden."""

from collections.abc import Callable
from random import Random

# Tables and views with the columns that are drawn for them.
TABLES = {
    "metrics": ("id", "name", "value", "at"),
    "events": ("id", "metric_id", "body"),
    "kept": ("k", "v", "twice"),
    "logged": ("x",),
    "guarded": ("x",),
    "open_metrics": ("name", "value"),
    "twice_open": ("name",),
}
FORBIDDEN = {
    "users": ("id", "name", "password"),
    "keys": ("k",),
    "audit": ("what",),
    "é": ("x",),
    "leaky": ("name", "p"),
    "twice_leaky": ("p",),
    "mixed": ("name", "password"),
    "counted": ("n",),
    "hidden_read": ("name",),
    "schema_view": ("name", "sql"),
    "sqlite_schema": ("name", "sql", "rootpage"),
    "sqlite_sequence": ("name", "seq"),
    "docs": ("body",),
    "docs_content": ("c0",),
    "pragma_table_info('users')": ("name",),
}
FUNCTIONS = ("lower", "length", "hex", "coalesce", "max", "json_array", "quote", "substr", "typeof")
FORBIDDEN_FUNCTIONS = ("load_extension", "readfile", "fts3_tokenizer", "sqlite_log", "snippet")
AGGREGATES = ("count", "max", "min", "sum", "group_concat", "json_group_array")
JOINS = (
    ", ",
    " JOIN ",
    " LEFT JOIN ",
    " CROSS JOIN ",
    " NATURAL JOIN ",
    " NATURAL LEFT JOIN ",
    " FULL JOIN ",
)
DEPTH_MAX = 3


class Statements:
    """Draws statements; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._common: list[tuple[str, tuple[str, ...]]] = []  # common table expressions in scope

    def draw(self) -> tuple[str, str]:
        """Return a verb and a statement for it."""
        self._common = []
        if self._random.random() < 0.6:
            return "query", self._spaced(self._with() + self._select(0))
        kinds: tuple[Callable[[], str], ...] = (
            self._insert, self._insert, self._update, self._delete, self._create, self._other,
        )  # fmt: skip
        return "execute", self._spaced(self._random.choice(kinds)())

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _table(self) -> tuple[str, tuple[str, ...]]:
        chosen = FORBIDDEN if self._chance(0.12) else TABLES
        return self._random.choice(sorted(chosen.items()))

    def _spelled(self, name: str) -> str:
        if "(" in name:
            return name
        kind = self._random.randrange(8)
        spellings = {
            0: f'"{name}"', 1: f"[{name}]", 2: f"`{name}`", 3: f"main.{name}", 4: name.upper(),
            5: f'main . "{name}"',
        }  # fmt: skip
        return spellings.get(kind, name) if name.isascii() else name

    def _spaced(self, sql: str) -> str:
        if self._chance(0.1):
            sql = sql.replace(
                " ", self._random.choice((" /* FROM metrics */ ", "\n", "\t", " --x\n")), 3
            )
        if self._chance(0.1):
            sql = self._random.choice((";", "-- PRAGMA x\n", "/**/")) + sql
        return sql + self._random.choice(("", "", "", ";", " -- end"))

    def _with(self) -> str:
        if not self._chance(0.25):
            return ""
        parts = []
        for _ in range(self._random.randint(1, 2)):
            name = self._random.choice(("w", "users", "keys", "metrics", "sqlite_schema", "leaky"))
            body = self._select(1, columns=1)
            parts.append(f"{name}(k) AS {self._random.choice(('', 'MATERIALIZED '))}({body})")
            self._common.append((name, ("k",)))
        return f"WITH {self._random.choice(('', 'RECURSIVE '))}{', '.join(parts)} "

    def _select(self, depth: int, columns: int | None = None) -> str:
        sources, known = self._sources(depth)
        count = columns or self._random.randint(1, 3)
        if columns is None and self._chance(0.15):
            shown = "*"
        elif self._chance(0.2):
            shown = ", ".join(
                f"{self._random.choice(AGGREGATES)}({self._column(known)})" for _ in range(count)
            )
            shown = shown if self._chance(0.5) or columns else "count(*)"
        else:
            shown = ", ".join(self._expression(known, depth) for _ in range(count))
        sql = f"SELECT {self._random.choice(('', '', 'DISTINCT '))}{shown} FROM {sources}"
        if self._chance(0.4):
            sql += f" WHERE {self._condition(known, depth)}"
        if self._chance(0.1):
            sql += f" GROUP BY {self._expression(known, depth)}"
        if depth == 0 and self._chance(0.1):
            sql += f" UNION ALL {self._select(1, columns=count)}"
        elif self._chance(0.15):
            sql += f" ORDER BY {self._expression(known, depth)}"
        return sql + (f" LIMIT {self._random.randint(0, 5)}" if self._chance(0.3) else "")

    def _sources(self, depth: int) -> tuple[str, list[str]]:
        text, known = self._source(depth)
        for _ in range(self._random.choice((0, 0, 0, 1, 1, 2))):
            more, columns = self._source(depth)
            join = self._random.choice(JOINS)
            text += join + more
            if "NATURAL" not in join and join != ", " and self._chance(0.4):
                shared = sorted(set(columns) & set(known))
                text += f" USING ({self._random.choice(shared)})" if shared else " ON 1"
            known = known + columns
        return text, known

    def _source(self, depth: int) -> tuple[str, list[str]]:
        if depth < DEPTH_MAX and self._chance(0.15):
            return f"({self._select(depth + 1, columns=1)}) AS s{depth}", ["1"]
        if self._chance(0.05):
            return "json_each('[1, \"x\"]')", ["value", "key"]
        if self._common and self._chance(0.5):
            name, columns = self._random.choice(self._common)
            return name, list(columns)
        name, columns = self._table()
        alias = self._random.choice(
            ("", "", f" AS {self._random.choice(('a', 'users', 'metrics', 'keys'))}")
        )
        return self._spelled(name) + alias, list(columns)

    def _column(self, known: list[str]) -> str:
        return self._random.choice([*known, *known, "rowid"] if self._chance(0.1) else known)

    def _expression(self, known: list[str], depth: int) -> str:
        kind = self._random.random()
        if kind < 0.5 or depth >= DEPTH_MAX:
            return self._column(known)
        if kind < 0.65:
            return self._random.choice(("1", "'users'", "NULL", "x'00'", "-1.5", "CURRENT_DATE"))
        if kind < 0.85:
            pool = FORBIDDEN_FUNCTIONS if self._chance(0.1) else FUNCTIONS
            return f"{self._random.choice(pool)}({self._expression(known, depth + 1)}, 1)"
        if kind < 0.95:
            return f"({self._select(depth + 1, columns=1)})"
        return (
            f"CASE WHEN {self._condition(known, depth + 1)} THEN 1 ELSE {self._column(known)} END"
        )

    def _condition(self, known: list[str], depth: int) -> str:
        kind = self._random.random()
        if depth < DEPTH_MAX and kind < 0.25:
            return f"EXISTS ({self._select(depth + 1)})"
        if depth < DEPTH_MAX and kind < 0.45:
            return f"{self._column(known)} IN ({self._select(depth + 1, columns=1)})"
        if kind < 0.5:
            return (
                f"{self._column(known)} IN {self._random.choice(('keys', 'audit', 'twice_open'))}"
            )
        return f"{self._expression(known, depth)} IS NOT {self._expression(known, depth)}"

    def _target(self) -> tuple[str, tuple[str, ...]]:
        name, columns = self._table()
        return name, tuple(each for each in columns if each not in ("id", "twice"))

    def _insert(self) -> str:
        name, columns = self._target()
        column = self._random.choice(columns)
        head = self._with() + self._random.choice(
            ("INSERT INTO", "REPLACE INTO", "INSERT OR IGNORE INTO")
        )
        sql = f"{head} {self._spelled(name)}({column}) {self._select(1, columns=1)}"
        if self._chance(0.3):
            value = self._expression(["'x'"], 1)
            sql = f"INSERT INTO {self._spelled(name)}({column}) VALUES ({value})"
        if self._chance(0.1):
            sql += f" ON CONFLICT DO UPDATE SET {column} = {self._expression([column], 1)}"
        return sql + (f" RETURNING {column}" if self._chance(0.05) else "")

    def _update(self) -> str:
        name, columns = self._target()
        value = self._expression(list(columns), 1)
        sql = f"{self._with()}UPDATE {self._spelled(name)} SET {self._random.choice(columns)} = {value}"
        if self._chance(0.15):
            sql += f" FROM {self._source(2)[0]} AS other"
        return sql + (f" WHERE {self._condition(list(columns), 1)}" if self._chance(0.5) else "")

    def _delete(self) -> str:
        name, columns = self._target()
        where = f" WHERE {self._condition(list(columns), 1)}" if self._chance(0.6) else ""
        return f"{self._with()}DELETE FROM {self._spelled(name)}{where}"

    def _create(self) -> str:
        name = self._random.choice(("new", "new", "scratch", "other", "users", '"new"'))
        if self._chance(0.5):
            return f"CREATE TABLE {name} AS {self._with()}{self._select(0)}"
        if self._chance(0.5):
            target, columns = self._table()
            return f"CREATE INDEX i ON {target}({self._expression(list(columns), 2)})"
        return f"CREATE TABLE IF NOT EXISTS {name}(a, b DEFAULT ({self._expression(['1'], DEPTH_MAX - 1)}))"

    def _other(self) -> str:
        name, _ = self._table()
        return self._random.choice((
            f"DROP TABLE {self._spelled(name)}", f"DROP TABLE IF EXISTS {name}", "DROP INDEX metrics_name",
            "DROP INDEX users_name", "DROP VIEW leaky", "DROP TRIGGER logged_in", "VACUUM", "REINDEX",
            f"ANALYZE {name}", f"PRAGMA table_info({name})", "PRAGMA writable_schema = 1", "BEGIN",
            f"ALTER TABLE {name} RENAME TO metrics2", "ATTACH ':memory:' AS m2", "EXPLAIN SELECT 1",
            f"CREATE VIEW new AS SELECT * FROM {name}", f"CREATE TEMP TABLE new AS SELECT * FROM {name}",
            f"SELECT 1; DELETE FROM {name}",
        ))  # fmt: skip
