"""The link suite: what every link between a session's client and its desk must do.

A subclass gives the linker of a store; the same tests run in the process and over a wire.
"""

import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from rote.contract.links import Decided, Done, Link, Linker, LinkRequest, Message, Refused
from rote.contract.sync import (
    Abandon,
    Ack,
    AddWatches,
    CloseSession,
    Mark,
    OpenSession,
    RemoveWatches,
    Revoked,
    SetWatches,
    Sync,
    Transact,
)
from rote.errors import (
    Busy,
    Diverged,
    InvalidInput,
    NotFound,
    RoteError,
    SessionExpired,
    SessionRevoked,
    Unavailable,
)
from rote.space import Space
from rote.testing.frames import Folded
from rote.values import decode
from rote.values.session_limits import LINK_COMMITS_MAX, LINK_REQUESTS_MAX

A, B = "urn:l:a", "urn:l:b"
EVERYTHING: Any = {"select": {"urn:l:*": {}}}
SECONDS = 20.0  # until a message must have come
M = TypeVar("M")


class LinkSuite:
    """Subclasses give the space, and linkers to it."""

    space: Space
    linker: Linker

    def new_linker(self) -> Linker:
        """Return another linker to the same store; a server has one more process in between."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _ground(self) -> Iterator[None]:
        self._links: list[Link] = []
        yield
        for link in self._links:
            link.close()

    def connect(self, linker: Linker | None = None, **members: Any) -> Link:
        link = (linker or self.linker).connect(OpenSession(self.space.did, **members))
        self._links.append(link)
        return link

    def again(self, link: Link, linker: Linker | None = None, **members: Any) -> Link:
        opened = link.opened
        return self.connect(linker, session=opened.session, token=opened.token, **members)

    # -- answers -----------------------------------------------------------------------------------

    def test_an_opening_says_what_the_session_is(self) -> None:
        self.space.set(A, 0)
        opened = self.connect().opened
        assert opened.space == self.space.did
        assert opened.session
        assert opened.token
        assert (opened.version, opened.resumed, opened.decided) == (1, False, 0)
        assert opened.verdicts == ()

    def test_each_commit_is_decided_once_in_local_order(self) -> None:
        link = self.connect()
        ids = [link.send(put(local)) for local in (1, 2, 3)]
        assert len(set(ids)) == 3
        decided = [take(link, Decided) for _ in ids]
        assert [each.id for each in decided] == ids
        assert [each.verdict.local for each in decided] == [1, 2, 3]
        log = list(self.space.log())
        for each, commit in zip(decided, log, strict=True):
            verdict = each.verdict
            assert verdict.accepted
            assert (verdict.version, verdict.hash, verdict.at) == (
                commit.version, commit.hash, commit.at,
            )  # fmt: skip
            assert verdict.commit == commit

    def test_a_rejected_commit_says_why_and_is_not_in_the_log(self) -> None:
        link = self.connect()
        self.space.set(A, 0)
        read = [{"id": A, "version": 0}]
        verdict = answer(link, put(1, reads=read), Decided).verdict
        assert not verdict.accepted
        assert verdict.error is not None
        assert verdict.error["code"] == "conflict"
        assert verdict.error["details"]["conflicts"][0]["actual_version"] == 1
        assert self.space.version == 1
        later = answer(link, put(2, B, reads=[{"id": B, "version": 0, "layers": [1]}]), Decided)
        error = RoteError.from_dict(later.verdict.error or {})
        assert (error.code, error.details["local"]) == ("dependency_rejected", 1)

    def test_an_own_commit_that_is_named_is_no_conflict(self) -> None:
        link = self.connect()
        assert answer(link, put(1), Decided).verdict.accepted
        unnamed = put(2, reads=[{"id": A, "version": 0}])
        assert not answer(link, unnamed, Decided).verdict.accepted
        named = put(3, reads=[{"id": A, "version": 0, "layers": [1]}])
        assert answer(link, named, Decided).verdict.accepted

    def test_a_commit_that_is_sent_again_gets_its_verdict_again(self) -> None:
        link = self.connect()
        first = answer(link, put(1), Decided).verdict
        again = answer(link, put(1), Decided).verdict
        assert (again.accepted, again.version, again.hash) == (True, first.version, first.hash)
        other = answer(link, put(1, B), Refused).error
        assert other.code == "payload_mismatch"
        assert self.space.version == 1

    def test_a_commit_that_is_withdrawn_in_time_is_rejected(self) -> None:
        link = self.connect()
        answer(link, put(1), Decided)
        verdict = answer(link, Abandon(2), Decided).verdict
        assert verdict.error is not None
        assert verdict.error["code"] == "withdrawn"
        assert answer(link, Abandon(1), Decided).verdict.accepted
        assert answer(link, put(2), Decided).verdict == verdict
        assert self.space.version == 1

    def test_what_is_out_of_order_decides_nothing(self) -> None:
        link = self.connect()
        error = answer(link, put(2), Refused).error
        assert (error.code, error.details["expected"]) == ("out_of_order", 1)
        assert type(error) is InvalidInput
        answer(link, put(1), Decided)
        assert answer(link, Ack(verdicts=2), Refused).error.code == "out_of_order"
        assert answer(link, Ack(verdicts=1, basis=1), Done).version is None
        assert answer(link, put(1), Refused).error.code == "verdict_gone"
        assert self.space.version == 1

    def test_values_come_as_they_were_sent(self) -> None:
        link = self.connect(watches={"all": EVERYTHING})
        values = [1.0, -0.5, 2**53, "é\u2028\U0001f600", [None, True, {}], {"": [[]]}]
        assert answer(link, put(1, value=values, meta={"m": 1.5}), Decided).verdict.accepted
        assert self.space.get(A) == values
        assert list(self.space.log())[-1].meta == {"m": 1.5}
        step = self.step_to(link, 1)
        assert [decode(bytes(state))["value"] for state in step.states] == [values]

    # -- opening again -----------------------------------------------------------------------------

    def test_a_session_goes_on_with_the_verdicts_that_were_not_acknowledged(self) -> None:
        link = self.connect()
        told = [answer(link, put(local), Decided).verdict for local in (1, 2, 3)]
        answer(link, Ack(verdicts=1), Done)
        link.close()
        after = self.again(link, self.new_linker())
        assert after.opened.resumed
        assert after.opened.decided == 3
        shown = [(each.local, each.version, each.hash, each.at) for each in after.opened.verdicts]
        assert shown == [(each.local, each.version, each.hash, each.at) for each in told[1:]]
        assert answer(after, put(4), Decided).verdict.accepted

    def test_what_was_sent_and_not_received_is_decided_or_not_and_never_twice(self) -> None:
        link = self.connect()
        for local in (1, 2, 3):
            link.send(put(local))
        take(link, Decided)
        link.close()
        after = self.again(link)
        verdicts = {each.local: each for each in after.opened.verdicts}
        assert set(verdicts) == set(range(1, after.opened.decided + 1))
        for local in range(after.opened.decided + 1, 4):
            assert answer(after, put(local), Decided).verdict.accepted
        assert self.space.version == 3

    def test_who_opens_last_has_the_session(self) -> None:
        first = self.connect()
        answer(first, put(1), Decided)
        second = self.again(first, self.new_linker())
        answer(second, put(2), Decided)
        assert self.end(first, "taken_over") == "back"
        with pytest.raises(Unavailable):
            first.send(put(3, B))
        with pytest.raises(SessionRevoked):
            self.again(first)
        assert answer(second, put(3), Decided).verdict.accepted
        assert self.space.version == 3

    def test_a_holder_before_decides_nothing_and_sees_nothing_more(self) -> None:
        first = self.connect(watches={"all": EVERYTHING})
        self.step_to(first, 0)
        second = self.again(first, self.new_linker())
        first.send(put(1, value="stale"))
        answer(second, put(1), Decided)
        for message in self.rest(first):
            assert not isinstance(message, Decided | Sync), message
            if isinstance(message, Refused):
                assert isinstance(message.error, SessionRevoked)
        assert self.space.get(A) == 1

    def test_a_token_is_good_until_a_later_one_was_used(self) -> None:
        first = self.connect()
        lost = self.again(first)  # its answer is lost
        again = self.again(first)
        answer(again, put(1), Decided)
        with pytest.raises(SessionRevoked):
            self.again(lost)

    def test_a_session_that_was_closed_is_gone(self) -> None:
        link = self.connect()
        answer(link, put(1), Decided)
        answer(link, CloseSession(), Done)
        with pytest.raises(Unavailable) as caught:
            self.take_all(link)
        assert caught.value.details["then"] == "stop"
        with pytest.raises(SessionExpired):
            self.again(link)

    def test_an_unknown_space_or_session_is_not_found(self) -> None:
        with pytest.raises(NotFound):
            self.linker.connect(OpenSession("nowhere"))
        with pytest.raises(SessionExpired):
            self.connect(session="0" * 32, token="x" * 43)
        with pytest.raises(InvalidInput):
            self.connect(session="0" * 32)

    def test_a_log_that_the_client_has_not_seen_opens_nothing(self) -> None:
        self.space.set(A, 1)
        for mark in (Mark(1, "0" * 64), Mark(2, self.space.head), Mark(0, self.space.head)):
            with pytest.raises(Diverged):
                self.connect(watches={"all": EVERYTHING}, seen=mark)
        self.connect(watches={"all": EVERYTHING}, seen=Mark(1, self.space.head))

    # -- steps -------------------------------------------------------------------------------------

    def test_steps_fold_to_what_the_queries_say(self) -> None:
        one: Any = {"select": {A: {}}}
        link = self.connect(watches={"all": EVERYTHING, "one": one})
        folded = {"all": Folded(), "one": Folded()}
        self.fold_to(link, folded, 0)
        for round in range(1, 6):
            answer(link, put(round, value=round), Decided)
            self.space.set(B, round)
            if round == 3:
                self.space.delete(A)
            self.fold_to(link, folded, self.space.version)
            for name, query in (("all", EVERYTHING), ("one", one)):
                assert folded[name].facts == self.space.query(query)["facts"], (name, round)

    def test_verdicts_come_before_the_step_that_shows_them(self) -> None:
        link = self.connect(watches={"all": EVERYTHING})
        locals = range(1, 41)
        for local in locals:
            link.send(put(local))
            if local % 10 == 0:
                self.space.set(B, local)
        told: dict[int, int] = {}
        to = 0
        while len(told) < len(locals) or to < self.space.version:
            message = take(link, Decided, Sync)
            if isinstance(message, Decided):
                assert message.verdict.version > to, "a step has shown it before"
                told[message.verdict.local] = message.verdict.version
            else:
                assert message.to >= to
                assert message.decided <= len(told)
                to = message.to
                link.send(Ack(to=to))

    def test_a_step_comes_whole_however_much_it_shows(self) -> None:
        operations = [{"op": "set", "id": f"urn:l:{n:04}", "value": n} for n in range(1_200)]
        self.space.transact(operations)
        link = self.connect(watches={"all": {**EVERYTHING, "max_entities": 2_000}})
        step = self.step_to(link, 1)
        assert not step.more
        assert [decode(bytes(state))["value"] for state in step.states] == list(range(1_200))
        assert step.watches["all"].upserts == list(range(1_200))
        assert (step.watches["all"].start, step.hash) == (None, self.space.head)

    def test_no_third_step_comes_before_one_is_acknowledged(self) -> None:
        link = self.connect(watches={"all": EVERYTHING})
        tos = []
        for value in range(1, 3):
            self.space.set(A, value)
            tos.append(take(link, Sync).to)
        for value in range(3, 6):
            self.space.set(A, value)
        answer(link, put(1, B), Decided)
        assert link.receive(0.3) is None
        link.send(Ack(to=tos[0]))
        step = take(link, Sync)
        assert step.to == self.space.version
        assert step.watches["all"].start == tos[-1]

    def test_what_was_seen_is_gone_on_from(self) -> None:
        self.space.set(A, 1)
        link = self.connect(watches={"all": EVERYTHING})
        step = self.step_to(link, 1)
        self.space.set(B, 2)
        after = self.again(link, watches={"all": EVERYTHING}, seen=Mark(step.to, step.hash))
        later = self.step_to(after, 2)
        assert later.watches["all"].start == 1
        assert [decode(bytes(state))["id"] for state in later.states] == [B]

    def test_a_commit_that_no_watch_shows_moves_the_session_on_at_once(self) -> None:
        link = self.connect()
        for local in (1, 2):
            verdict = answer(link, put(local), Decided).verdict
            step = take(link, Sync)
            assert (step.to, step.hash, step.decided) == (verdict.version, verdict.hash, local)
            assert (step.states, step.watches) == ([], {})
            answer(link, Ack(to=step.to), Done)

    def test_watches_change_wholly_or_not_at_all(self) -> None:
        self.space.set(A, 1)
        self.space.set(B, 2)
        link = self.connect()
        one: Any = {"select": {A: {}}}
        assert answer(link, AddWatches({"one": one}), Done).version == 2
        assert set(self.step_to(link, 2).watches) == {"one"}
        answer(link, AddWatches({"one": one}), Done)
        assert isinstance(
            answer(link, AddWatches({"one": EVERYTHING}), Refused).error, InvalidInput
        )
        wrong: Any = {"all": EVERYTHING, "bad": {"select": 1}}
        assert isinstance(answer(link, SetWatches(wrong), Refused).error, InvalidInput)
        answer(link, SetWatches({"all": EVERYTHING}), Done)
        step = take(link, Sync)
        assert (set(step.watches), step.watches["all"].start) == ({"all"}, None)
        answer(link, Ack(to=2), Done)
        answer(link, RemoveWatches(["all", "nobody"]), Done)
        self.space.set(A, 3)
        answer(link, put(1, B), Decided)
        assert self.step_to(link, 4).watches == {}

    # -- bounds and ends ---------------------------------------------------------------------------

    def test_only_so_much_is_sent_without_being_answered(self) -> None:
        link = self.connect()
        for local in range(1, LINK_COMMITS_MAX + 1):
            link.send(put(local))
        with pytest.raises(Busy):
            link.send(put(LINK_COMMITS_MAX + 1))
        for _ in range(LINK_REQUESTS_MAX):
            link.send(Ack(basis=0))
        with pytest.raises(Busy):
            link.send(Ack(basis=0))
        answered = 0
        while answered < LINK_COMMITS_MAX + LINK_REQUESTS_MAX:
            answered += isinstance(take(link, Decided, Done, Sync), Decided | Done)
        assert answer(link, put(LINK_COMMITS_MAX + 1), Decided).verdict.accepted

    def test_an_impossible_request_is_refused_and_the_link_goes_on(self) -> None:
        link = self.connect()
        for wrong in (Transact(-1, 0, []), Abandon(0), Ack(to=9), AddWatches({"": EVERYTHING})):
            assert isinstance(answer(link, wrong, Refused).error, InvalidInput)
        for local, bad in enumerate(([], [{"op": "fly", "id": A}], 7), 1):
            verdict = answer(link, Transact(local, 0, bad), Decided).verdict
            assert verdict.error is not None
            assert verdict.error["code"] == "invalid_input"
        assert answer(link, put(4), Decided).verdict.accepted

    def test_nothing_comes_in_time_when_there_is_nothing(self) -> None:
        assert self.connect().receive(0.05) is None

    def test_a_close_wakes_the_receiver(self) -> None:
        link = self.connect()
        found: list[BaseException] = []

        def receive() -> None:
            try:
                while True:
                    link.receive(None)
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        link.close()
        link.close()
        thread.join(SECONDS)
        assert not thread.is_alive()
        assert [type(each) for each in found] == [Unavailable]
        assert isinstance(found[0], Unavailable)
        assert found[0].details["then"] == "stop"
        with pytest.raises(Unavailable):
            link.send(put(1))
        assert answer(self.again(link), put(1), Decided).verdict.accepted

    # -- taking ------------------------------------------------------------------------------------

    def step_to(self, link: Link, version: int) -> Sync:
        """Return the step to a version, and acknowledge all before it."""
        while True:
            step: Sync = take(link, Sync)
            answer(link, Ack(to=step.to), Done)
            if step.to >= version:
                assert step.to == version
                return step

    def fold_to(self, link: Link, folded: dict[str, Folded], version: int) -> None:
        to = -1
        while to < version:
            message = take(link, Sync, Done)
            if isinstance(message, Done):
                continue
            to = message.to
            for name, part in message.watches.items():
                states = [decode(bytes(message.states[place])) for place in part.upserts]
                for state in states:
                    assert state.pop("branch") == "main"
                folded[name].take(
                    {"from": part.start, "to": to, "upserts": states, "removes": part.removes}
                )
            link.send(Ack(to=to))

    def rest(self, link: Link) -> list[Message]:
        """Return all messages up to the link's end."""
        found: list[Message] = []
        try:
            while True:
                message = link.receive(SECONDS)
                assert message is not None
                found.append(message)
        except Unavailable:
            return found

    def take_all(self, link: Link) -> None:
        while link.receive(SECONDS) is not None:
            pass

    def end(self, link: Link, reason: str) -> str:
        """Wait until a link is revoked and ends; return what is to be done then."""
        while True:
            message = link.receive(SECONDS)
            assert message is not None
            if isinstance(message, Revoked):
                assert message.reason == reason
                break
        with pytest.raises(Unavailable) as caught:
            link.receive(SECONDS)
        then: str = caught.value.details["then"]
        return then


def put(local: int, id: str = A, value: Any = None, **more: Any) -> Transact:
    value = local if value is None else value
    basis = more.pop("basis", 0)
    return Transact(local, basis, [{"op": "set", "id": id, "value": value}], **more)


def take(link: Link, *kinds: type[Message]) -> Any:
    """Return the next message, which must be of one of these kinds; answers to acks are passed over, and
    steps that only say how far the space has come."""
    message = link.receive(SECONDS)
    while (isinstance(message, Done) and Done not in kinds) or (
        isinstance(message, Sync) and Sync not in kinds and not message.watches
    ):
        message = link.receive(SECONDS)
    assert isinstance(message, kinds), message
    return message


def answer(link: Link, request: LinkRequest, kind: type[M]) -> M:
    """Send a request and return its answer, which must be of a kind; steps before it are passed over."""
    id = link.send(request)
    while True:
        message = link.receive(SECONDS)
        assert message is not None, "no answer came"
        if getattr(message, "id", None) == id:
            assert isinstance(message, kind), message
            return message
        assert isinstance(message, Sync | Done), message
