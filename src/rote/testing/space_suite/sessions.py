"""Sessions at the desk: what every store owes to the rows that decide."""

from typing import Any

import pytest

from rote.contract import all_sides
from rote.contract.sync import Mark, Transact
from rote.errors import PayloadMismatch, SessionExpired, SessionRevoked
from rote.sessions.desk import Desk
from rote.sessions.sittings import Sitting
from rote.space import Store
from rote.testing.sources import SeededIds
from rote.testing.space_suite.ground import A, B, SpaceGround, port_of, put


class SharedSessionTests(SpaceGround):
    def session_desk(self, store: Store | None = None, seed: int = 1) -> Desk:
        port = port_of(self.store if store is None else store)
        return Desk(port, self.did, randomness=SeededIds(seed), principal="one")

    def own_commit(self, local: int, *layers: int, id: str = A, **more: Any) -> Transact:
        reads = [{"id": id, "version": 0, "layers": list(layers)}] if layers else []
        return Transact(local, 0, [put(id, local)], reads=reads, **more)

    def session_rows(self, kind: str, store: Store | None = None) -> list[Any]:
        port = port_of(self.store if store is None else store)
        return list(all_sides(port, self.did, kind))

    def session_again(self, sitting: Sitting, store: Store | None = None) -> Sitting:
        return self.session_desk(store, seed=9).open(session=sitting.session, token=sitting.token)

    def test_a_session_goes_on_in_another_process(self) -> None:
        first = self.session_desk().open()
        verdicts = [first.transact(self.own_commit(1)), first.transact(self.own_commit(2, 1))]
        assert [each.version for each in verdicts] == [1, 2]
        rejected = first.transact(self.own_commit(3, 1))  # it has not seen the second
        other = self.open()
        second = self.session_again(first, other)
        assert [(each.version, each.error) for each in second.verdicts()] == [
            (1, None),
            (2, None),
            (2, rejected.error),
        ]
        assert second.transact(self.own_commit(2, 1)).version == 2
        with pytest.raises(PayloadMismatch):
            second.transact(self.own_commit(2))
        with pytest.raises(SessionRevoked):
            first.transact(self.own_commit(4))
        assert second.transact(self.own_commit(4, 1, 2)).version == 3
        assert self.space.version == 3

    def test_a_key_that_others_have_used_is_answered_and_makes_nothing(self) -> None:
        self.space.set(A, 1, key="k")
        sitting = self.session_desk().open()
        assert sitting.transact(self.own_commit(1, key="k")).version == 1
        assert sitting.transact(self.own_commit(2, id=B, key="k")).error is not None
        assert sitting.transact(self.own_commit(3)).version == 2

    def test_an_erasure_takes_the_digests_of_what_wrote_the_entity(self) -> None:
        sitting = self.session_desk().open()
        sitting.transact(self.own_commit(1))
        sitting.transact(self.own_commit(2, id=B))
        self.space.erase(A, reason="asked to")
        known = [row.body["payload"] is not None for row in self.session_rows("verdict")]
        assert known == [False, True]
        assert self.session_again(sitting).transact(self.own_commit(1)).version == 1

    def test_a_copy_has_no_sessions(self) -> None:
        sitting = self.session_desk().open()
        sitting.transact(self.own_commit(1))
        target = self.open_fresh("target")
        assert self.store.copy("notes", target).ok
        for kind in ("session", "verdict"):
            assert self.session_rows(kind)
            assert not self.session_rows(kind, target)
        with pytest.raises(SessionExpired):
            self.session_again(sitting, target)

    def test_a_session_opens_on_what_its_client_has_seen(self) -> None:
        sitting = self.session_desk().open()
        made = sitting.transact(self.own_commit(1))
        again = self.session_desk(seed=2).open(
            session=sitting.session, token=sitting.token, seen=Mark(made.version, made.hash)
        )
        assert again.decided == 1
        assert self.space.verify().ok
