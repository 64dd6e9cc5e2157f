"""The newest version and the newest erasure of a space, which every answer of a server tells."""

from rote.contract import Versions
from rote.contract.commands import GetVersions
from rote.testing.space_suite.ground import A, B, C, SpaceGround, port_of, put


class VersionTests(SpaceGround):
    def newest(self, may_be_old: bool = False) -> Versions:
        return self.port.answer(self.did, GetVersions(may_be_old))

    def test_the_newest_erasure_is_told_after_every_kind_of_commit(self) -> None:
        assert self.newest() == Versions(0, 0)
        self.space.transact([put(A, 1), put(B, 1), put(C, 1)])
        assert self.newest() == Versions(1, 0)
        self.space.create_branch("other").set(A, 2)
        assert self.newest() == Versions(3, 0)
        self.space.erase(A, reason="asked to")
        assert self.newest() == Versions(4, 4)
        self.space.merge("other")
        self.space.set(A, 2)
        assert self.newest() == self.newest(may_be_old=True) == Versions(6, 4)
        self.space.erase({"prefix": "urn:"}, reason="asked to")
        assert self.newest() == Versions(7, 7)
        self.space.compact(before=7)
        assert self.newest() == Versions(8, 7)

    def test_other_events_cost_no_erasure_its_place(self) -> None:
        self.space.set(A, 1)
        self.space.erase(A, reason="asked to")
        for number in range(5):
            self.space.create_branch(f"b{number}")
        assert self.newest() == Versions(7, 2)


class SharedVersionTests(SpaceGround):
    def test_an_erasure_of_another_process_is_told(self) -> None:
        self.space.set(A, 1)
        other = self.open()
        assert port_of(other).answer(self.did, GetVersions()) == Versions(1, 0)
        self.space.erase(A, reason="asked to")
        assert port_of(other).answer(self.did, GetVersions()) == Versions(2, 2)
        again = self.open()
        assert port_of(again).answer(self.did, GetVersions(may_be_old=True)) == Versions(2, 2)
