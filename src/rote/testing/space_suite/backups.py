"""Backups: a SQLite store that holds everything, made while others write."""

import threading

import pytest

from rote.contract.commands import GetSide, PutSide
from rote.engines.sqlite import SqliteEngine
from rote.errors import Denied, InvalidInput
from rote.opening.keys import MemoryKeys
from rote.space import Store
from rote.testing.space_suite.ground import A, B, SpaceGround, logged, port_of, put, remove
from rote.testing.stores import StoreSettings, open_on

WRITES = 60


class BackupTests(SpaceGround):
    def restore(self, name: str) -> Store:
        """Open the backup as an embedded store, without the keys: they are kept elsewhere."""
        engine = SqliteEngine(self.place / name, create=False)
        store = open_on(engine, StoreSettings(clock=self.clock, ids=self.ids), keys=MemoryKeys())
        self._opened.append(store)
        return store

    def test_a_backup_holds_every_space_with_its_whole_history(self) -> None:
        other = self.store.space("other")
        self.space.transact([put(A, 1), put(B, 2)], key="k", meta={"m": 1})
        self.space.transact([remove(B)])
        other.set(A, "there")
        port_of(self.store).answer(self.did, PutSide("run", "r", {"n": 1}, fence=0))
        self.store.backup(self.place / "copy.db")
        restored = self.restore("copy.db")
        assert [space.name for space in restored.spaces()] == ["notes", "other"]
        copy = restored.space("notes")
        assert (copy.did, copy.head) == (self.did, self.space.head)
        assert logged(copy) == logged(self.space)
        assert restored.space("other").get(A) == "there"
        assert port_of(restored).answer(self.did, GetSide("run", "r")) == self.port.answer(
            self.did, GetSide("run", "r")
        )
        assert copy.verify().ok

    def test_a_backup_goes_on_by_itself(self) -> None:
        first = self.space.set(A, 1, key="k")
        self.store.backup(self.place / "copy.db")
        copy = self.restore("copy.db").space("notes")
        assert copy.set(A, 1, key="k") == first
        assert copy.set(A, 2).version == 2
        assert (self.space.version, self.space.get(A)) == (1, 1)

    def test_a_backup_proves_its_checkpoints_and_cannot_sign_without_the_key(self) -> None:
        self.space.set(A, 1)
        checkpoint = self.space.checkpoint()
        self.store.backup(self.place / "copy.db")
        copy = self.restore("copy.db").space("notes")
        assert copy.verify(against=checkpoint).ok
        with pytest.raises(Denied):
            copy.checkpoint()

    def test_a_backup_overwrites_nothing(self) -> None:
        path = self.place / "precious"
        path.write_text("mine")
        with pytest.raises(InvalidInput):
            self.store.backup(path)
        assert path.read_text() == "mine"

    def test_a_backup_beside_a_writer_is_one_committed_version(self) -> None:
        started = threading.Event()

        def write() -> None:
            for number in range(WRITES):
                self.space.transact([put(A, number), put(B, number)])
                started.set()

        writer = threading.Thread(target=write)
        writer.start()
        started.wait()
        self.store.backup(self.place / "copy.db")
        writer.join()
        copy = self.restore("copy.db").space("notes")
        assert 1 <= copy.version <= WRITES
        assert copy.get(A) == copy.get(B) == copy.version - 1
        assert copy.verify().ok
        assert self.space.version == WRITES
