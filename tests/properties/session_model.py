"""A small model of the session protocol, and a search through all that can happen in it.

    client ── up: open, transact, ack ──> server: one step of work at a time ──> rows of the session, log
           <── down: opened, verdict, step, revoked ──

All commits write one entity; each reads it before, or does not. A state is a value, an event leads from
one to the next, and the search looks at every order of events. What the desk and the client do here is
written after docs/formats/sync.md, and shares nothing with the product; what must hold is judged by the
log. Faults are counted: a line that is cut, which its server learns late or never, and a request that
arrives twice, an opening also long after.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

Message = tuple[Any, ...]


# For each client and each of its commits: whether it reads what it writes.
Lives = tuple[tuple[bool, ...], ...]


class Commit(NamedTuple):
    """A commit as a client sends it."""

    basis: int
    layers: tuple[int, ...] | None  # own commits that its read has seen; None: it reads nothing
    seen: tuple[int, ...] | None  # the same in truth, whatever the client says


class Verdict(NamedTuple):
    """The decision of the desk."""

    version: int  # of the commit; of a rejected one the head
    is_accepted: bool


class Line(NamedTuple):
    """A connection: what is on its way, and what its server holds."""

    opening: int = 0  # the number of the session's opening; 0: it is not open yet
    told: int = 0  # the last local whose verdict was sent
    to: int = 0  # of the last step
    is_full: bool = False  # a step is not acknowledged
    answer: Message | None = None  # it was decided, and is not sent yet
    up: tuple[Message, ...] = ()
    down: tuple[Message, ...] = ()
    is_held: bool = True  # by the client; otherwise nobody hears what the server says


class Session(NamedTuple):
    """A session: its client, its rows at the desk, and its lines."""

    # the client
    made: tuple[Commit, ...] = ()
    known: int = 0  # verdicts
    to: int = 0  # of the last step
    token: int = 1
    # the desk
    opens: int = 1
    tokens: tuple[int, ...] = (1,)
    acknowledged: int = 0
    verdicts: tuple[Verdict, ...] = ()
    # what has happened in truth
    used: int = 0  # the newest token that a message after its opening has confirmed
    kept: int = 0  # the last acknowledgement that has arrived

    lines: tuple[Line, ...] = (Line(opening=1),)


class State(NamedTuple):
    """All there is."""

    sessions: tuple[Session, ...]
    log: tuple[tuple[int, int], ...] = ()  # client and local by version - 1
    faults: int = 0  # that may still happen


class Violation(AssertionError):
    """Something has happened that must not."""


class Model:
    """The protocol. A planted bug is a subclass."""

    def __init__(self, lives: Lives, *, faults: int) -> None:
        self.lives = lives
        self.faults = faults

    def search(self) -> int:
        """Look at every state that can be reached; return their number."""
        first = State(tuple(Session() for _ in self.lives), faults=self.faults)
        found, waiting = {hash(first)}, deque([first])
        while waiting:
            state = waiting.popleft()
            ways = 0
            for after in self._after(state):
                ways += 1
                key = hash(after)
                if key not in found:
                    found.add(key)
                    waiting.append(after)
            if not ways:
                self._judge_end(state)
        return len(found)

    # -- events ------------------------------------------------------------------------------------

    def _after(self, state: State) -> Iterator[State]:
        if (urgent := self._urgent(state)) is not None:
            yield urgent
            return
        for index, session in enumerate(state.sessions):
            if len(session.made) < len(self.lives[index]):
                is_read = self.lives[index][len(session.made)]
                yield self._with(state, index, self._make(session, is_read=is_read))
            for place, line in enumerate(session.lines):
                yield from self._of_line(state, index, place, line)

    def _urgent(self, state: State) -> State | None:
        """Return the state after an answer is sent, where one waits for that.

        Whatever else happens before it, or is lost, is the same as if it happened just after it: the
        server does nothing else on its line.
        """
        for index, session in enumerate(state.sessions):
            for place, line in enumerate(session.lines):
                if line.answer is not None:
                    return self._with(state, index, _put(session, place, _answered(line)))
        return None

    def _of_line(self, state: State, index: int, place: int, line: Line) -> Iterator[State]:
        session = state.sessions[index]
        if line.down:
            yield self._with(state, index, self._receive(state, index, place))
        if line.answer is not None:
            yield self._with(state, index, _put(session, place, _answered(line)))
        elif line.up:
            yield self._handle(state, index, place)
        if line.opening and self._may_step(state, session, line):
            head = len(state.log)
            stepped = _says(line, ("step", head))._replace(to=head, is_full=line.is_held)
            if line.is_held:
                yield self._with(state, index, _put(session, place, stepped))
        if line.is_held and 0 < line.opening < session.opens:
            yield self._with(state, index, _put(session, place, _revoked(line)))
        if not line.is_held:
            yield self._with(state, index, _without(session, place))  # the server has learnt of it
        # Clients are alike, so the faults are those of the first.
        if state.faults and index == 0:
            yield from self._faults(state, place, line)

    def _faults(self, state: State, place: int, line: Line) -> Iterator[State]:
        session, less = state.sessions[0], state._replace(faults=state.faults - 1)
        if line.is_held:
            lost = _put(session, place, line._replace(is_held=False, down=()))
            yield self._with(less, 0, _opening(lost))
        if line.up and line.answer is None:
            first = line.up[0]
            if first[0] == "open":  # it comes once more, on a line that nobody holds
                late = (*session.lines, Line(up=(first,), is_held=False))
                yield self._with(less, 0, session._replace(lines=late))
            else:
                twice = line._replace(up=(first, *line.up))
                yield self._with(less, 0, _put(session, place, twice))

    def _with(self, state: State, index: int, session: Session) -> State:
        """Return the state with another session; lines that can do nothing any more are left out."""
        lines = session.lines
        if any(not each.is_held and not each.up and each.answer is None for each in lines):
            alive = [each for each in lines if each.is_held or each.up or each.answer is not None]
            session = session._replace(lines=tuple(alive))
        return _among(state, index, session)

    # -- the client --------------------------------------------------------------------------------

    def _make(self, session: Session, *, is_read: bool) -> Session:
        """Make the next commit on what the client sees: a version, and own commits above it."""
        local = len(session.made) + 1
        layers = tuple(each for each in range(1, local) if _is_layer(session, each))
        commit = Commit(session.to, None, None)
        if is_read:
            commit = Commit(session.to, self._named(layers), layers)
        session = session._replace(made=(*session.made, commit))
        lines = tuple(
            line._replace(up=(*line.up, ("transact", local)))
            if line.is_held and _is_open_at_client(line)
            else line
            for line in session.lines
        )
        return session._replace(lines=lines)

    def _receive(self, state: State, index: int, place: int) -> Session:
        session = state.sessions[index]
        line = session.lines[place]
        message = line.down[0]
        line = line._replace(down=line.down[1:])
        match message:
            case ("verdict", local, verdict):
                session = self._take(session, local, verdict)
            case ("step", to):
                session = self._take_step(session, to)
                line = line._replace(up=(*line.up, ("ack", session.known, to)))
            case ("opened", token, verdicts):
                for local, verdict in verdicts:
                    _check(local > session.kept, "an acknowledgement was lost")
                    session = self._take(session, local, verdict)
                again = [("transact", each + 1) for each in range(session.known, len(session.made))]
                line = line._replace(up=(*line.up, *again))
                session = session._replace(token=token)
            case ("revoked",):
                return _opening(_without(session, place))
        return _put(session, place, line)

    def _take(self, session: Session, local: int, verdict: Verdict) -> Session:
        _check(local <= session.known + 1, "a verdict is missing")
        _check(session.verdicts[local - 1] == verdict, "a verdict has changed")
        if local > session.known:
            is_late = verdict.is_accepted and verdict.version <= session.to
            _check(not is_late, "a step has shown a commit before its verdict")
        return session._replace(known=max(session.known, local))

    def _take_step(self, session: Session, to: int) -> Session:
        _check(to >= session.to, "a step leads back")
        for verdict in session.verdicts[session.known :]:
            is_shown = verdict.is_accepted and verdict.version <= to
            _check(not is_shown, "a step shows a commit before its verdict")
        return session._replace(to=to)

    def _named(self, layers: tuple[int, ...]) -> tuple[int, ...]:
        return layers

    # -- the server --------------------------------------------------------------------------------

    def _handle(self, state: State, index: int, place: int) -> State:
        session = state.sessions[index]
        line = session.lines[place]
        message = line.up[0]
        line = line._replace(up=line.up[1:])
        if message[0] == "open":
            return self._with(state, index, self._open(session, place, line, message[1]))
        if not self._is_ours(session, line):
            return self._with(state, index, _put(session, place, _revoked(line)))
        session = session._replace(
            tokens=(line.opening,), used=max(session.used, line.opening)
        )  # the first message makes its token the only good one
        if message[0] == "ack":
            session = self._acknowledge(session, message[1])
            session = session._replace(kept=max(session.kept, message[1]))
            is_taken = message[2] >= line.to
            line = line._replace(is_full=line.is_full and not is_taken)
            return self._with(state, index, _put(session, place, line))
        state = _among(state, index, _put(session, place, line))
        return self._transact(state, index, place, message[1])

    def _open(self, session: Session, place: int, line: Line, token: int) -> Session:
        if not self._is_good(session, token):
            return _put(session, place, line._replace(up=(), down=(), is_held=False))
        _check(token >= session.used, "a stale token has opened the session")
        opens = session.opens + 1
        tokens = (*(each for each in session.tokens if each >= token), opens)
        decided = len(session.verdicts)
        told = tuple(
            (local, session.verdicts[local - 1])
            for local in range(session.acknowledged + 1, decided + 1)
        )
        line = line._replace(opening=opens, told=decided)
        line = _says(line, ("opened", opens, told))
        return _put(session._replace(opens=opens, tokens=tokens), place, line)

    def _transact(self, state: State, index: int, place: int, local: int) -> State:
        session = state.sessions[index]
        line = session.lines[place]
        if self._is_known(session, local):
            if local <= session.acknowledged:
                return self._with(state, index, session)  # an error: the verdict is gone
            verdict = session.verdicts[local - 1]
        else:
            _check(session.opens == line.opening, "a holder before has decided")
            verdict = self._decide(state, index, local)
            if verdict.is_accepted:
                state = state._replace(log=(*state.log, (index, local)))
            _check(state.log.count((index, local)) <= 1, "a commit was applied twice")
            session = session._replace(verdicts=(*session.verdicts[: local - 1], verdict))
        answer = ("verdict", local, verdict)
        line = line._replace(answer=answer, told=max(line.told, local))
        return self._with(state, index, _put(session, place, line))

    def _decide(self, state: State, index: int, local: int) -> Verdict:
        session, head = state.sessions[index], len(state.log)
        commit = session.made[local - 1]
        named = self._layers(commit)
        is_accepted = True
        if named is not None:
            own = {(index, layer) for layer in named}
            is_accepted = all(session.verdicts[layer - 1].is_accepted for layer in named) and all(
                each in own for each in state.log[commit.basis :]
            )
        self._judge(state, index, commit, is_accepted=is_accepted)
        return Verdict(head + is_accepted, is_accepted)

    def _judge(self, state: State, index: int, commit: Commit, *, is_accepted: bool) -> None:
        """Judge a decision by the log, and by what the client has truly seen."""
        if commit.seen is None:
            _check(is_accepted, "nothing speaks against it")
            return
        verdicts = state.sessions[index].verdicts
        versions = [
            verdicts[layer - 1].version for layer in commit.seen if verdicts[layer - 1].is_accepted
        ]
        is_dead = len(versions) < len(commit.seen)
        since = range(commit.basis + 1, len(state.log) + 1)
        is_missed = any(version not in versions for version in since)
        _check(is_accepted != (is_dead or is_missed), "it is not decided as the log says")

    def _is_known(self, session: Session, local: int) -> bool:
        return local <= len(session.verdicts)

    def _is_ours(self, session: Session, line: Line) -> bool:
        return session.opens == line.opening

    def _is_good(self, session: Session, token: int) -> bool:
        return token in session.tokens

    def _layers(self, commit: Commit) -> tuple[int, ...] | None:
        return commit.layers

    def _acknowledge(self, session: Session, local: int) -> Session:
        return session._replace(acknowledged=max(session.acknowledged, local))

    def _may_step(self, state: State, session: Session, line: Line) -> bool:
        """Whether a step may be sent: all that is decided has its verdict before it."""
        return (
            self._is_due(state, line)
            and line.answer is None
            and self._is_ours(session, line)
            and line.told == len(session.verdicts)
        )

    def _is_due(self, state: State, line: Line) -> bool:
        return line.is_held and not line.is_full and line.to < len(state.log)

    # -- the end -----------------------------------------------------------------------------------

    def _judge_end(self, state: State) -> None:
        """At rest client and desk agree on every commit, and the log has each accepted one once."""
        for index, session in enumerate(state.sessions):
            _check(
                session.known == len(session.verdicts) == len(self.lives[index]),
                "it is stuck",
            )
            _check(session.to == len(state.log), "the last step has not come")
            versions = [each.version for each in session.verdicts if each.is_accepted]
            _check(versions == sorted(set(versions)), "versions do not rise")
            for local, verdict in enumerate(session.verdicts, 1):
                places = [at for at, each in enumerate(state.log, 1) if each == (index, local)]
                expected = [verdict.version] if verdict.is_accepted else []
                _check(places == expected, "the log says something else than its verdict")


def _check(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Violation(otherwise)


def _is_layer(session: Session, local: int) -> bool:
    """Whether the client sees an own commit on top of its version."""
    if local > session.known:
        return True
    verdict = session.verdicts[local - 1]
    return verdict.is_accepted and verdict.version > session.to


def _is_open_at_client(line: Line) -> bool:
    """Whether the client has the answer to the opening of a line, which sends what was made before."""
    is_on_its_way = any(message[0] == "opened" for message in line.down)
    return bool(line.opening) and not is_on_its_way


def _says(line: Line, message: Message) -> Line:
    return line._replace(down=(*line.down, message)) if line.is_held else line


def _answered(line: Line) -> Line:
    assert line.answer is not None
    return _says(line, line.answer)._replace(answer=None)


def _revoked(line: Line) -> Line:
    """Return a line on which its server says that it is over, and does nothing any more."""
    return _says(line, ("revoked",))._replace(up=(), opening=0, answer=None)


def _opening(session: Session) -> Session:
    """Let the client open its session on another line."""
    line = Line(to=session.to, up=(("open", session.token),))
    return session._replace(lines=(*session.lines, line))


def _among(state: State, index: int, session: Session) -> State:
    sessions = state.sessions
    return state._replace(sessions=(*sessions[:index], session, *sessions[index + 1 :]))


def _put(session: Session, place: int, line: Line) -> Session:
    lines = session.lines
    return session._replace(lines=(*lines[:place], line, *lines[place + 1 :]))


def _without(session: Session, place: int) -> Session:
    return session._replace(lines=session.lines[:place] + session.lines[place + 1 :])
