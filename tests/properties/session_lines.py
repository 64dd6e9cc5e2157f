"""Random schedules of sessions over lines that delay, double, drop and cut, and come back elsewhere.

    client ── requests, more than one at a time, some twice ──> link ──> desk
           <── verdicts and steps, as far as the line brings them ──

A line that was cut goes on at its other end: what it was sent is decided late, or never, and its answers
reach nobody. What was decided is judged by the log (session_histories); each message by the orders of
docs/formats/sync.md, and each step by the query at its version.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rote.contract.links import Decided, Done, Link, Linker, Message, Refused
from rote.contract.sync import (
    Abandon,
    Ack,
    AddWatches,
    Mark,
    OpenSession,
    RemoveWatches,
    Revoked,
    SetWatches,
    Sync,
    WatchRequest,
)
from rote.errors import Busy, SessionRevoked, Unavailable
from rote.opening.sources import SystemIds
from rote.sessions.links import LocalLinker
from rote.testing.frames import Folded
from rote.values import decode
from rote.values.sync_limits import SYNC_WINDOW
from tests.properties.session_histories import CLIENTS, IDS, History, Writer

WATCHES: dict[str, Any] = {"all": {"select": {"urn:*": {}}}, "one": {"select": {IDS[0]: {}}}}
QUERIES: list[Any] = [{"select": {"urn:a:*": {}}}, {"select": {"urn:*": {}}, "max_entities": 2}]
ACTS = 90
FORMER = 3  # lines from before that may still bring something
ROUNDS_MAX = 200  # until all is at rest
PIPELINE = 4  # commits that are sent without an answer


@dataclass
class LineClient(Writer):
    """A client on a line, which keeps what has reached it."""

    link: Link | None = None
    session: str | None = None
    tokens: list[str] = field(default_factory=list)  # of which any may be good
    stale: list[str] = field(default_factory=list)  # from before one that was used
    former_links: list[Link] = field(default_factory=list)
    next: int = 1  # the local that is sent next on this line
    to: int = 0  # of the last whole step
    mark: Mark | None = None
    queries: dict[str, Any] = field(default_factory=lambda: dict(WATCHES))  # that are answered
    folded: dict[str, Folded] = field(default_factory=dict)
    asked: dict[int, WatchRequest] = field(default_factory=dict)  # by id of the request
    unacked: list[int] = field(default_factory=list)
    acknowledged_to: int = -1  # on this line
    flying: set[int] = field(default_factory=set)  # requests on this line without an answer
    acks: dict[int, int] = field(
        default_factory=dict
    )  # verdicts acknowledged, by id of the request
    owes_ack: bool = False  # of steps: a request that acknowledged some was refused
    known_acknowledged: int = 0  # the highest whose answer has come
    shown: list[tuple[int, int]] = field(
        default_factory=list
    )  # of each step: to, verdicts known then


class LineSchedule(History):
    """One random history of several sessions on their lines."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        super().__init__(seed, counts)
        self.clients = [LineClient(name) for name in range(CLIENTS)]
        self.linkers = self._linkers()

    @property
    def writers(self) -> list[LineClient]:
        return self.clients

    def _linkers(self) -> list[Linker]:
        """Return the ways to the store: a client comes back by any of them."""
        return [LocalLinker(self.port, randomness=SystemIds()) for _ in range(2)]

    def run(self) -> None:
        acts: list[Callable[[LineClient], None]] = (
            [self._queue] * 5 + [self._send_some] * 8 + [self._take_some] * 10
            + [self._acknowledge_some] * 3 + [self._cut] * 2 + [self._late] * 2
            + [self._foreign, self._abandon_last, self._erase, self._late_opening, self._watch]
        )  # fmt: skip
        try:
            for _ in range(ACTS):
                self.random.choice(acts)(self.random.choice(self.clients))
            for client in self.clients:
                self._come_to_rest(client)
            self._judge()
            for client in self.clients:
                self._judge_steps(client)
            if self.seed % 10 == 0:
                self._judge_hashes()
        finally:
            self._end()

    def _end(self) -> None:
        for client in self.clients:
            for link in (client.link, *client.former_links):
                if link is not None:
                    link.close()
        self.store.close()

    # -- acts --------------------------------------------------------------------------------------

    def _queue(self, client: LineClient) -> None:
        self._write(client, client.to)

    def _foreign(self, _: LineClient) -> None:
        self._write_foreign()

    def _erase(self, _: LineClient) -> None:
        self._erase_one()

    def _send_some(self, client: LineClient) -> None:
        link = self._line_of(client)
        for _ in range(self.random.randint(1, PIPELINE)):
            if client.next > len(client.sent):
                return
            self._maybe_crash()
            request = client.sent[client.next - 1]
            try:
                client.flying.add(link.send(request))
                if self.random.random() < 0.1:
                    self.counts["doubles"] += 1
                    client.flying.add(link.send(request))
            except Busy:
                return
            except Unavailable:
                self._lose(client)
                return
            client.next += 1

    def _maybe_crash(self) -> None:
        if self.random.random() < 0.15:
            self.port.crash.when = self.random.choice(["before", "after"])
            self.port.crash.kind = self.random.choice([None, "session", "verdict"])

    def _take_some(self, client: LineClient) -> None:
        for _ in range(self.random.randint(1, 2 * PIPELINE)):
            if not self._take_one(client, self._patience(client)):
                return

    def _patience(self, _: LineClient) -> float:
        """Return for how many seconds a client waits for its next message: here all is done at once."""
        return 0.0

    def _take_one(self, client: LineClient, timeout: float) -> bool:
        """Take the next message of a client's line; return whether one came."""
        link = self._line_of(client)
        try:
            message = link.receive(timeout)
        except Unavailable as error:
            assert error.details["then"] in ("back", "later"), error
            self._lose(client)
            return False
        if message is not None:
            self._took(client, message)
        return message is not None

    def _took(self, client: LineClient, message: Message) -> None:
        if isinstance(message, Decided | Done):
            client.stale = [*client.stale, *client.tokens[:-1]][-FORMER:]
            client.tokens = client.tokens[-1:]
        if isinstance(message, Decided | Done | Refused):
            client.flying.remove(message.id)
        match message:
            case Decided(verdict=verdict):
                is_new = verdict.local not in client.verdicts
                assert verdict.local <= len(client.verdicts) + 1, "a verdict out of order"
                is_late = is_new and verdict.accepted and verdict.version <= client.to
                is_keyed = client.sent[verdict.local - 1].key is not None  # it may be an old commit
                assert not is_late or is_keyed, "a step has shown it before its verdict"
                self.counts["verdicts" if is_new else "replays"] += 1
                client.note(verdict)
            case Refused(id=id):
                client.owes_ack |= client.acks.pop(id, None) is not None
                client.asked.pop(id, None)
                client.next = min(client.next, len(client.verdicts) + 1)
                self.counts["refusals"] += 1
            case Done(id=id):
                self._watched(client, client.asked.pop(id, None))
                acknowledged = client.acks.pop(id, 0)
                client.known_acknowledged = max(client.known_acknowledged, acknowledged)
            case Sync():
                self._take_step(client, message)
            case Revoked(reason=reason):
                assert reason == "taken_over"
                self._check_over(client)

    def _check_over(self, client: LineClient) -> None:
        """After the word that a session is taken over nothing comes."""
        assert client.link is not None
        try:
            message = client.link.receive(1.0)
        except Unavailable:
            self._lose(client)
            return
        raise AssertionError(f"after `revoked` came {message}")

    def _take_step(self, client: LineClient, step: Sync) -> None:
        assert step.to >= client.to, "a step leads back"
        assert step.decided <= len(client.verdicts), (
            "it says that verdicts were sent which have not come"
        )
        client.to = step.to
        client.mark = Mark(step.to, step.hash)
        client.unacked.append(step.to)
        # An acknowledgement on its way is of a step to the same version, too.
        window = [to for to in client.unacked if to > client.acknowledged_to]
        assert len(window) <= SYNC_WINDOW, "a third step without an acknowledgement"
        client.shown.append((step.to, len(client.verdicts)))
        assert step.watches.keys() <= client.queries.keys(), "a step with a watch before its answer"
        for name, part in step.watches.items():
            states = [decode(bytes(step.states[place])) for place in part.upserts]
            for state in states:
                assert state.pop("branch") == "main"
            frame = {"from": part.start, "to": step.to, "upserts": states, "removes": part.removes}
            if part.truncated is not None:
                frame["truncated"] = part.truncated
            client.folded.setdefault(name, Folded()).take(frame)
        self.counts["steps"] += 1
        is_lost = any(id is not None and version > step.to for version, id in self.foreign.items())
        if not is_lost and self.random.random() < 0.3:
            self._check_folds(client)

    def _check_folds(self, client: LineClient) -> None:
        for name, folded in client.folded.items():
            shown = self.space.at(client.to).query(client.queries[name])["facts"]
            assert folded.facts == shown, f"the fold of {name!r} is not its query"
            self.counts["folds"] += 1

    def _acknowledge_some(self, client: LineClient) -> None:
        link = self._line_of(client)
        self._rise_basis(client, client.to)
        told = len(client.verdicts)
        to = client.to if client.unacked or client.owes_ack else None
        try:
            id = link.send(Ack(verdicts=told, basis=client.basis, to=to))
        except Busy:
            return
        except Unavailable:
            self._lose(client)
            return
        client.flying.add(id)
        client.acks[id] = told
        client.unacked, client.owes_ack = [], False
        client.acknowledged_to = max(client.acknowledged_to, to or 0)
        client.acknowledged = max(client.acknowledged, told)

    def _abandon_last(self, client: LineClient) -> None:
        link = self._line_of(client)  # first: the opening of another line may tell its verdict
        local = len(client.sent)
        if local and local == client.next and local not in client.verdicts:
            with suppress(Busy, Unavailable):
                client.flying.add(link.send(Abandon(local)))
                client.next += 1

    def _watch(self, client: LineClient) -> None:
        """Change the watches, one change at a time."""
        if client.asked:
            return
        more = f"more {len(client.sent)}"
        changes: list[WatchRequest] = [
            AddWatches({more: self.random.choice(QUERIES)}),
            RemoveWatches([self.random.choice(sorted(client.queries) or ["none"])]),
            SetWatches({**WATCHES, more: self.random.choice(QUERIES)}),
        ]
        request = self.random.choice(changes)
        with suppress(Busy, Unavailable):
            id = self._line_of(client).send(request)
            client.flying.add(id)
            client.asked[id] = request

    def _watched(self, client: LineClient, request: WatchRequest | None) -> None:
        """Take over watches that the desk has changed."""
        if request is None:
            return
        match request:
            case AddWatches():
                client.queries |= request.watches
            case RemoveWatches():
                for name in request.names:
                    client.queries.pop(name, None)
                    client.folded.pop(name, None)
            case SetWatches():
                client.queries, client.folded = dict(request.watches), {}
        self.counts["watch changes"] += 1

    # -- its line ----------------------------------------------------------------------------------

    def _cut(self, client: LineClient) -> None:
        """Cut the line; its other end may go on for a while."""
        if client.link is not None:
            self.counts["cuts"] += 1
            if self.random.random() < 0.5:
                self._go_on_alone(client.link)
            self._lose(client)

    def _go_on_alone(self, link: Link) -> None:
        """Let the other end of a line go on; its answers reach nobody."""
        with suppress(Unavailable):
            for _ in range(self.random.randint(1, 2 * PIPELINE)):
                if isinstance(link.receive(0.0), Decided):
                    self.counts["lost answers"] += 1

    def _lose(self, client: LineClient) -> None:
        assert client.link is not None
        self._leave(client, client.link)
        client.link = None
        client.unacked.clear()
        client.acknowledged_to = -1
        client.flying.clear()
        client.acks.clear()
        client.asked.clear()
        client.owes_ack = False

    def _leave(self, client: LineClient, link: Link) -> None:
        """Leave a line that may still bring something; of these few are kept."""
        client.former_links.append(link)
        if len(client.former_links) > FORMER:
            client.former_links.pop(0).close()

    def _late(self, client: LineClient) -> None:
        """Let what lines from before have still to bring arrive: it decides nothing any more."""
        if client.link is None:
            return
        version = self.space.version
        for link in client.former_links:
            with suppress(Unavailable):
                while (message := link.receive(0.0)) is not None:
                    self.counts["takeovers"] += 1
                    if isinstance(message, Decided) and message.verdict.local in client.verdicts:
                        client.note(message.verdict)
        assert self.space.version == version, "a holder before has written"

    def _late_opening(self, client: LineClient) -> None:
        """Let an opening of long ago arrive: it locks nobody out, and with a stale token it opens nothing."""
        if not client.tokens:
            return
        self.counts["late openings"] += 1
        token = self.random.choice([*client.tokens, *client.stale])
        opening = OpenSession(self.space.did, session=client.session, token=token)
        try:
            link = self._connect(opening)
        except (SessionRevoked, Unavailable) as error:
            assert isinstance(error, Unavailable) or token != client.tokens[-1], "locked out"
            return
        self._leave(client, link)
        assert token not in client.stale, "a stale token has opened the session"

    def _line_of(self, client: LineClient) -> Link:
        """Return the line of a client; connect it again where it is down."""
        while client.link is None:
            is_held = bool(client.folded) and client.folded.keys() == client.queries.keys()
            opening = OpenSession(
                self.space.did,
                session=client.session,
                token=client.tokens[-1] if client.tokens else None,
                watches=dict(client.queries),
                seen=client.mark if is_held else None,
            )
            self._maybe_crash()
            try:
                link = self._connect(opening)
            except Unavailable:
                continue
            if client.session is not None:
                self.counts["resumes"] += 1
                if self.random.random() < 0.3:
                    self.counts["lost openings"] += 1
                    self._leave(client, link)
                    continue  # the answer is lost; the same token opens again
            if is_held:  # what the folds show at the version that was seen
                for folded in client.folded.values():
                    folded.version = client.to
            else:
                client.folded = {}
            self._opened(client, link)
        return client.link

    def _connect(self, opening: OpenSession) -> Link:
        return self.random.choice(self.linkers).connect(opening)

    def _opened(self, client: LineClient, link: Link) -> None:
        opened = link.opened
        assert opened.session is not None and opened.token is not None
        assert opened.resumed == (client.session is not None)
        client.link, client.session = link, opened.session
        client.tokens = [*client.tokens, opened.token]
        locals = [each.local for each in opened.verdicts]
        assert all(local > client.known_acknowledged for local in locals), "an ack was lost"
        assert locals == list(range(opened.decided - len(locals) + 1, opened.decided + 1))
        for verdict in opened.verdicts:
            assert (
                verdict.local in client.verdicts
                or verdict.version > client.to
                or (not verdict.accepted)
                or client.sent[verdict.local - 1].key is not None
            ), "a step has shown it on the line before"
            self.counts["told in openings"] += verdict.local not in client.verdicts
            client.note(verdict)
        assert opened.decided == len(client.verdicts), "a verdict is missing"
        client.next = opened.decided + 1
        if not client.queries:  # no step will say where it stands
            client.to, client.mark = opened.version, None
            client.shown.append((client.to, len(client.verdicts)))

    # -- at rest -----------------------------------------------------------------------------------

    def _come_to_rest(self, client: LineClient) -> None:
        """Send what is left, and wait until all has its verdict and the last step has come."""
        for _ in range(ROUNDS_MAX):
            self._stop_crashing()
            newest = self.space.version
            if len(client.verdicts) == len(client.sent) and self._is_shown(client, newest):
                self._check_folds(client)
                return
            self._send_some(client)
            self._stop_crashing()
            while self._take_one(client, self._patience(client)):
                pass
            if client.unacked or client.owes_ack:
                self._acknowledge_some(client)
        raise AssertionError("it does not come to rest")

    def _is_shown(self, client: LineClient, newest: int) -> bool:
        """Whether the last step has come, and each watch has shown something."""
        is_whole = client.folded.keys() == client.queries.keys() and not client.asked
        return client.to >= newest and is_whole

    def _stop_crashing(self) -> None:
        self.port.crash.when = None

    def _judge_steps(self, client: LineClient) -> None:
        """Whatever a step showed of the client itself had its verdict before."""
        for to, known in client.shown:
            for sent, verdict in zip(client.sent, client.verdicts.values(), strict=True):
                if self._is_again(client, sent, verdict):
                    continue
                assert not verdict.accepted or verdict.version > to or verdict.local <= known, (
                    f"a step to {to} came before the verdict on {verdict.local}"
                )
