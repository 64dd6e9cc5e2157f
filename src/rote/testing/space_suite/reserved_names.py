"""Reserved names: spaces of the library itself, which no caller lists, opens, erases, adopts or copies."""

from collections.abc import Callable

import pytest

from rote.contract import Caller
from rote.contract.commands import (
    AdoptSpace,
    Describe,
    EraseSpace,
    FindSpace,
    ListSpaces,
    MakeCommit,
    Verify,
)
from rote.errors import Denied, InvalidInput, NotFound
from rote.space import Space
from rote.space.store import every_space, own_space
from rote.testing.space_suite.ground import A, SpaceGround, port_of, put

OWN = "rote.server"


class ReservedNameTests(SpaceGround):
    def reserve(self) -> Space:
        own = own_space(self.store, OWN, create=True)
        own.set(A, "own")
        return own

    def is_reserved(self, call: Callable[..., object], *arguments: object) -> None:
        with pytest.raises(Denied) as caught:
            call(*arguments)
        assert caught.value.code == "reserved_name"

    @pytest.mark.parametrize("name", ["rote.", OWN, "rote.other", "rote..", "rote.Server"])
    def test_a_reserved_name_is_refused_whether_there_is_such_a_space(self, name: str) -> None:
        self.reserve()
        self.is_reserved(self.store.space, name)
        self.is_reserved(self.port.answer, "", FindSpace(name))
        assert [space.name for space in self.store.spaces()] == ["notes"]

    @pytest.mark.parametrize("name", ["rote", "Rote.server", "rotes", "my.rote.server", "rote-x"])
    def test_other_names_are_free(self, name: str) -> None:
        self.store.space(name).set(A, 1)
        assert name in [space.name for space in self.store.spaces()]

    def test_a_reserved_space_is_refused_by_did_too_also_when_it_is_open(self) -> None:
        did = self.reserve().did
        self.is_reserved(self.store.space, did)
        for name in (did, OWN):
            self.is_reserved(self.port.answer, name, Describe())
            self.is_reserved(self.port.answer, name, MakeCommit([put(A, 2)]))
            self.is_reserved(self.port.begin, name, Verify())
        assert own_space(self.store, OWN).get(A) == "own"

    def test_a_reserved_space_is_neither_erased_nor_adopted_nor_copied(self) -> None:
        own = self.reserve()
        target = self.open_fresh("target")
        for name in (OWN, own.did):
            self.is_reserved(self.port.answer, "", EraseSpace(name, "why", name))
            self.is_reserved(self.store.copy, name, target)
        self.is_reserved(port_of(target).answer, "", AdoptSpace(own.did, OWN))
        self.is_reserved(self.port.answer, "", AdoptSpace(own.did, "another"))
        assert every_space(target) == []
        assert own.get(A) == "own"

    def test_the_library_sees_its_own_spaces_and_no_others(self) -> None:
        own = self.reserve()
        library = self.port.for_caller(Caller(is_library=True))
        assert [info.name for info in library.answer("", ListSpaces()).spaces] == [OWN]
        self.is_reserved(library.answer, "", FindSpace("notes", create=True))
        self.is_reserved(library.answer, self.did, Describe())
        with pytest.raises(NotFound):
            own_space(self.store, "rote.absent")
        with pytest.raises(InvalidInput):
            own_space(self.store, "no name")
        assert [space.did for space in every_space(self.store)] == [self.did, own.did]

    def test_a_reserved_space_verifies_and_takes_no_part_in_runs_and_receipts(self) -> None:
        own = self.reserve()
        assert own.verify().ok
        self.is_reserved(self.store.add_receipt, OWN, {})
        assert (self.store.runs(), self.store.receipts(), self.store.recover()) == ([], [], [])

    def test_a_backup_carries_reserved_spaces(self) -> None:
        own = self.reserve()
        path = self.place / "backup.db"
        self.store.backup(path)
        assert own.did.encode() in path.read_bytes()
