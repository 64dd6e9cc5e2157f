"""Sittings: openings of a session, the newest of which decides its commits.

                      session row                 verdict row
    accepted          second body of the guard    made by a guard, in the commit's transaction
    rejected          moves afterwards            written first; without the move it counts as nothing
    replayed key      moves afterwards            written first

A verdict row above `decided` was left by a crash, or by a holder before. The next decision moves it on
from its fence, and only after it has seen that the session is still its own: so of two holders one
decides, and neither ever overwrites what the other has decided.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import structs

from rote.contract import (
    Commit,
    Guard,
    Port,
    PortLayer,
    SideRow,
)
from rote.contract.commands import (
    Command,
    DropSide,
    DropSides,
    GetHead,
    GetSide,
    GetTimes,
    ListSides,
    MakeCommit,
    PutSide,
)
from rote.contract.sync import Transact
from rote.contract.verdicts import Verdict
from rote.errors import (
    Busy,
    Compacted,
    Denied,
    InvalidInput,
    PayloadMismatch,
    RoteError,
    SessionExpired,
    SessionRevoked,
    Withdrawn,
)
from rote.sessions.admission import admitted_reads
from rote.sessions.rows import (
    SESSION,
    VERDICT,
    SessionBody,
    VerdictBody,
    local_of,
    payload_digest,
    session_in,
    verdict_in,
    verdict_key,
)
from rote.sessions.verdicts import is_final, stored_error
from rote.values import check_key, format_time, sha256_hex
from rote.values.limits import PAGE_MAX
from rote.values.session_limits import (
    SESSION_ATTEMPTS_MAX,
    SESSION_WINDOW_MAX,
)

R = TypeVar("R")


class GuardingPort(PortLayer):
    """A port that makes each commit depend on guards, which those above it do not see."""

    guards: Sequence[Guard] = ()

    def answer(self, space: str, command: Command[R], /) -> R:
        asked: Command[Any] = command
        if isinstance(command, MakeCommit):
            asked = structs.replace(command, guards=self.guards)
        answer: R = self._port.answer(space, asked)
        return answer


class Sitting:
    """One opening of a session. Its methods may be called by any thread; they take turns."""

    def __init__(
        self,
        port: GuardingPort,
        space: str,
        row: SideRow,
        token: str,
        *,
        commits: Port,
        is_resumed: bool,
    ) -> None:
        self._port = port
        self._commits = commits
        self.space = space
        self._row = session_in(row)
        self._fence = row.fence
        self._token = sha256_hex(token.encode())
        self._is_confirmed = False
        self._is_unsure = False  # rows may have moved by a command whose outcome is not known
        self._turn = threading.Lock()
        self.session = row.key
        self.token = token
        self.is_resumed = is_resumed
        self._window: dict[int, VerdictBody] = {}
        self._fences: dict[int, int] = {}  # of the rows of verdicts
        if is_resumed:
            self._load()
        # The last local whose verdict the client was told here; those before are told with the opening.
        self.told = self._row.decided

    @property
    def opens(self) -> int:
        """The number of this opening; the highest has the session."""
        return self._row.opens

    @property
    def decided(self) -> int:
        """The last local that has a verdict."""
        return self._row.decided

    @property
    def acknowledged(self) -> int:
        return self._row.acknowledged

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts that the client has not acknowledged, in the order of locals."""
        with self._turn:
            locals = range(self._row.acknowledged + 1, self._row.decided + 1)
            return [self._kept(local) for local in locals]

    def confirm(self) -> None:
        """Make the token of this opening the only good one; called by the first message after it."""
        with self._turn:
            self._look_again()
            self._confirm()

    def transact(self, sent: Transact) -> Verdict:
        """Return the verdict on a commit: decide it now, if it is the next one.

        An error that is raised decided nothing; the client sends the commit again.
        """
        with self._turn:
            self._look_again()
            if (known := self._known(sent.local)) is not None:
                self._confirm()
                self._check_same(known, sent)
                return self._verdict(sent.local)
            with self._moving():
                return self._decide(sent)

    def abandon(self, local: int) -> Verdict:
        """Reject a commit that is not decided; return the verdict of one that is."""
        with self._turn:
            self._look_again()
            if self._known(local) is not None:
                self._confirm()
                return self._verdict(local)
            with self._moving():
                taken_back = Withdrawn("it was taken back before it was decided")
                return self._reject(local, None, taken_back)

    def acknowledge(self, *, verdicts: int | None = None, basis: int | None = None) -> None:
        """Note what the client keeps: all verdicts up to one, and that no later commit has a basis below
        one. Rows that nobody can ask for any more go. Acknowledgements never go back."""
        for number in (verdicts, basis):
            if number is not None and (type(number) is not int or number < 0):
                raise InvalidInput("what is acknowledged is a number from 0 on")
        with self._turn:
            self._look_again()
            row = self._row
            if verdicts is not None and verdicts > row.decided:
                raise InvalidInput(f"commit {verdicts} has no verdict yet", code="out_of_order")
            moved = structs.replace(
                row,
                acknowledged=max(row.acknowledged, verdicts or 0),
                basis=max(row.basis, basis or 0),
            )
            if moved != row or not self._is_confirmed:
                with self._moving():
                    self._move(moved)
                    self._let_go()

    def close(self) -> None:
        """End the session: nothing of it is left."""
        with self._turn:
            try:
                self._port.answer(self.space, DropSide(SESSION, self.session, self._fence))
            except Denied as error:
                self._check_ours(error)
                self._port.answer(self.space, DropSide(SESSION, self.session, self._fence))
            self._drop(list(self._fences))  # also those that a crash has left

    def is_told(self) -> bool:
        """Whether the verdicts of all that is decided now were told.

        SessionRevoked when another opening has the session, SessionExpired when it is gone: what its
        commits have changed is not for this client to see without their verdicts.
        """
        row = self._port.answer(self.space, GetSide(SESSION, self.session))
        if row is None:
            raise SessionExpired("this session was closed; open another one")
        body = session_in(row)
        self._check_opens(body)
        return body.decided <= self.told

    # -- what is known -----------------------------------------------------------------------------

    def _known(self, local: int) -> VerdictBody | None:
        """Return the verdict of a local that was decided; None for the next one."""
        if type(local) is not int or local < 1:
            raise InvalidInput("a local is an integer from 1 on")
        if local <= self._row.acknowledged:
            raise InvalidInput(
                f"the verdict of commit {local} was acknowledged and is not kept",
                code="verdict_gone",
            )
        # What was decided without an answer has to be asked for first: verdicts come in their order.
        expected = min(self._row.decided, self.told) + 1
        if local > expected:
            raise InvalidInput(
                f"commit {local} came out of order; the next is {expected}",
                code="out_of_order",
                expected=expected,
            )
        if local <= self._row.decided:
            return self._window[local]
        if len(self._window) >= SESSION_WINDOW_MAX:
            raise Busy("the window of this session is full; acknowledge verdicts")
        return None

    def _check_same(self, known: VerdictBody, sent: Transact) -> None:
        # An erasure may have removed the digest; then nobody can tell.
        if known.payload is not None and known.payload != self._digest(sent):
            raise PayloadMismatch(
                str(sent.local),
                version=known.version,
                kind="local",
                message=f"commit {sent.local} of this session was another one; repeat exactly that",
            )

    def _digest(self, sent: Transact) -> str | None:
        try:
            return payload_digest(self._row.secret, sent)
        except InvalidInput:
            return None  # no JSON; it is rejected

    def _verdict(self, local: int, commit: Commit | None = None) -> Verdict:
        """Return what the client is told."""
        verdict = self._kept(local, commit)
        self.told = max(self.told, local)
        return verdict

    def _kept(self, local: int, commit: Commit | None = None) -> Verdict:
        kept = self._window[local]
        if not kept.is_accepted:
            return Verdict(local, False, kept.version, error=dict(kept.error or {}))
        if commit is None:
            try:
                head = self._port.answer(self.space, GetHead(kept.version))
            except Compacted:
                return Verdict(local, True, kept.version)  # it stands, and its hash is gone
            return Verdict(local, True, kept.version, head.hash, _shown(head.at))
        return Verdict(local, True, kept.version, commit.hash, commit.at, commit=commit)

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(self, sent: Transact) -> Verdict:
        payload = self._digest(sent)
        for _ in range(SESSION_ATTEMPTS_MAX):
            moved = self._after(sent.local)
            try:
                commit = self._commit(sent, payload, moved)
            except Denied as error:
                if error.details.get("kind") not in (SESSION, VERDICT):
                    return self._reject(sent.local, payload, error)
                self._check_ours(error)
            except RoteError as error:
                if not is_final(error):
                    raise
                return self._reject(sent.local, payload, error)
            else:
                return self._accepted(sent, payload, commit, moved)
            if (known := self._known(sent.local)) is not None:
                self._check_same(known, sent)
                return self._verdict(sent.local)  # it was decided, and the answer got lost
        raise Busy("the rows of this session keep moving; send the commit again")

    def _commit(self, sent: Transact, payload: str | None, moved: SessionBody) -> Commit:
        if sent.key is not None:
            check_key(sent.key)
        if type(sent.basis) is not int or sent.basis < 0:
            raise InvalidInput("basis is a version, an integer from 0 on")
        reads = admitted_reads(sent.reads, self._window, local=sent.local, basis=sent.basis)
        newest = self._port.answer(self.space, GetHead()).version
        if sent.basis > newest:
            raise InvalidInput(f"the basis is version {sent.basis}, the newest is {newest}")
        self._port.guards = (
            Guard(SESSION, self.session, self._fence, moved.body()),
            Guard(
                VERDICT,
                verdict_key(self.session, sent.local),
                self._fences.get(sent.local, 0),
                {"payload": payload, "error": None},
                stamped=True,
            ),
        )
        command = MakeCommit(
            sent.operations,
            sent.branch,
            reads,
            key=sent.key,
            meta=sent.meta,
            unerased_since=sent.basis,
        )
        return self._commits.answer(self.space, command)

    def _accepted(
        self, sent: Transact, payload: str | None, commit: Commit, moved: SessionBody
    ) -> Verdict:
        made = VerdictBody(commit.version, payload)
        if sent.key is not None and self._stored_row()[0].decided < sent.local:
            # The key was used before: nothing was committed, and no guard has moved.
            head = self._port.answer(self.space, GetHead()).version
            self._put_verdict(sent.local, structs.replace(made, head=head))
            self._move(self._after(sent.local))
            return self._verdict(sent.local, commit)
        self._row, self._fence, self._is_confirmed = moved, self._fence + 1, True
        self._fences[sent.local] = self._fences.get(sent.local, 0) + 1
        self._window[sent.local] = made
        return self._verdict(sent.local, commit)

    def _reject(self, local: int, payload: str | None, error: RoteError) -> Verdict:
        head = self._port.answer(self.space, GetHead())
        self._put_verdict(local, VerdictBody(head.version, payload, stored_error(error)))
        self._move(self._after(local))
        return self._verdict(local)

    def _put_verdict(self, local: int, verdict: VerdictBody) -> None:
        key = verdict_key(self.session, local)
        for _ in range(SESSION_ATTEMPTS_MAX):
            command = PutSide(VERDICT, key, verdict.body(), self._fences.get(local, 0))
            try:
                row = self._port.answer(self.space, command)
            except Denied as error:
                self._check_ours(error)
                if local <= self._row.decided:
                    break  # its verdict stays as it is
                continue
            self._fences[local], self._window[local] = row.fence, verdict
            return
        raise Busy("the rows of this session keep moving; send the commit again")

    def _after(self, local: int) -> SessionBody:
        """Return the row after a local is decided; its token becomes the only good one."""
        now = now_of(self._port)
        return structs.replace(self._row, decided=local, tokens=(self._token,), touched=now)

    # -- its rows ----------------------------------------------------------------------------------

    def _confirm(self) -> None:
        if not self._is_confirmed:
            with self._moving():
                self._move(self._row)

    def _move(self, row: SessionBody) -> None:
        """Write the session's row; the token of this opening becomes the only good one."""
        moved = structs.replace(row, tokens=(self._token,), touched=now_of(self._port))
        try:
            command = PutSide(SESSION, self.session, moved.body(), self._fence)
            self._fence = self._port.answer(self.space, command).fence
        except RoteError as error:
            self._forget_undecided()
            if not isinstance(error, Denied):
                raise
            self._check_ours(error)
            raise Busy("the row of this session has moved; send it again") from None
        self._row, self._is_confirmed = moved, True

    def _forget_undecided(self) -> None:
        for local in [each for each in self._window if each > self._row.decided]:
            del self._window[local]

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Move rows. After an error nobody knows which of them have moved."""
        self._is_unsure = True
        yield
        self._is_unsure = False

    def _look_again(self) -> None:
        """Read the rows again if an error has left it open which of them have moved.

        Without that a verdict that was decided could be decided anew, by what was only asked again.
        """
        if self._is_unsure:
            self._read_rows()
            self._is_unsure = False

    def _check_ours(self, error: Denied) -> None:
        """Read the rows again after one has moved; SessionRevoked when another opening has the session."""
        if "actual_fence" not in error.details:
            raise error
        self._read_rows()

    def _read_rows(self) -> None:
        # The rows of verdicts first: if the session is ours afterwards, nobody else has moved them.
        window, fences = self._stored_window()
        self._row, self._fence = self._stored_row()
        self._window, self._fences = window, fences
        self._forget_undecided()

    def _stored_row(self) -> tuple[SessionBody, int]:
        """Return the row of the session as it is now, and its fence; SessionRevoked when it is not ours
        any more."""
        row = self._port.answer(self.space, GetSide(SESSION, self.session))
        if row is None:
            raise SessionRevoked("this session was closed; nothing was decided")
        body = session_in(row)
        self._check_opens(body)
        return body, row.fence

    def _check_opens(self, body: SessionBody) -> None:
        if body.opens != self._row.opens:
            raise SessionRevoked("this session was taken over; nothing was decided")

    def _load(self) -> None:
        self._window, self._fences = self._stored_window()
        self._forget_undecided()
        self._let_go()

    def _stored_window(self) -> tuple[dict[int, VerdictBody], dict[int, int]]:
        window: dict[int, VerdictBody] = {}
        fences: dict[int, int] = {}
        after, beyond = f"{self.session}:", f"{self.session};"
        while True:
            page = self._port.answer(self.space, ListSides(VERDICT, after, PAGE_MAX))
            for row in page.rows:
                if row.key >= beyond:
                    return window, fences
                window[local_of(row.key)] = verdict_in(row)
                fences[local_of(row.key)] = row.fence
            if page.next is None:
                return window, fences
            after = page.next

    def _let_go(self) -> None:
        """Drop the verdicts that are acknowledged and that no later commit can name as a layer.

        Who has acknowledged that a commit was rejected sends nothing more that has seen it. So any number
        may be rejected at one version.
        """
        basis = self._row.basis
        self._drop(
            [
                local
                for local, verdict in self._window.items()
                if local <= self._row.acknowledged and not verdict.can_be_named(basis)
            ]
        )

    def _drop(self, locals: list[int]) -> None:
        rows = [(verdict_key(self.session, each), self._fences[each]) for each in locals]
        for start in range(0, len(rows), PAGE_MAX):
            self._port.answer(self.space, DropSides(VERDICT, rows[start : start + PAGE_MAX]))
        for local in locals:
            self._window.pop(local, None)
            del self._fences[local]


def now_of(port: Port) -> int:
    return port.answer("", GetTimes(shared=False)).now


def _shown(micros: int | None) -> str | None:
    return None if micros is None else format_time(micros)
