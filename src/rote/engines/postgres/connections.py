"""Connections to a PostgreSQL server, and the statements that are run on them.

Nothing is set on the session and no statement is prepared by name, so a pooler that gives every
transaction another server connection does no harm. Each transaction makes the settings that it
needs.
"""

import re
import time
from collections.abc import Iterator, Sequence
from select import POLLIN, poll
from typing import Any, TypeVar

import psycopg
from psycopg import RawCursor, conninfo
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import Conninfo, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from rote.engines.postgres.failures import translate, translate_connecting
from rote.engines.postgres.parameters import written
from rote.errors import InvalidInput, RoteError, Unavailable
from rote.values.limits import POSTGRES_ANSWER_SECONDS_MAX, POSTGRES_CONNECT_SECONDS_MAX

SERVER_VERSION_MIN = 150_000

_Answer = TypeVar("_Answer")

# A peer that went away without a word is noticed after about half a minute, not after hours.
_KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}

_URL_ADVICE = (
    "the PostgreSQL URL cannot be read; it looks like postgresql://user:password@host:5432/database,"
    " with / @ : % ? # and spaces in user and password written as %2F %40 %3A %25 %3F %23 %20"
)
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_ports = re.compile(r"[0-9]*(,[0-9]*)*").fullmatch


class Target:
    """A server and a database. Messages show only `place`, which holds no user and no password."""

    sessions: "type[Session]"  # the kind of session that is made

    def __init__(self, url: str, *, writes: bool = True) -> None:
        try:
            parameters = conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            raise InvalidInput(_unreadable(url, str(error))) from None
        # Options in the URL itself override these.
        self._parameters: dict[str, Any] = {
            "connect_timeout": POSTGRES_CONNECT_SECONDS_MAX,
            "application_name": "rote",
            **_KEEPALIVES,
            **(_one_that_writes(parameters) if writes else {}),
            **parameters,
            # Rote encodes statements and arrays as UTF-8 itself; the driver does not.
            "client_encoding": "utf8",
        }
        hosts = str(parameters.get("host") or "localhost")
        port = str(parameters.get("port") or "")
        database = str(parameters.get("dbname") or parameters.get("user") or "")
        if "@" in hosts + database or not _ports(port):
            # A part of the password was parsed as another part of the URL, and a message would show it.
            raise InvalidInput(_URL_ADVICE)
        self.place = f"postgresql://{hosts}{f':{port}' if port else ''}/{database}"

    def __repr__(self) -> str:
        return f"Target({self.place!r})"

    def connect(self) -> "Session":
        try:
            session = self.sessions.connect(
                autocommit=True,
                prepare_threshold=None,
                cursor_factory=RawCursor,
                **self._parameters,
            )
        except psycopg.Error as error:
            # The driver's own message names the user.
            raise translate_connecting(error, place=self.place) from None
        try:
            session.begin_life(self.place)
        except BaseException:
            session.close()
            raise
        return session


def _one_that_writes(parameters: dict[str, Any]) -> dict[str, str]:
    """Return the option that picks the server that writes, when the URL names several servers.

    At most one of several servers writes. A session on another one would answer with old states for
    as long as it lives.
    """
    # The defaults that the driver takes from the PG… variables.
    defaults = {
        option.keyword.decode(): option.val.decode()
        for option in Conninfo.get_defaults()
        if option.val is not None
    }
    if "target_session_attrs" in parameters or defaults.get("target_session_attrs", "any") != "any":
        return {}
    known = {**defaults, **parameters}
    hosts = f"{known.get('host', '')} {known.get('hostaddr', '')}"
    return {"target_session_attrs": "read-write"} if "," in hosts else {}


def _unreadable(url: str, words: str) -> str:
    """Return a message about a URL that cannot be parsed.

    The driver's own message may quote the URL, and with it a password. So only the name of an
    option is taken from it, and only where no part of a password can be mistaken for one.
    """
    unknown = re.search(r'invalid URI query parameter: "(\w+)"', words)
    options = url.rpartition("@")[2].partition("?")[2]
    if unknown is not None and re.search(rf"(^|&){unknown[1]}=", options):
        return f"the PostgreSQL URL has an option that there is not: {unknown[1]}"
    return _URL_ADVICE


class Session(psycopg.Connection[tuple[Any, ...]]):
    """One connection, used by one thread at a time. Raises Rote's errors only."""

    place: str
    notices: "Notices"
    answer: str  # the command tag of the last statement, like COMMIT
    only_reads: bool  # the server has refused to write
    patience: float | None = None  # seconds to wait for an answer, where longer than usual

    def begin_life(self, place: str) -> None:
        self.place = place
        self.only_reads = False
        version = self.info.server_version
        if version < SERVER_VERSION_MIN:
            raise Unavailable(
                f"{place}: PostgreSQL {version // 10_000} is too old; use 15 or newer"
            )
        encoding = self.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise InvalidInput(
                f"{place}: the database is in {encoding}; make one that can hold every character:"
                " createdb --encoding=UTF8 --template=template0"
            )
        self.notices = Notices()
        self.add_notice_handler(self.notices.note)
        self._readable = poll()
        self._readable.register(self.fileno(), POLLIN)

    def wait(self, gen: PQGen[_Answer], *args: Any, **kwargs: Any) -> _Answer:
        """Wait for the server, but not for ever; every wait of the driver passes here."""
        return super().wait(_bounded(gen, self.patience), *args, **kwargs)

    @property
    def is_idle(self) -> bool:
        """Whether the session is ready for the next statement, with no transaction open."""
        return not self.closed and self.pgconn.transaction_status == TransactionStatus.IDLE

    @property
    def is_fresh(self) -> bool:
        """Whether the session is idle and the server has not ended it.

        An idle server sends nothing, so bytes that can be read now announce the end of the
        connection.
        """
        return self.is_idle and not self._readable.poll(0)

    def run(self, text: str, values: Sequence[Any] = ()) -> None:
        """Run one statement; without values also several, separated by semicolons."""
        self._run(text, values)

    def rows(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a statement, or of the last of several."""
        result = self._run(text, values)
        # The transformer is not kept: it refers to the session, and that cycle would keep a dropped
        # session from being freed at once.
        reading = Transformer(self)
        reading.set_pgresult(result)
        return reading.load_rows(0, result.ntuples, tuple)

    def _run(self, text: str, values: Sequence[Any]) -> PGresult:
        """Run a statement as a cursor of the driver would, without its adaptation of values of any
        type, which takes most of its time."""
        try:
            if values:
                # The extended protocol, which knows single statements only.
                parameters, types = written(values)
                binary = [Format.BINARY] * len(parameters)
                self.pgconn.send_query_params(
                    text.encode(), parameters, types, binary, Format.BINARY
                )
            else:
                self.pgconn.send_query(text.encode())
            results: list[PGresult] = self.wait(execute(self.pgconn))
            if not results:
                raise psycopg.OperationalError("the server gave no answer")
            for result in results:
                if result.status not in _DONE:
                    raise error_from_result(result)
        except psycopg.Error as error:
            raise self._translated(error) from error
        self.answer = (results[-1].command_status or b"").decode()
        return results[-1]

    def stream(self, text: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement one by one, however many there are."""
        try:
            with self.cursor(binary=True) as cursor:
                yield from cursor.stream(text.encode(), values)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: psycopg.Error) -> RoteError:
        if error.sqlstate == "25006":
            self.only_reads = True
        return translate(error, place=self.place)


Target.sessions = Session


class Notices:
    """Collects the notices that a server sends beside its answers.

    It holds no reference to its session: the handler would keep a dropped session alive.
    """

    def __init__(self) -> None:
        # Whether, since this was last set to False, the server answered a commit that may not be one.
        self.commit_in_doubt = False

    def note(self, notice: psycopg.errors.Diagnostic) -> None:
        """Note a warning that makes a commit doubtful.

        The words of a warning are in the server's language, so its source file and its SQLSTATE
        tell it apart. Two warnings count: that the wait for a standby was cut short, which only the
        file shows, and that there was no transaction to commit.
        """
        if notice.severity_nonlocalized == "WARNING" and (
            notice.source_file == "syncrep.c" or notice.sqlstate == "25P01"
        ):
            self.commit_in_doubt = True


def _bounded(gen: PQGen[_Answer], patience: float | None) -> PQGen[_Answer]:
    """Run the same exchange, but give up when the server says nothing for too long.

    The server may be stopped, or the network may drop everything without an error.
    """
    deadline = time.monotonic() + (patience or POSTGRES_ANSWER_SECONDS_MAX)
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg.OperationalError("the server does not answer")
            wanted = gen.send(ready)
    except StopIteration as done:
        answer: _Answer = done.value
        return answer
