"""Drawn statements against the judge, told by something else than the authorizer that judges.

A witness without any judge looks at what a statement would do (the root pages that its program opens,
and its functions) before it is tried. When it was not refused, it may have touched allowed tables
only; no secret came back; and every forbidden table holds what it held. Each hole that is planted in
the judge is found by the same draws.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import apsw
import pytest

from rote.tiers.sqlite import judge as judging
from rote.tiers.sqlite.judge import Judge, Refused
from rote.tiers.sqlite.statements import Statements, harden
from tests.lanes import SLOW, examples
from tests.unit.tiers.sqlite import drawn
from tests.unit.tiers.sqlite.scene import ALLOWED, FORBIDDEN, SCHEMA, SECRET

DRAWS = examples(1_000, 100_000)
DRAWS_PLANTED_MAX = 20_000
FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
# Functions that no statement may reach, beside those of the engine: left by an extension.
PLANTED_FUNCTION = "readfile"
_numbers = count()


class Escape(AssertionError):
    """A statement that touched, showed or changed what is forbidden."""


class Scene:
    """A database in memory with a judged connection and a witness."""

    def __init__(self) -> None:
        place = f"file:/fuzz-{os.getpid()}-{next(_numbers)}?vfs=memdb"
        self.template = apsw.Connection(":memory:")
        self.template.execute(SCHEMA)
        self.witness = apsw.Connection(place, flags=FLAGS)
        self.restore()
        self.before = self.forbidden()
        self.judged = apsw.Connection(place, flags=FLAGS)
        harden(self.judged)
        self.judged.create_scalar_function(PLANTED_FUNCTION, lambda *_: SECRET)
        self.statements = Statements(self.judged)
        self.allowed = frozenset(name.lower() if name.isascii() else name for name in ALLOWED)

    def restore(self) -> None:
        with self.witness.backup("main", self.template, "main") as backup:
            backup.step()

    def forbidden(self) -> list[Any]:
        """Return all rows of the forbidden tables, and the definitions of everything else."""
        rows: list[Any] = [
            self.witness.execute(f'SELECT * FROM "{name}"').fetchall() for name in FORBIDDEN
        ]
        others = self.witness.execute(
            "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('view', 'trigger')"
            " AND tbl_name NOT IN ('logged', 'guarded')"
        )
        return [*rows, others.fetchall()]

    def foreseen(self, sql: str) -> tuple[list[tuple[str, str]], set[str], bool] | None:
        """Return the tables and functions of a statement's program, and whether it has virtual ones."""
        names: Any = self.witness.execute("SELECT rootpage, tbl_name FROM sqlite_schema")
        roots = dict(names.fetchall())
        try:
            steps: Any = self.witness.execute(sql, explain=1, can_cache=False).fetchall()
        except apsw.Error:
            return None
        opened = [
            (opcode, p2, p3) for _, opcode, _, p2, p3, _, p5, _ in steps
            if opcode in ("OpenRead", "OpenWrite", "ReopenIdx") and not p5 & 0x10
        ]  # fmt: skip
        opened += [(opcode, p1, p2) for _, opcode, p1, p2, *_ in steps if opcode == "Clear"]
        opened += [(opcode, p1, p3) for _, opcode, p1, _, p3, *_ in steps if opcode == "Destroy"]
        tables = [
            (opcode, "temp" if schema else str(roots.get(root, root)).lower())
            for opcode, root, schema in opened
        ]
        functions = {
            str(p4).partition("(")[0] for _, opcode, _, _, _, p4, *_ in steps
            if opcode in ("Function", "PureFunc", "AggStep", "AggStep1")
        }  # fmt: skip
        return tables, functions, any(step[1] == "VOpen" for step in steps)

    def try_one(self, verb: str, sql: str) -> str:
        """Send a statement; return what became of it. Escape: something forbidden happened."""
        foreseen = self.foreseen(sql)
        try:
            if verb == "query":
                answer = self.statements.query(
                    sql, None, self.allowed, seconds=5, max_rows=1_000, max_result_bytes=1 << 20
                )
            else:
                answer = self.statements.execute(
                    sql, None, self.allowed, seconds=5, committing=lambda: None
                )
        except Refused as refused:
            return refused.code
        except apsw.Error:
            return "sql_failed"
        if SECRET in answer or SECRET.encode().hex().upper() in answer:
            raise Escape(f"a secret came back: {sql}")
        if verb == "execute":
            if self.forbidden() != self.before:
                raise Escape(f"a forbidden table was changed: {sql}")
            self.restore()
        if foreseen is not None:
            self._check(sql, *foreseen)
        return "answered"

    def _check(
        self, sql: str, opened: list[tuple[str, str]], functions: set[str], has_virtual: bool
    ) -> None:
        touched = {name for _, name in opened} - self.allowed
        own = set()
        if re.search(r"\bdrop\b", sql, re.IGNORECASE):
            own = {"1", "sqlite_sequence"}
        elif re.search(r"\bcreate\b", sql, re.IGNORECASE) and ("OpenRead", "1") not in opened:
            own = {"1"}
        elif opened.count(("OpenRead", "sqlite_sequence")) == opened.count(
            ("OpenWrite", "sqlite_sequence")
        ):
            own = {"sqlite_sequence"}
        if touched - own:
            raise Escape(f"it touched {sorted(touched)}: {sql}")
        if functions & {*drawn.FORBIDDEN_FUNCTIONS, PLANTED_FUNCTION}:
            raise Escape(f"it called {sorted(functions)}: {sql}")
        if has_virtual and "json_each" not in sql:
            raise Escape(f"it opened a virtual table: {sql}")


def fuzz(scene: Scene, draws: int, seed: int) -> dict[str, int]:
    """Try so many statements; return how many had which outcome."""
    statements, outcomes = drawn.Statements(seed), dict.fromkeys(("answered", "sql_denied"), 0)
    for _ in range(draws):
        outcome = scene.try_one(*statements.draw())
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


def test_no_drawn_statement_touches_what_is_forbidden() -> None:
    seed = int.from_bytes(os.urandom(4), "big") if SLOW else 0
    outcomes = fuzz(Scene(), DRAWS, seed)
    # The draws are worth something: many were answered, and many reached for what is forbidden.
    assert outcomes["answered"] > DRAWS / 5, (seed, outcomes)
    assert outcomes["sql_denied"] > DRAWS / 5, (seed, outcomes)


@contextmanager
def lowered(*names: str) -> Iterator[None]:
    """Plant holes in the judge: (what is left out of it)."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            HOLES[name](patch)
        yield


def _believe_views(patch: pytest.MonkeyPatch) -> None:
    is_allowed = Judge._is_allowed

    def believing(self: Judge, asked: Any, word: str, allowed: Any) -> bool:
        return asked.within is not None or is_allowed(self, asked, word, allowed)

    patch.setattr(Judge, "_is_allowed", believing)


HOLES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a function on the list": lambda patch: patch.setattr(
        judging, "FUNCTIONS", judging.FUNCTIONS | {PLANTED_FUNCTION}
    ),
    "views and triggers are believed": _believe_views,
    "judged before prepare": lambda patch: patch.setattr(
        Judge, "decide", lambda self, *_: setattr(self, "_phase", judging._STEPPING)
    ),
    "the program is not looked at": lambda patch: patch.setattr(
        Judge, "check_program", lambda *_: None
    ),
    "the authorizer's notes are not looked at": lambda patch: patch.setattr(
        Judge, "_is_allowed", lambda *_: True
    ),
}


@pytest.mark.parametrize(
    "holes",
    [
        ("a function on the list",),
        ("views and triggers are believed", "the program is not looked at"),
        ("judged before prepare",),
        ("the program is not looked at",),
        ("the authorizer's notes are not looked at", "the program is not looked at"),
    ],
    ids=" and ".join,
)
def test_a_planted_hole_is_found(holes: tuple[str, ...]) -> None:
    with lowered(*holes), pytest.raises(Escape):
        fuzz(Scene(), DRAWS_PLANTED_MAX, 0)


def test_what_one_way_of_looking_misses_the_other_sees() -> None:
    """The program alone stops every read and write of a table, also where views are believed."""
    for hole in ("views and triggers are believed", "the authorizer's notes are not looked at"):
        with lowered(hole):
            scene = Scene()
            for verb, sql in (
                ("query", "SELECT * FROM users"), ("query", "SELECT count(*) FROM leaky"),
                ("query", "SELECT p FROM twice_leaky"), ("execute", "INSERT INTO logged VALUES (1)"),
                ("execute", "DELETE FROM keys"), ("execute", "UPDATE guarded SET x = 1"),
                ("query", "SELECT * FROM sqlite_schema"),
            ):  # fmt: skip
                assert scene.try_one(verb, sql) == "sql_denied", (hole, sql)
