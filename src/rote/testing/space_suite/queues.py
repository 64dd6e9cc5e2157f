"""Queues: messages are put once, come in order, have one living lease, and are acknowledged once."""

import threading
from typing import Any

import pytest

from rote.contract.commands import AwaitCommit, Command, Find, GetSide, ListSides, PutSide
from rote.errors import Denied, InvalidInput, LimitExceeded, NotFound, PayloadMismatch, RoteError
from rote.opening.hosts import Host
from rote.space import Space
from rote.testing.intercepting import intercept
from rote.testing.space_suite.ground import SpaceGround, port_of
from rote.tiers.messages import KIND, id_of_key, term_of
from rote.values import digest, parse_time

Q = "alerts"
# Seconds: longer than any machine needs to wake a taker.
SOON = 30.0


class QueueGround(SpaceGround):
    """A host with the queues of the test's space."""

    @pytest.fixture(autouse=True)
    def _queues(self, _ground: None) -> None:
        self.host = self.host_on(self.space)

    def host_on(self, space: Space, **options: Any) -> Host:
        return Host("network-restricted", space=space, queue={"lease_seconds": 3_600, **options})

    def put(self, *payloads: Any, queue: str = Q) -> list[str]:
        return [self.host.queue.put(queue, payload) for payload in payloads]

    def take(self, host: Host | None = None, queue: str = Q, **more: Any) -> Any:
        return (host or self.host).queue.take(queue, **more)["message"]

    def taken(self, host: Host | None = None) -> list[Any]:
        """Return the payloads of all messages that are ready, in the order in which they come."""
        payloads = []
        while (message := self.take(host)) is not None:
            payloads.append(message["payload"])
        return payloads

    def done(self, message: Any, host: Host | None = None) -> Any:
        host = host or self.host
        return host.queue.ack(message["queue"], message["id"], message["lease"])

    def expire(self, id: str | None = None) -> None:
        """Let leases and delays run out: on every engine, whatever its clock."""
        for row in self.port.answer(self.did, ListSides(KIND, "", 1_000)).rows:
            if id is None or id in row.key:
                body = {**row.body, "until": 0}
                self.port.answer(self.did, PutSide(KIND, row.key, body, row.fence))

    def rows(self) -> list[str]:
        return [row.key for row in self.port.answer(self.did, ListSides(KIND, "", 1_000)).rows]

    def depth(self, host: Host | None = None) -> tuple[int, int, int]:
        told = (host or self.host).queue.depth(Q)
        return told["ready"], told["leased"], told["dead"]


def code_of(function: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(RoteError) as raised:
        function(*args, **more)
    return raised.value.code


class QueueTests(QueueGround):
    def test_messages_come_in_the_order_of_their_puts(self) -> None:
        self.put(*range(12))
        self.put("elsewhere", queue="alerts-2")
        self.put("before", queue="alert")
        assert self.taken() == list(range(12))
        assert self.host.queue.take("alerts-2")["message"]["payload"] == "elsewhere"

    def test_messages_of_one_commit_come_in_the_order_of_its_operations(self) -> None:
        self.put("first")
        ids = [f"{255 - number:032x}" for number in range(6)]
        value = {"max_tries": 5, "put_at": ""}
        self.space.transact(
            [
                {"op": "set", "id": f"queue:{Q}/{id}", "value": {**value, "payload": number},
                 "stamp": ["/put_at"]}
                for number, id in enumerate(ids)
            ]
        )  # fmt: skip
        self.put("last")
        host = self.host_on(self.space.create_branch("try"))
        assert self.take(host)["payload"] == "first"
        assert [item["payload"] for item in self.host.queue.peek(Q, 8)["items"]][1:-1] == [
            *range(6)
        ]
        self.put(1, 2, 3, queue="elsewhere")
        self.space.compact(keep=1)
        assert self.space.verify().ok
        self.space.reindex()
        assert self.space.verify().ok
        assert self.taken(self.host_on(self.space)) == ["first", *range(6), "last"]
        assert self.taken(host) == [*range(6), "last"]

    def test_a_take_reads_no_more_where_many_were_put_in_one_instant(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All messages of one instant were read by each take, to bring them into order."""
        work: list[int] = []

        def count(space: str, command: Command[Any], answer: Any) -> Any:
            found = answer(command)
            work[-1] += len(found) if isinstance(command, Find) else 1
            return found

        sizes = (10, 500)
        for size in sizes:
            puts = [self.putting(f"{number:032x}", f"of-{size}") for number in range(size)]
            self.space.transact(puts)
        hosts = [self.host_on(self.space) for _ in sizes]
        intercept(monkeypatch, self.port, Command, count)
        for size, host in zip(sizes, hosts, strict=True):
            for number in range(6):  # the last ones of which begin behind those before
                work.append(0)
                message = self.take(host, queue=f"of-{size}")
                assert message["id"] == f"{number:032x}"
                self.done(message, host)
        assert work[:6] == work[6:]

    def test_a_row_from_before_places_were_noted_is_met_once(self) -> None:
        self.space.transact([self.putting(f"{number:032x}") for number in range(3)])
        self.done(self.take())
        message = self.take()
        (row,) = self.port.answer(self.did, ListSides(KIND, "", 1_000)).rows
        body = {name: row.body[name] for name in row.body if name not in ("version", "place")}
        self.port.answer(self.did, PutSide(KIND, row.key, body, row.fence))
        self.host.queue.nack(Q, message["id"], message["lease"])
        assert self.depth() == (2, 0, 0)
        assert [self.take()["id"] for _ in range(2)] == [f"{1:032x}", f"{2:032x}"]

    def putting(self, id: str, queue: str = Q) -> dict[str, Any]:
        """Return the operation that puts a message with an id."""
        value = {"max_tries": 5, "put_at": "", "payload": id}
        return {"op": "set", "id": f"queue:{queue}/{id}", "value": value, "stamp": ["/put_at"]}

    def test_a_message_is_an_entity_with_its_history(self) -> None:
        (id,) = self.put({"n": 1})
        entity = f"queue:{Q}/{id}"
        commit = self.space.commit(1)
        assert self.space.get(entity) == {"payload": {"n": 1}, "put_at": commit.at, "max_tries": 5}
        assert len(id) == 32
        message = self.take()
        assert self.space.version == 1  # a take writes nothing of the space
        assert self.rows() == [f"{Q}/{id}@main"]
        assert self.done(message) == {"ok": True}
        assert [fact.op for fact in self.space.history(entity)] == ["delete", "set"]
        assert self.rows() == []
        assert self.space.verify().ok

    def test_a_taken_message_tells_what_it_is(self) -> None:
        (id,) = self.put([1])
        message = self.take()
        told = {name: message[name] for name in ("id", "queue", "payload", "put_at", "tries")}
        assert told == {
            "id": id, "queue": Q, "payload": [1], "put_at": self.space.commit(1).at, "tries": 1,
        }  # fmt: skip
        assert message.keys() - told.keys() == {"lease", "leased_until"}
        assert self.take() is None

    def test_what_comes_back_keeps_its_place(self) -> None:
        self.put(1, 2, 3)
        first, second = self.take(), self.take()
        assert self.host.queue.nack(Q, second["id"], second["lease"]) == {"ok": True, "dead": False}
        assert self.take()["payload"] == 2
        self.expire(first["id"])
        again = self.take()
        assert (again["payload"], again["tries"]) == (1, 2)
        assert again["lease"] != first["lease"]
        assert self.taken() == [3]

    def test_a_lease_that_was_given_back_or_followed_is_lost(self) -> None:
        self.put(1)
        queue = self.host.queue
        first = self.take()
        queue.nack(Q, first["id"], first["lease"])
        second = self.take()
        self.expire()
        third = self.take()
        for lost in (first, second):
            for verb in ("ack", "nack", "extend"):
                assert (
                    code_of(queue.__getattr__(verb), Q, lost["id"], lost["lease"]) == "lease_lost"
                )
        assert self.depth() == (0, 1, 0)
        self.done(third)
        assert code_of(self.done, third) == "lease_lost"
        for id in ("0" * 32, "never", ""):
            assert code_of(queue.ack, Q, id, "0" * 32) == "lease_lost"

    def test_a_lease_that_ran_out_and_was_not_followed_still_counts(self) -> None:
        self.put(1, 2, 3)
        queue, messages = self.host.queue, [self.take(), self.take(), self.take()]
        self.expire()
        assert self.done(messages[0]) == {"ok": True}
        assert queue.nack(Q, messages[1]["id"], messages[1]["lease"])["ok"]
        longer = queue.extend(Q, messages[2]["id"], messages[2]["lease"], 600)
        assert set(longer) == {"leased_until"}
        assert self.taken() == [2]
        assert self.done(messages[2]) == {"ok": True}

    def test_extend_keeps_the_lease(self) -> None:
        self.put(1)
        message = self.take(lease_seconds=1)
        longer = self.host.queue.extend(Q, message["id"], message["lease"])
        assert longer["leased_until"] > message["leased_until"]
        assert self.take() is None
        assert self.done(message) == {"ok": True}

    def test_a_message_is_dead_after_its_tries(self) -> None:
        host = self.host_on(self.space, max_tries=2)
        id = host.queue.put(Q, 1)
        first = self.take(host)
        assert host.queue.nack(Q, id, first["lease"]) == {"ok": True, "dead": False}
        second = self.take(host)
        assert self.depth(host) == (0, 1, 0)
        self.expire()  # of the last try
        assert self.depth(host) == (0, 0, 1)
        assert self.take(host) is None
        # The put has fixed the number of tries, whatever other hosts say.
        assert self.depth(self.host_on(self.space, max_tries=9)) == (0, 0, 1)
        assert host.queue.nack(Q, id, second["lease"], 5) == {"ok": True, "dead": True}
        assert self.depth(host) == (0, 0, 1)

    def test_the_dead_are_revived_or_dropped(self) -> None:
        host = self.host_on(self.space, max_tries=1)
        queue = host.queue
        ids = [queue.put(Q, number) for number in range(2)]
        for verb in ("revive", "drop"):
            assert code_of(queue.__getattr__(verb), Q, ids[0]) == "not_dead"
            for id in ("0" * 32, "never"):
                with pytest.raises(NotFound):
                    host.call("queue", verb, [Q, id])
        for _ in ids:
            message = self.take(host)
            queue.nack(Q, message["id"], message["lease"])
        peeked = queue.peek(Q, 5, dead=True)["items"]
        assert [(item["payload"], item["tries"]) for item in peeked] == [(0, 1), (1, 1)]
        assert queue.revive(Q, ids[0]) == {"ok": True}
        assert self.take(host)["tries"] == 1
        assert queue.drop(Q, ids[1]) == {"ok": True}
        assert self.rows() == [f"{Q}/{ids[0]}@main"]
        with pytest.raises(NotFound):
            queue.drop(Q, ids[1])
        assert code_of(queue.drop, Q, ids[0]) == "not_dead"

    def test_a_delayed_message_waits(self) -> None:
        self.put(1, 2)
        message = self.take()
        self.host.queue.nack(Q, message["id"], message["lease"], 3_600)
        assert self.depth() == (1, 1, 0)
        assert self.taken() == [2]
        self.expire(message["id"])
        assert self.taken() == [1]

    def test_peek_shows_and_takes_nothing(self) -> None:
        (first, *_) = self.put(*range(5))
        self.take()
        queue = self.host.queue
        assert [item["payload"] for item in queue.peek(Q, 3)["items"]] == [0, 1, 2]
        assert queue.peek(Q)["items"][0].keys() == {
            "id", "queue", "payload", "put_at", "tries", "leased_until",
        }  # fmt: skip
        assert [item["tries"] for item in queue.peek(Q, 2)["items"]] == [1, 0]
        assert queue.peek("empty") == {"items": []}
        assert queue.peek(Q, 5, True) == {"items": []}
        assert self.depth() == (4, 1, 0)
        assert queue.depth("empty") == {"ready": 0, "leased": 0, "dead": 0}
        assert queue.peek(Q)["items"][0]["id"] == first

    def test_a_key_puts_a_message_once_also_after_its_ack(self) -> None:
        queue = self.host.queue
        id = queue.put(Q, {"n": 1}, "k")
        assert id == digest({"kind": "message/1", "queue": Q, "key": "k"})[:32] == id_of_key(Q, "k")
        assert self.space.commit(1).key == "k"
        other = self.host_on(self.space, max_tries=1)
        assert other.queue.put(Q, {"n": 1}, key="k") == id
        self.done(self.take())
        assert queue.put(Q, {"n": 1}, "k") == id
        assert self.take() is None
        for name, payload in ((Q, {"n": 2}), ("other", {"n": 1})):
            with pytest.raises(PayloadMismatch):
                queue.put(name, payload, "k")
        assert code_of(queue.put, Q, 1, "rote:own") == "invalid_input"
        assert self.depth() == (0, 0, 0)

    def test_branches_have_the_messages_and_tries_of_their_own(self) -> None:
        self.put(1, 2)
        message = self.take()
        branch = self.host_on(self.space.create_branch("try"))
        assert self.depth(branch) == (2, 0, 0)  # tries are not of the space
        assert self.take(branch)["payload"] == 1
        assert code_of(self.done, message, branch) == "lease_lost"
        self.done(message)
        assert self.depth(branch) == (1, 1, 0)
        branch.queue.put(Q, 3)
        assert self.taken(branch) == [2, 3]
        assert self.taken() == [2]

    def test_a_merge_brings_messages_to_their_place(self) -> None:
        branch = self.host_on(self.space.create_branch("try"))
        branch.queue.put(Q, "old")
        self.clock.move(seconds=1)
        self.put("new", "newer")
        self.done(self.take())
        assert self.space.merge("try").status == "merged"
        assert self.taken() == ["old", "newer"]

    @pytest.mark.parametrize("branches", [1, 2])
    def test_a_long_past_is_passed_by(self, branches: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """The index keeps messages that are gone; a take begins behind them, and behind the dead."""
        starts: list[str] = []
        if branches == 2:
            self.space.create_branch("try")
        host = self.host_on(self.space, max_tries=1)
        dead = host.queue.put(Q, "dead")
        host.queue.nack(Q, dead, self.take(host)["lease"])
        for number in range(5):
            self.clock.move(seconds=1)
            self.put(number)
            newest = self.space.commit(self.space.version)
            self.done(self.take(host), host)
        self.put("last")

        def note(space: str, command: Find, answer: Any) -> Any:
            starts.append(command.start)
            return answer(command)

        with monkeypatch.context() as patches:
            intercept(patches, self.port, Find, note)
            assert self.take(host)["payload"] == "last"
        assert starts == [term_of(Q, parse_time(newest.at), newest.version, 0)]
        assert self.depth(host) == (0, 1, 1)
        assert host.queue.peek(Q, dead=True)["items"][0]["id"] == dead
        host.queue.revive(Q, dead)
        self.put("newer")
        assert self.depth(host) == (2, 1, 0)
        assert self.taken(host) == ["dead", "newer"]

    def test_a_pinned_view_shows_and_changes_nothing(self) -> None:
        self.put(1)
        pinned = self.host_on(self.space.at(1))
        self.done(self.take())
        assert [item["payload"] for item in pinned.queue.peek(Q)["items"]] == [1]
        for verb, args in (
            ("take", [Q]),
            ("put", [Q, 1]),
            ("ack", [Q, "a", "b"]),
            ("drop", [Q, "a"]),
        ):
            with pytest.raises(InvalidInput):
                pinned.call("queue", verb, args)

    @pytest.mark.parametrize(
        ("verb", "args"),
        [
            ("put", ["", 1]), ("put", ["a/b", 1]), ("put", [".a", 1]), ("put", ["x" * 101, 1]),
            ("put", [1, 1]), ("put", [Q]), ("take", [Q, 0]), ("take", [Q, 86_401]), ("take", [Q, None, 61]),
            ("take", [Q, None, -1]), ("ack", [Q, "id"]), ("nack", [Q, "id", "lease", -1]), ("peek", [Q, 0]),
            ("peek", [Q, 1_001]), ("peek", [Q, 1, 1]), ("depth", []), ("extend", [Q, "id", "lease", 0]),
        ],
    )  # fmt: skip
    def test_bad_arguments_are_refused(self, verb: str, args: Any) -> None:
        assert code_of(self.host.call, "queue", verb, args) == "bad_arguments"

    def test_payloads_and_queues_are_bounded_and_granted(self) -> None:
        host = self.host_on(self.space, max_payload_bytes=10)
        assert host.queue.put(Q, "x" * 8)
        with pytest.raises(LimitExceeded) as refused:
            host.queue.put(Q, "x" * 9)
        assert "max_payload_bytes" in str(refused.value)
        flow = self.host.scope(grant={"queue": {"queues": ["other"]}})
        for verb, args in (("put", [Q, 1]), ("take", [Q]), ("depth", [Q]), ("drop", [Q, "a"])):
            with pytest.raises(Denied) as denied:
                flow.call("queue", verb, args)
            assert denied.value.code == "grant_denied"
        assert flow.queue.put("other", 1)

    def test_other_entities_under_its_names_are_no_messages(self) -> None:
        id = "0" * 32
        for entity, value in (
            (f"queue:{Q}/{id}", {"payload": 1}), (f"queue:{Q}/{id}", 5), (f"queue:{Q}/short", {}),
            (f"queue:{Q}/{id}", {"payload": 1, "put_at": "then", "max_tries": 5}),
            (f"queue:{Q}/{id}", {"put_at": "2026-01-01T00:00:00Z", "max_tries": 5}),
        ):  # fmt: skip
            self.space.set(entity, value)
            assert self.take() is None
            assert self.depth() == (0, 0, 0)
            assert self.host.queue.peek(Q) == {"items": []}
        self.space.erase(f"queue:{Q}/{id}", reason="a test")
        self.put(1)
        assert self.taken() == [1]

    def test_an_erased_message_is_gone(self) -> None:
        queue = self.host.queue
        for verb in ("ack", "nack", "extend"):
            (id,) = self.put("secret")
            message = self.take()
            self.space.erase(f"queue:{Q}/{id}", reason="asked to")
            assert self.depth() == (0, 0, 0)
            assert code_of(queue.__getattr__(verb), Q, id, message["lease"]) == "lease_lost"
            assert self.rows() == []
        (id, _) = self.put("secret", 2)
        self.take()
        self.space.erase(f"queue:{Q}/{id}", reason="asked to")
        self.expire()
        assert self.depth() == (1, 0, 0)
        assert self.taken() == [2]

    def test_a_take_that_meets_an_ack_brings_nothing_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One worker saw no row; another took and acknowledged; then the first claims."""
        self.put("once", "next")
        other = self.host_on(self.space)
        has_met: list[bool] = []

        def meet(space: str, command: PutSide, answer: Any) -> Any:
            if command.kind == KIND and not has_met:
                has_met.append(True)
                self.done(self.take(other), other)
            return answer(command)

        intercept(monkeypatch, self.port, PutSide, meet)
        assert self.take()["payload"] == "next"
        assert has_met
        assert len(self.rows()) == 1

    def test_a_take_from_before_a_revival_does_not_end_a_living_lease(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host = self.host_on(self.space, max_tries=2)
        id = host.queue.put(Q, 1)
        self.take(host)
        self.expire()
        met: list[Any] = []

        def meet(space: str, command: PutSide, answer: Any) -> Any:
            if command.kind == KIND and not met:
                met.append(None)
                host.queue.nack(Q, id, self.take(host)["lease"])
                host.queue.revive(Q, id)
                message = self.take(host)
                for _ in range(command.fence - 1):  # to the fence that the old take has seen
                    host.queue.extend(Q, id, message["lease"])
                met.append(message)
            return answer(command)

        intercept(monkeypatch, self.port, PutSide, meet)
        assert self.take() is None
        assert self.done(met[1]) == {"ok": True}

    def test_an_ack_that_meets_another_take_is_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.put(1)
        message, other = self.take(), self.host_on(self.space)
        met: list[Any] = []

        def meet(space: str, command: GetSide, answer: Any) -> Any:
            row = answer(command)
            if command.kind == KIND and not met:
                met.append(None)
                self.expire()
                met.append(self.take(other))
            return row

        with monkeypatch.context() as patches:
            intercept(patches, self.port, GetSide, meet)
            assert code_of(self.done, message) == "lease_lost"
        assert self.done(met[1], other) == {"ok": True}

    def test_a_waiting_take_asks_nothing_until_it_is_woken(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        waits = threading.Event()
        answers: list[Any] = []

        def note(space: str, command: Command[Any], answer: Any) -> Any:
            asked.append(type(command).__name__)
            if isinstance(command, AwaitCommit):
                waits.set()
            return answer(command)

        with monkeypatch.context() as patches:
            intercept(patches, self.port, Command, note)
            taker = threading.Thread(target=lambda: answers.append(self.take(wait_seconds=SOON)))
            taker.start()
            assert waits.wait(SOON)
        before = list(asked)
        self.put("woken")
        taker.join(SOON)
        assert answers[0]["payload"] == "woken"
        assert before.count("AwaitCommit") == 1
        assert before[-1] == "AwaitCommit"

    def test_a_take_that_waits_in_vain_ends(self) -> None:
        self.put(1)
        self.take()
        assert self.take(wait_seconds=0.05) is None

    def test_a_row_that_was_left_alone_does_no_harm(self) -> None:
        """A process was killed between its claim and its second look."""
        (id,) = self.put(1)
        self.done(self.take())
        row = {"tries": 1, "max_tries": 5, "put_at": 0, "lease": "x", "until": 0}
        self.port.answer(self.did, PutSide(KIND, f"{Q}/{id}@main", row, 0))
        assert self.depth() == (0, 0, 0)
        assert self.take() is None
        assert code_of(self.host.queue.ack, Q, id, "x") == "lease_lost"
        with pytest.raises(NotFound):
            self.host.queue.revive(Q, id)
        assert self.rows() == []


class SharedQueueTests(QueueGround):
    """For places that several stores have open."""

    def test_another_store_wakes_a_taker(self) -> None:
        other = self.host_on(self.open().space("notes"))
        answers: list[Any] = []
        taker = threading.Thread(target=lambda: answers.append(self.take(other, wait_seconds=SOON)))
        taker.start()
        self.put("woken")
        taker.join(SOON)
        assert answers[0]["payload"] == "woken"

    def test_takers_of_several_stores_share_a_queue(self) -> None:
        self.put(*range(24))
        hosts = [self.host_on(self.open().space("notes")) for _ in range(3)]
        taken: list[list[Any]] = [[] for _ in hosts]

        def work(host: Host, into: list[Any]) -> None:
            while (message := self.take(host)) is not None:
                into.append(message["payload"])
                self.done(message, host)

        workers = [
            threading.Thread(target=work, args=pair) for pair in zip(hosts, taken, strict=True)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sorted(number for each in taken for number in each) == list(range(24))
        assert all(each == sorted(each) for each in taken)
        assert self.depth() == (0, 0, 0)
        assert self.rows() == []

    def test_copies_and_backups_carry_tries(self) -> None:
        self.put(1, 2)
        message = self.take()
        target = self.open_fresh("copy")
        self.store.copy("notes", target)
        copied = self.host_on(target.space("notes"))
        assert self.depth(copied) == (1, 1, 0)
        assert port_of(target) is not self.port
        assert self.done(message, copied) == {"ok": True}
