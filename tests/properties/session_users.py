"""Random histories of users of sessions over links that break, judged from the outside.

Users write at once, read in transactions that stay open, apply functions, take back, go offline; others
write and erase. Each commit has two entities of its own, its marks. Judged are what users see meanwhile:

    a mark       shows from its call on until it is rejected, and does not come back; never one of two
    a view       is one state for a transaction; frames fold to the query

and at the end, by the log (session_oracle): each commit is there once or never, as its user was told, and
saw for all it read the state below its version.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rote.errors import Conflict, DependencyRejected, Unavailable
from rote.sessions.pending import Pending
from rote.sessions.session import Session
from rote.sessions.store_sessions import StoreSessions
from rote.sessions.transactions import SessionTransaction
from rote.space import Space
from rote.testing.frames import Folded
from tests.properties.breaking_links import BreakingLinker
from tests.properties.session_histories import Crash
from tests.properties.session_oracle import UNKNOWN, Logged

IDS = ("urn:a:1", "urn:a:2", "urn:b:1")
COUNTER = "urn:n"
EVERYTHING: Any = {"select": {"urn:*": {}}}
USERS = 2
ACTS = 60
OPEN = 3  # transactions of a user
REST_SECONDS = 20.0
ROUNDS_MAX = 500


@dataclass
class Made:
    """A commit of a user."""

    by: str
    pending: Pending
    read: dict[str, Any]  # values by id, None where there was none
    tried: set[str]  # ids that it has read, or tried to
    since: int  # a version that is not above that which it has seen
    is_made_again: bool = False
    is_gone: bool = False  # it was seen that it does not show any more

    @property
    def marks(self) -> tuple[str, str]:
        return f"urn:m:{self.by}:a", f"urn:m:{self.by}:b"


@dataclass
class Open:
    """A transaction that is open."""

    tx: SessionTransaction
    since: int
    tried: set[str] = field(default_factory=set)  # also what could not be read
    read: dict[str, Any] = field(default_factory=dict)


class User:
    """A session and all that was done with it."""

    def __init__(self, name: int, session: Session, *, holds_all: bool) -> None:
        """holds_all  it can go on with everything while it is offline"""
        self.name = name
        self.holds_all = holds_all
        self.session = session
        self.made: list[Made] = []
        self.open: list[Open] = []
        self.marked = 0
        self.is_paused = False
        self.frames = session.watch(EVERYTHING)
        self.folded = Folded()
        self.events: list[Any] = []
        self.shown: Any = None  # at rest
        self.facts: Any = None

    def next_by(self) -> str:
        self.marked += 1
        return f"{self.name}:{self.marked}"


class UserSchedule:
    """One random history."""

    def __init__(
        self,
        seed: int,
        counts: Counter[str],
        *,
        spaces: list[Space],
        sessions: StoreSessions,
        linker: BreakingLinker,
        crash: Crash,
        is_remote: bool = False,
    ) -> None:
        """spaces  of each user, as it is reached; the first is used by others, too"""
        self.is_remote = is_remote
        self.crash = crash
        self.random = Random(seed)
        self.counts = counts
        self.space = spaces[0]
        self.linker = linker
        self.erased: dict[int, str] = {}
        self.users = []
        for name in range(USERS):
            watch = self.random.choice([None, EVERYTHING, {"one": {"select": {IDS[0]: {}}}}])
            session = sessions.begin(
                spaces[name % len(spaces)], watch=watch, journal=None, timeout=REST_SECONDS
            )
            self.users.append(User(name, session, holds_all=watch is EVERYTHING))

    def run(self) -> None:
        acts: Sequence[Callable[[User], None]] = (
            [self._write] * 3 + [self._begin] * 4 + [self._use] * 5 + [self._end] * 6
            + [self._apply] * 2 + [self._look] * 6 + [self._frame] * 2 + [self._cut] * 2
            + [self._pause] * 4 + [self._resume] * 2 + [self._foreign] * 3
            + [self._cancel, self._erase, self._late] + [self._crash] * 2
        )  # fmt: skip
        try:
            for _ in range(ACTS):
                self._do(self.random.choice(acts), self.random.choice(self.users))
            self._come_to_rest()
            self._judge()
        finally:
            self.linker.calm_down()
            for user in self.users:
                user.session.close()
            self.linker.close()

    def _do(self, act: Callable[[User], None], user: User) -> None:
        try:
            act(user)
        except Unavailable:
            if user.holds_all or not self.is_remote:
                raise
            self.counts["not held"] += 1

    # -- acts --------------------------------------------------------------------------------------

    def _document(self, by: str) -> dict[str, Any]:
        return {"by": by, "list": [by, self.random.randint(0, 2)]}

    def _marks(self, by: str) -> list[dict[str, Any]]:
        return [{"op": "set", "id": f"urn:m:{by}:{each}", "value": by} for each in "ab"]

    def _operation(self, by: str) -> dict[str, Any]:
        id, document = self.random.choice(IDS), self._document(by)
        if self.random.random() < 0.5:
            return {"op": "set", "id": id, "value": document}
        ops = [{"op": "add", "path": "/list/-", "value": by}]
        return {"op": "patch", "id": id, "ops": ops, "else": document}

    def _write(self, user: User) -> None:
        by, since = user.next_by(), user.session.version
        operations = [self._operation(by), *self._marks(by)]
        pending = user.session.transact(operations)
        user.made.append(Made(by, pending, {}, set(), since))

    def _begin(self, user: User) -> None:
        if len(user.open) < OPEN:
            since = user.session.version
            tx = user.session.transaction()
            tx.__enter__()
            user.open.append(Open(tx, since))

    def _use(self, user: User) -> None:
        """Read in a transaction: what it has read before is as it was."""
        if user.open:
            self._read(self.random.choice(user.open))

    def _read(self, open: Open) -> None:
        id = self.random.choice(IDS)
        open.tried.add(id)
        value = open.tx.get(id)
        is_erased = value is None and id in self.erased.values()  # which takes the past, too
        before = open.read.setdefault(id, value)
        assert is_erased or before == value, f"a transaction has read {before}, then {value}"
        self.counts["reads again"] += 1

    def _end(self, user: User) -> None:
        if not user.open:
            return
        open = user.open.pop(self.random.randrange(len(user.open)))
        try:
            self._read(open)
        except Unavailable as error:
            open.tx.__exit__(Unavailable, error, None)
            raise
        by = user.next_by()
        open.tx.set(self.random.choice(IDS), self._document(by))
        for mark in self._marks(by):
            open.tx.set(mark["id"], mark["value"])
        try:
            open.tx.__exit__(None, None, None)
        except Conflict:
            self.counts["at once"] += 1
        else:
            assert open.tx.pending is not None
            user.made.append(Made(by, open.tx.pending, open.read, open.tried, open.since))

    def _apply(self, user: User) -> None:
        by, since = user.next_by(), user.session.version
        read: dict[str, Any] = {}

        def add(tx: Any) -> None:
            self.counts["made again"] += bool(read)
            read[COUNTER] = tx.get(COUNTER)
            tx.set(COUNTER, (read[COUNTER] or 0) + 1)
            for mark in self._marks(by):
                tx.set(mark["id"], mark["value"])

        pending = user.session.apply(add)
        assert pending is not None
        user.made.append(Made(by, pending, read, {COUNTER}, since, is_made_again=True))

    def _look(self, user: User) -> None:
        """Look whether marks are there that must be, and none that must not."""
        for made in user.made[-4:]:
            if made.is_made_again:
                continue  # its marks go and come with each attempt
            before = made.pending.status
            if user.session.get(made.marks[0]) is None:
                after = made.pending.status
                assert after == "rejected", f"an own write has vanished: {before}, {after}"
                made.is_gone = True
            else:
                assert not made.is_gone, "an own write has come back"
                assert before != "rejected", "a rejected write is still there"
        self._look_at_dependents(user)
        is_confirmed = self.random.random() < 0.5
        scan = user.session.confirmed.scan if is_confirmed else user.session.scan
        shown = [state.id for state in scan("urn:m:")]
        assert [id[:-1] for id in shown[::2]] == [id[:-1] for id in shown[1::2]], "half a commit"
        self.counts["looks"] += 1

    def _look_at_dependents(self, user: User) -> None:
        """Judge that what has seen a rejected commit left in the same instant."""
        made = {each.pending.local: each for each in user.made if not each.is_made_again}
        for pending in user.session.pending:
            for local in pending.depends:
                if local in made and made[local].pending.status == "rejected":
                    assert pending.status == "rejected", "it stays, and has seen what was rejected"

    def _frame(self, user: User) -> None:
        frame = user.frames.watching.next(0.0)
        if frame is not None:
            user.folded.take(frame)
            self.counts["frames"] += 1

    def _cut(self, _: User) -> None:
        self.linker.cut_one()

    def _crash(self, _: User) -> None:
        """Let a desk be killed at its next row."""
        self.crash.when = self.random.choice(["before", "after"])
        self.crash.kind = self.random.choice([None, "session", "verdict"])

    def _late(self, _: User) -> None:
        self.linker.bring_late()

    def _cancel(self, user: User) -> None:
        if user.made and not user.is_paused and user.made[-1].pending.cancel(REST_SECONDS):
            self.counts["taken back"] += 1

    def _pause(self, user: User) -> None:
        user.session.pause()
        user.is_paused = True

    def _resume(self, user: User) -> None:
        user.session.resume()
        user.is_paused = False

    def _foreign(self, _: User) -> None:
        self.space.transact([self._operation("foreign")])

    def _erase(self, _: User) -> None:
        id = self.random.choice(IDS)
        if self.random.random() < 0.3 and self.space.read(id).exists:
            self.erased[self.space.erase(id, reason="asked to").commit.version] = id

    # -- at rest -----------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        self.linker.calm_down()
        self.crash.when = None
        for user in self.users:
            user.session.resume()
            for open in user.open:
                open.tx.__exit__(KeyError, KeyError(), None)
        for user in self.users:
            user.session.flush(REST_SECONDS)
        for user in self.users:
            for _ in range(ROUNDS_MAX):
                if self._is_at_rest(user):
                    break
                user.events += user.session.events(timeout=0.02)
            else:
                raise AssertionError("it does not come to rest")

    def _is_at_rest(self, user: User) -> bool:
        """Take the last frames, when a user has the last step and is online."""
        if user.session.version < self.space.version or user.session.state != "online":
            return False
        try:
            while (frame := user.frames.watching.next(0.0)) is not None:
                user.folded.take(frame)
            user.shown = {state.id: state.value for state in user.session.scan()}
            user.facts = user.session.query(EVERYTHING)["facts"]
        except Unavailable:
            return False
        return True

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self) -> None:
        log = {commit.version: commit for commit in self.space.log()}
        logged = Logged(log, erased=self.erased, fork=0)
        for user in self.users:
            self._judge_user(user, logged)
        accepted = [made for user in self.users for made in user.made if self._version(made)]
        counted = sum(made.is_made_again for made in accepted)
        assert (self.space.get(COUNTER) or 0) == counted, "a function was applied twice, or never"

    def _version(self, made: Made) -> int | None:
        commit = made.pending.commit
        return None if commit is None else commit.version

    def _judge_user(self, user: User, logged: Logged) -> None:
        session = user.session
        assert session.pending == ()
        assert user.shown == {state.id: state.value for state in self.space.scan()}, "not the space"
        assert user.folded.facts == user.facts, "frames do not fold to the query"
        rejected = {each.pending.local for each in user.made if each.pending.status == "rejected"}
        versions = []
        for made in sorted(user.made, key=lambda each: each.pending.local):
            status = made.pending.status
            found = logged.versions_of(made.marks)
            if status == "integrated":
                version = made.pending.wait(0).version
                assert found == [version], "the log says something else than the verdict"
                versions.append(version)
                self._judge_reads(made, version, logged)
                assert not rejected & set(made.pending.depends), "it has seen what was rejected"
                self.counts["accepted"] += 1
            else:
                assert status == "rejected", "it is not decided"
                assert found == [], "it was rejected, and is in the log"
                self._judge_rejection(made, rejected, logged)
        assert versions == sorted(set(versions)), "versions do not rise"
        self._judge_events(user, rejected)

    def _judge_reads(self, made: Made, version: int, logged: Logged) -> None:
        """Judge that a commit saw, for all it read, the state below its version."""
        state = logged.state("main", version - 1)
        for id, value in made.read.items():
            found = state.get(id)
            assert found is UNKNOWN or found == value, f"it has seen another {id}"
            self.counts["reads"] += 1

    def _judge_rejection(self, made: Made, rejected: set[int], logged: Logged) -> None:
        error: Any = made.pending.error
        self.counts[f"rejected by {error.code}"] += 1
        if isinstance(error, DependencyRejected):
            assert error.local in made.pending.depends
            assert error.local in rejected or made.is_made_again, "its cause was not rejected"
        elif isinstance(error, Conflict):
            since = range(made.since + 1, len(logged.log) + 1)
            written = [id for version in since for id in logged.written("main", version)]
            assert self.erased or set(written) & made.tried, "nothing speaks against it"
        else:
            assert error.code == "withdrawn", error

    def _judge_events(self, user: User, rejected: set[int]) -> None:
        events = [*user.events, *user.session.events(timeout=0)]
        told = [(each["type"], each["local"]) for each in events]
        committed = [local for type, local in told if type == "committed"]
        assert committed == sorted(set(committed)), "verdicts out of order"
        integrated = [local for type, local in told if type == "integrated"]
        assert sorted(integrated) == committed, "committed, and not integrated"
        assert len(told) == len(set(told)) or any(local is None for _, local in told)
        reverted: dict[int, int] = {}  # places by local
        for place, event in enumerate(events):
            if event["type"] != "reverted":
                continue
            reverted[event["local"]] = place
            if event["error"]["code"] == "dependency_rejected":
                cause = reverted.get(event["error"]["details"]["local"])
                assert cause is not None, "a dependent before its cause"
                between = {each["type"] for each in events[cause:place]}
                assert between == {"reverted"}, "a dependent leaves after its cause, not with it"
        assert rejected <= reverted.keys(), "rejected, and nobody was told"
