"""The worker process: what it loads, how it ends, and what a host sees of that."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import apsw
import pytest

import rote
from rote.engines.sqlite.schema import APPLICATION_ID
from rote.errors import Busy, Corrupt, Denied, InvalidInput, LimitExceeded, NotFound, Unavailable
from rote.tiers.sqlite import process
from rote.tiers.sqlite.adapter import Tables, open_sqlite
from rote.tiers.sqlite.judge import Judge, Refused
from rote.tiers.sqlite.statements import STORE_ID, Statements, open_file
from tests.lanes import SLOW
from tests.unit.tiers.calling import call, code, refusal
from tests.unit.tiers.sqlite.refused import BOMBS

ROOT = Path(__file__).parents[4]
INSIDE_ONE_FUNCTION = BOMBS[2][1]
ENDLESS = BOMBS[0][1]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers be killed sooner, so that these tests take less time."""
    if not SLOW:
        monkeypatch.setattr(process, "SQL_KILL_SECONDS", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.db"
    connection = apsw.Connection(str(path))
    connection.execute(
        "create table t(id integer primary key, x); insert into t(x) values (1), (2)"
    )
    connection.execute("create table secret(s); insert into secret values ('hidden')")
    connection.close()
    return path


def opened(path: Path, **options: Any) -> Tables:
    return open_sqlite({"path": str(path), "allow_tables": ["t"], "allow_write": True, **options})


@pytest.fixture
def box(path: Path) -> Iterator[Tables]:
    box = opened(path)
    yield box
    box.close()


def number(box: Tables) -> int:
    """Return the number of rows, as the next call after something went wrong."""
    return int(call(box, "query", "SELECT count(*) AS n FROM t")["rows"][0]["n"])


def process_of(box: Tables) -> "subprocess.Popen[bytes]":
    process = box._worker._process
    assert process is not None
    return process


def test_the_worker_starts_with_the_first_call_and_is_used_again(box: Tables) -> None:
    assert box._worker._process is None
    assert number(box) == 2
    first = process_of(box)
    assert call(box, "execute", "INSERT INTO t(x) VALUES (3)")["rows_affected"] == 1
    refusal(box, "query", "SELECT * FROM secret")
    refusal(box, "query", "SELECT nothing")
    assert number(box) == 3
    assert process_of(box) is first


def test_the_worker_loads_the_driver_and_its_own_files_alone(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path += sys.argv[1:]; import rote.tiers.sqlite.worker\n"
        "print(*sorted(name for name in sys.modules if name not in sys.stdlib_module_names))"
    )
    folders = [str(ROOT / "src"), str(Path(apsw.__file__).parents[1])]
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *folders],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    others = [
        name
        for name in found
        if name.partition(".")[0] not in ("__main__", *sys.stdlib_module_names)
    ]
    assert others == [
        "apsw", "rote", "rote.tiers", "rote.tiers.sqlite", "rote.tiers.sqlite.judge",
        "rote.tiers.sqlite.statements", "rote.tiers.sqlite.words", "rote.tiers.sqlite.worker",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sql", [ENDLESS, INSIDE_ONE_FUNCTION], ids=["between steps", "inside one function"]
)
def test_a_late_statement_is_stopped_and_the_next_one_works(sql: str, path: Path) -> None:
    box = opened(path, timeout_seconds=0.1)
    error = refusal(box, "query", sql)
    assert isinstance(error, LimitExceeded)
    assert "timeout_seconds" in str(error)
    assert number(box) == 2
    box.close()


@pytest.mark.slow
def test_every_call_ends_within_its_time_and_a_second(path: Path) -> None:
    box = opened(path, timeout_seconds=0.5, max_memory_bytes=128 * 2**20)
    for _, sql in BOMBS:
        number(box)  # a worker's start aside
        start = monotonic()
        assert isinstance(refusal(box, "query", sql), LimitExceeded)
        assert monotonic() - start < 1.5, sql
    box.close()


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t(x) WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        f"UPDATE t SET x = ({INSIDE_ONE_FUNCTION})",
        "INSERT INTO t(x) SELECT randomblob(900000000)",
    ],
    ids=["too many rows", "inside one function", "too much memory"],
)
def test_a_write_beyond_a_bound_is_rolled_back(sql: str, path: Path) -> None:
    box = opened(path, timeout_seconds=0.15)
    assert isinstance(refusal(box, "execute", sql), LimitExceeded)
    assert call(box, "query", "SELECT x FROM t")["rows"] == [{"x": 1}, {"x": 2}]
    assert call(box, "execute", "INSERT INTO t(x) VALUES (3)")["lastrowid"] == 3
    box.close()


def test_a_killed_worker_is_replaced(box: Tables) -> None:
    number(box)
    process_of(box).kill()
    process_of(box).wait()
    assert number(box) == 2


def test_a_worker_that_is_killed_in_a_statement_says_so_and_is_replaced(path: Path) -> None:
    box = opened(path, timeout_seconds=30)
    number(box)
    killer = threading.Timer(0.05, process_of(box).kill)
    killer.start()
    error = refusal(box, "execute", f"INSERT INTO t(x) SELECT ({ENDLESS})")
    killer.join()
    assert type(error) is Unavailable
    assert number(box) == 2
    box.close()


def test_a_worker_that_is_stopped_is_killed_in_time(path: Path) -> None:
    box = opened(path, timeout_seconds=0.1)
    number(box)
    process_of(box).send_signal(signal.SIGSTOP)
    assert isinstance(refusal(box, "query", "SELECT 1"), LimitExceeded)
    assert number(box) == 2
    box.close()


def test_an_interrupted_call_leaves_no_answer_for_the_next_one(path: Path) -> None:
    box = opened(path, timeout_seconds=30)
    number(box)
    # As Ctrl-C does it, also where that signal is ignored.
    handler = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            call(box, "query", ENDLESS)
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert number(box) == 2
    box.close()


def test_a_worker_ends_when_its_host_is_killed(path: Path) -> None:
    program = (
        "import sys; from rote.tiers.sqlite.adapter import open_sqlite\n"
        "box = open_sqlite({'path': sys.argv[1], 'allow_tables': ['t'], 'timeout_seconds': 1})\n"
        "box.call('query', {'sql': 'SELECT 1', 'params': None}, {})\n"
        "print(box._worker._process.pid, flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as host:  # fmt: skip
        assert host.stdout is not None
        worker = int(host.stdout.readline())
        watched = os.pidfd_open(worker)
        host.kill()
        host.wait()
    # Readable when the process has ended.
    assert select.select([watched], [], [], 30)[0]
    os.close(watched)


def test_closing_ends_the_worker_and_calls_are_unavailable(box: Tables) -> None:
    number(box)
    process = process_of(box)
    box.close()
    box.close()
    assert process.returncode == 0
    assert isinstance(refusal(box, "query", "SELECT 1"), Unavailable)


def test_a_host_that_is_forgotten_takes_its_worker_along(path: Path) -> None:
    box = opened(path)
    number(box)
    process = process_of(box)
    del box
    assert process.returncode is not None


def test_threads_take_turns_and_waiting_counts(path: Path) -> None:
    box = opened(path, timeout_seconds=0.15)
    number(box)
    outcomes: list[str] = []

    def late() -> None:
        outcomes.append(type(refusal(box, "query", INSIDE_ONE_FUNCTION)).__name__)

    threads = [threading.Thread(target=late) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(outcomes)) in (["Busy", "LimitExceeded"], ["LimitExceeded"])
    assert number(box) == 2
    box.close()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_that_others_hold_is_busy(mode: str, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.pragma("journal_mode", mode)
    box = opened(path, timeout_seconds=0.1)
    assert number(box) == 2
    other.execute("begin exclusive")
    assert isinstance(refusal(box, "execute", "INSERT INTO t(x) VALUES (3)"), Busy)
    if mode == "delete":
        assert isinstance(refusal(box, "query", "SELECT * FROM t"), Busy)
    other.execute("rollback")
    assert call(box, "execute", "INSERT INTO t(x) VALUES (3)")["rows_affected"] == 1
    other.close()
    box.close()


def test_a_database_that_others_hold_from_the_beginning_is_busy(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("begin exclusive")
    box = opened(path, timeout_seconds=0.1)
    assert isinstance(refusal(box, "query", "SELECT * FROM t"), Busy)
    other.execute("rollback")
    assert number(box) == 2
    other.close()
    box.close()


FALSE_WORKER = """
import os
def read(size):
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or os._exit(0)
    return data
def frame(): return read(int.from_bytes(read(4), "big"))
def write(data): os.write(0, len(data).to_bytes(4, "big") + data)
frame(); write(b"+"); frame()
"""


@pytest.mark.parametrize(
    "ending",
    [
        "write(b'=not json')", "write(b'!')", "os.write(0, b'\\xff' * 9); frame()", "os._exit(3)",
        "write(b'c'); os._exit(0)", "write(b'c'); frame()",
    ],
)  # fmt: skip
def test_a_worker_that_answers_nonsense_is_unavailable(
    ending: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = opened(path, timeout_seconds=0.1)
    monkeypatch.setattr(process, "_PROGRAM", FALSE_WORKER + ending)
    error = refusal(box, "execute", "DELETE FROM t")
    assert type(error) is Unavailable
    # A write that may have been committed says that nobody knows.
    assert error.details.get("outcome") == ("unknown" if "b'c'" in ending else None)
    box.close()


def test_what_others_write_and_define_is_seen_and_judged_anew(box: Tables, path: Path) -> None:
    other = apsw.Connection(str(path))
    assert number(box) == 2
    other.execute("insert into t(x) values (3)")
    assert number(box) == 3
    other.execute("create view v as select x from t")
    assert len(call(box, "query", "SELECT * FROM v")["rows"]) == 3
    other.execute("drop view v; create view v as select s as x from secret")
    assert code(box, "query", "SELECT * FROM v") == "sql_denied"
    other.execute(
        "drop table t; create table filler(a); create table t(x); insert into t values (9)"
    )
    assert call(box, "query", "SELECT x FROM t")["rows"] == [{"x": 9}]
    other.execute("alter table t rename to was_t; alter table secret rename to t")
    assert code(box, "query", "SELECT * FROM was_t") == "sql_denied"
    other.close()


def test_a_schema_that_changes_between_judging_and_the_first_step_is_judged_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = apsw.Connection(str(path))
    other.execute("create view v as select x from t")
    statements = Statements(open_file({"path": str(path), "max_sql_bytes": 1_000}, seconds=5))
    decide = Judge.decide

    def decide_too_early(self: Judge, *args: Any) -> None:
        decide(self, *args)
        monkeypatch.undo()
        other.execute("drop view v; create view v as select s as x from secret")

    monkeypatch.setattr(Judge, "decide", decide_too_early)
    with pytest.raises(Refused) as caught:
        statements.query(
            "SELECT x FROM v", None, frozenset({"t"}), seconds=5, max_rows=9, max_result_bytes=999
        )
    assert caught.value.code == "sql_denied"
    other.close()


def test_a_table_whose_name_is_no_text_is_in_nobodys_way(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute(
        "pragma writable_schema = on; update sqlite_schema set name = cast(x'ff' as text),"
        " tbl_name = cast(x'ff' as text), sql = cast(x'637265617465207461626c6520ff2873290a' as text)"
        " where name = 'secret'"
    )
    other.close()
    box = opened(path)
    assert number(box) == 2
    assert call(box, "execute", "INSERT INTO t(x) VALUES (3)")["rows_affected"] == 1
    box.close()


def test_a_write_is_durable_and_whole(box: Tables, path: Path) -> None:
    call(box, "execute", "INSERT INTO t(x) VALUES (3), (4)")
    process_of(box).kill()
    other = apsw.Connection(str(path))
    assert other.execute("select count(*) from t").fetchall() == [(4,)]
    assert other.execute("pragma integrity_check").fetchall() == [("ok",)]
    other.close()


def test_bounds_are_named_and_exact(path: Path) -> None:
    answer = '{"columns":["x"],"rows":[{"x":1},{"x":2}]}'
    fitting: dict[str, int] = {"max_rows": 2, "max_result_bytes": len(answer), "max_sql_bytes": 15}
    for limit, bound in fitting.items():
        box = opened(path, **fitting)
        assert len(call(box, "query", "SELECT x FROM t")["rows"]) == 2
        box.close()
        tight = opened(path, **{**fitting, limit: bound - 1})
        error = refusal(tight, "query", "SELECT x FROM t")
        assert isinstance(error, LimitExceeded)
        assert limit in str(error)
        assert error.details["limit"] == bound - 1
        tight.close()


def test_a_statement_that_does_not_fit_into_the_memory_names_that_bound(path: Path) -> None:
    box = opened(path, max_memory_bytes=4 * 2**20)
    for size in (800_000, 3_000_000, 15_000_000):
        error = refusal(box, "query", "SELECT replace(?, 'x', 'yyyyyyyy')", ["x" * size])
        assert isinstance(error, LimitExceeded), size
        assert "max_memory_bytes" in str(error)
        assert number(box) == 2
    box.close()


def test_the_words_of_an_error_are_bounded_too(path: Path) -> None:
    box = opened(path, max_result_bytes=50)
    number(box)
    first = process_of(box)
    for sql in ("SELECT " + "y" * 90_000, "SELECT * FROM " + "y" * 90_000):
        error = refusal(box, "query", sql)
        assert error.code == "sql_failed"
        assert len(str(error)) < 2_000
    assert process_of(box) is first
    box.close()


def test_a_thread_that_tells_of_an_error_waits_for_no_other(path: Path) -> None:
    """Its worker is replaced in its own turn: afterwards others might hold the turn for long."""
    box = opened(path, timeout_seconds=30)
    number(box)
    first, lock, turns = process_of(box), box._turn, []

    class OneTurn:
        def acquire(self, timeout: float) -> bool:
            turns.append(timeout)
            return lock.acquire(timeout=timeout)

        def release(self) -> None:
            lock.release()

    box._turn = OneTurn()  # type: ignore[assignment]
    error = refusal(box, "query", "SELECT hex(zeroblob(200000000))")
    box._turn = lock
    assert isinstance(error, LimitExceeded)
    assert len(turns) == 1
    assert first.returncode is not None
    assert number(box) == 2
    box.close()


def test_a_bound_of_no_rows_lets_none_through(path: Path) -> None:
    box = opened(path, max_rows=0)
    assert call(box, "query", "SELECT 1 WHERE 0") == {"columns": ["1"], "rows": []}
    error = refusal(box, "query", "SELECT 1")
    assert isinstance(error, LimitExceeded)
    assert str(error).endswith("ask for fewer rows, or raise max_rows")
    box.close()


def test_repeated_columns_are_numbered(box: Tables) -> None:
    answer = call(box, "query", "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a, 5 AS A")
    assert answer["columns"] == ["a", "a_2", "a_2_2", "a_3", "A"]
    assert answer["rows"] == [{"a": 1, "a_2": 2, "a_2_2": 3, "a_3": 4, "A": 5}]


def test_parameters_must_fit(box: Tables) -> None:
    for sql, params in (
        ("SELECT ?", None), ("SELECT ?", []), ("SELECT ?", [1, 2]), ("SELECT 1", [1]), ("SELECT ?", {"a": 1}),
        ("SELECT :a", {}), ("SELECT :a", {"b": 1}), ("SELECT :a", {"a": 1, "b": 2}), ("SELECT :a", {":a": 1}),
        ("SELECT ?", [[1]]), ("SELECT ?", [{"a": 1}]), ("SELECT ?", [{"$bytes": "?"}]), ("SELECT ?", 1),
        ("SELECT ?", [{"$float": "nan"}]), ("SELECT ?", [{"$bytes": "", "x": 1}]), ("SELECT ?", [2**63]),
        ("SELECT ?", "x"), ("SELECT ?", [{"$bytes": 1}]),
    ):  # fmt: skip
        assert code(box, "query", sql, params) == "bad_arguments", (sql, params)
    for sql, params, why in (
        ("SELECT ?", None, "the statement has parameters, and params gives no values"),
        ("SELECT ?", [1, 2], "params does not give one value for each parameter"),
        ("SELECT :a, :b", {"b": 1}, "params does not give one value for each parameter"),
    ):  # fmt: skip
        assert why in str(refusal(box, "query", sql, params))
    assert code(box, "query", "SELECT '\ud800'") == "not_text"


def test_options_are_checked_when_the_adapter_is_made(path: Path, tmp_path: Path) -> None:
    good: dict[str, Any] = {"path": str(path), "allow_tables": ["t"]}
    ill_typed: dict[str, list[Any]] = {
        "path": ["", 5, str(tmp_path), "a\0b"],
        "allow_tables": ["t", [1], [""], {}, None],
        "create": [1, "yes"],
        "allow_write": [1, "yes"],
        "max_rows": [-1, 1.5, True],
        "max_result_bytes": [-1, "1"],
        "max_sql_bytes": [-1, "1"],
        "timeout_seconds": [-1, "1", True],
        "max_memory_bytes": [0, -1, 1.5],
        "other": [1],
    }
    for name, values in ill_typed.items():
        for value in values:
            with pytest.raises(InvalidInput):
                open_sqlite({**good, name: value})
    for missing in (str(tmp_path / "none.db"), str(tmp_path / "none" / "m.db"), str(path / "m.db")):
        with pytest.raises(NotFound):
            open_sqlite({**good, "path": missing})
    with pytest.raises(NotFound):
        open_sqlite({**good, "path": str(tmp_path / "none" / "m.db"), "create": True})


def test_the_stores_own_file_is_refused_by_any_name(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "hard.db").hardlink_to(path)
    for name in ("m.db", "link.db", "hard.db"):
        with pytest.raises(InvalidInput):
            open_sqlite({"path": str(tmp_path / name), "allow_tables": ["*"]}, store_path=path)


def test_no_stores_file_is_for_statements(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    options = {"path": str(path), "allow_tables": ["*"]}
    with rote.open(path) as store:
        space = store.space("agent")
        space.set("urn:x", "secret")
        with pytest.raises(InvalidInput):
            rote.Host("compute-and-store", store=store, sqlite=options)
        with pytest.raises(InvalidInput):
            rote.Host("compute-and-store", space=space, sqlite=options)
        with pytest.raises(InvalidInput):
            rote.Host("compute-and-store", sqlite=options)
        # A host that sees no keys beside the file learns it from the file.
        link = tmp_path / "link.db"
        link.symlink_to(path)
        with rote.Host("compute-and-store", sqlite={**options, "path": str(link)}) as host:
            for _ in range(2):
                with pytest.raises(Denied) as caught:
                    host.sqlite.query("SELECT count(*) AS n FROM facts")
                assert caught.value.code == "sql_denied"
        assert space.get("urn:x") == "secret"
    assert STORE_ID == APPLICATION_ID


def test_a_host_has_it_by_its_options(path: Path) -> None:
    options = {"path": str(path), "allow_tables": ["t", "secret"], "allow_write": True}
    with rote.Host("compute-and-store", sqlite=options) as host:
        assert host.call("sqlite", "Query", ["SELECT s FROM secret"])["rows"] == [{"s": "hidden"}]
        assert host.sqlite.execute("INSERT INTO t(x) VALUES (:x)", {"x": 3})["rows_affected"] == 1
        with host.scope(grant={"sqlite": {"allow_tables": ["T"], "allow_write": False}}) as flow:
            assert len(flow.sqlite.query("SELECT x FROM t")["rows"]) == 3
            for verb, sql, code in (
                ("query", "SELECT s FROM secret", "sql_denied"),
                ("execute", "DELETE FROM t", "verb_denied"),
            ):
                with pytest.raises(Denied) as caught:
                    flow.call("sqlite", verb, [sql])
                assert caught.value.code == code
    with rote.Host("compute-and-store", sqlite={**options, "allow_write": False}) as host:
        with pytest.raises(Denied) as caught:
            host.sqlite.execute("DELETE FROM t")
        assert caught.value.code == "verb_denied"


def test_a_database_is_made_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    box = opened(path, create=True)
    call(box, "execute", "CREATE TABLE t(x)")
    call(box, "execute", "INSERT INTO t VALUES (1)")
    box.close()
    again = opened(path, create=True)
    assert number(again) == 1
    again.close()


def test_a_file_that_is_no_database_is_corrupt_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(b"not a database at all" * 100)
    box = opened(path)
    for _ in range(2):
        assert isinstance(refusal(box, "query", "SELECT * FROM t"), Corrupt)
    box.close()
    assert path.read_bytes() == b"not a database at all" * 100


def test_a_damaged_database_is_corrupt(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    box = opened(path)
    assert isinstance(refusal(box, "query", "SELECT * FROM t"), Corrupt)
    box.close()


def test_a_path_is_never_read_as_a_uri(tmp_path: Path) -> None:
    (tmp_path / "file:m.db?mode=memory").write_bytes(b"")
    box = opened(tmp_path / "file:m.db?mode=memory")
    call(box, "execute", "CREATE TABLE t(x)")
    box.close()
    assert (tmp_path / "file:m.db?mode=memory").stat().st_size > 0
