"""Erasing a whole space: nothing of it is left but one signed row of the store."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.contract.commands import AdoptSpace, EraseSpace, PutPiece, PutSide
from rote.engines.rows import ERASED_SPACE, STORE
from rote.engines.sqlite import SqliteEngine
from rote.errors import Busy, InvalidInput, NotFound
from rote.opening.keys import MemoryKeys
from rote.records.memory import Memory
from rote.space import Store
from rote.testing.space_suite.ground import A, B, SpaceGround, kernel_of, port_of
from rote.testing.stores import StoreSettings, open_on
from rote.values import canonical, decode_canonical, verify_signature

MARK = "the one and only " * 8
SEED = bytes(range(32))


def told(store: Store, did: str) -> dict[str, Any] | None:
    """Return the row of the store about an erased space, read as it is stored."""
    row = kernel_of(port_of(store)).spaces.wiring.engine.reader().side(STORE, ERASED_SPACE, did)
    found: dict[str, Any] | None = None if row is None else decode_canonical(row.body)
    return found


class SpaceErasureTests(SpaceGround):
    def fill_space(self) -> None:
        """Write facts, records, blobs, side rows and derived rows, and a second space."""
        self.space.set(A, {"text": MARK}, key="k")
        self.space.create_branch("other").set(B, MARK)
        Memory(self.space).put("ops", "fact", "1", {"text": MARK}, metadata={"tags": [MARK[:20]]})
        Memory(self.space).list("ops", filters={"tags_any": ["x"]})
        self.space.put_blob(MARK.encode())
        self.port.answer(self.did, PutSide("note", "n", MARK, 0))
        self.store.space("beside").set(A, "stays")

    def erase_space(self, name: str = "notes", **more: Any) -> Any:
        return self.store.erase_space(name, **{"reason": "asked to", "confirm": name, **more})

    # -- what is gone, and what stays --------------------------------------------------------------

    def test_an_erased_space_is_gone_and_the_others_stay(self) -> None:
        self.fill_space()
        version, head, did = self.space.version, self.space.head, self.did
        erasure = self.erase_space()
        assert (erasure.did, erasure.version, erasure.head) == (did, version, head)
        assert erasure.to_dict()["remaining"] == list(erasure.remaining)
        assert [space.name for space in self.store.spaces()] == ["beside"]
        assert self.store.space("beside").get(A) == "stays"
        assert self.store.space("beside").verify().ok
        for call in (
            lambda: self.space.get(A), lambda: self.space.set(A, 1), lambda: self.space.version,
            lambda: self.store.space(did), lambda: self.space.at(1).get(A),
            lambda: next(self.space.watch({"select": {A: {}}}, timeout=0)),
        ):  # fmt: skip
            with pytest.raises(NotFound, match="erased"):
                call()

    def test_no_row_and_no_byte_of_an_erased_space_is_left(self) -> None:
        self.fill_space()
        self.erase_space()
        path = self.place / "backup.db"
        self.store.backup(path)
        assert MARK[:16].encode() not in path.read_bytes()
        restored = open_on(SqliteEngine(path), StoreSettings(), keys=MemoryKeys())
        self._opened.append(restored)
        assert [space.name for space in restored.spaces()] == ["beside"]
        assert told(restored, self.did) == told(self.store, self.did) is not None

    def test_one_signed_row_of_an_erased_space_stays(self) -> None:
        self.fill_space()
        head, version = self.space.head, self.space.version
        erasure = self.erase_space(reason="request 17")
        row = told(self.store, self.did)
        assert row is not None
        signature = bytes.fromhex(row.pop("signature"))
        assert row == {
            "kind": "erased_space/1", "did": self.did, "version": version, "head": head,
            "at": erasure.at, "author": None, "reason": "request 17",
        }  # fmt: skip
        assert verify_signature(self.did, b"rote erased_space/1\0" + canonical(row), signature)

    def test_an_empty_space_can_be_erased(self) -> None:
        erasure = self.erase_space()
        assert (erasure.version, erasure.head) == (0, None)
        assert self.store.spaces() == []
        with pytest.raises(NotFound, match="erased"):
            self.space.set(A, 1)

    def test_the_name_of_an_erased_space_is_free_for_another_did(self) -> None:
        self.fill_space()
        old = self.did
        self.erase_space()
        again = self.store.space("notes")
        assert (again.did != old, again.version, again.get(A)) == (True, 0, None)
        again.set(A, "new")
        with pytest.raises(NotFound, match="asked to"):
            self.store.space(old)
        assert again.verify().ok
        assert again.get(A) == "new"

    def test_the_key_of_an_erased_space_goes_and_a_key_that_is_elsewhere_is_told(self) -> None:
        keys = kernel_of(self.port).spaces.wiring.keys
        first, second = self.did, self.store.space("other").did
        assert keys.load(first) is not None
        assert not any(first in place for place in self.erase_space().remaining)
        assert keys.load(first) is None
        keys.discard(second)
        remaining = self.erase_space("other").remaining
        assert any(second in place and "key" in place for place in remaining)
        row = told(self.store, second)
        assert row is not None
        assert row["signature"] is None

    # -- bad input ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("confirm", ["", "note", "Notes", None, True, 7])
    def test_another_confirmation_erases_nothing(self, confirm: Any) -> None:
        self.space.set(A, 1)
        with pytest.raises(InvalidInput):
            self.port.answer("", EraseSpace("notes", "r", confirm))
        with pytest.raises(InvalidInput):
            self.erase_space(self.did, confirm="notes")
        assert self.space.get(A) == 1

    @pytest.mark.parametrize("reason", ["", None, 7, " ", "x" * 1_025])
    def test_an_erasure_of_a_space_needs_a_reason(self, reason: Any) -> None:
        self.space.set(A, 1)
        with pytest.raises(InvalidInput):
            self.erase_space(reason=reason)
        assert self.space.get(A) == 1

    def test_a_space_that_is_not_there_is_not_found(self) -> None:
        for name in ("unknown", "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"):
            with pytest.raises(NotFound):
                self.erase_space(name)
        with pytest.raises(InvalidInput):
            self.erase_space("no name at all!", confirm="no name at all!")
        assert self.erase_space(self.did).did == self.did
        with pytest.raises(NotFound, match="erased"):
            self.erase_space(self.did)
        with pytest.raises(NotFound):
            self.erase_space("notes")

    # -- it does not come back ---------------------------------------------------------------------

    def test_a_copy_does_not_bring_an_erased_space_back(self) -> None:
        self.space.set(A, MARK)
        copies = self.open_fresh("copies")
        assert self.store.copy("notes", copies).ok
        self.erase_space()
        with pytest.raises(NotFound, match="erased"):
            copies.copy("notes", self.store)
        with pytest.raises(NotFound, match="erased"):
            self.port.answer("", AdoptSpace(self.did, "elsewhere"))
        assert self.store.spaces() == []

    def test_the_seed_of_an_erased_space_makes_no_space_of_that_did(self) -> None:
        store = self.open_fresh("seeded", seed=SEED)
        did = store.space("x").did
        store.erase_space("x", reason="r", confirm="x")
        is_shared = isinstance(self, SharedSpaceErasureTests)
        again = self.open(self.place / "seeded", seed=SEED) if is_shared else store
        if is_shared:
            with pytest.raises(NotFound, match="erased"):
                again.space("y")
        assert did not in [space.did for space in store.spaces()]

    # -- beside others -----------------------------------------------------------------------------

    def test_pieces_and_side_rows_for_an_erased_space_are_refused(self) -> None:
        opened = kernel_of(self.port).spaces.open(self.did)
        self.erase_space()
        kernel_of(self.port).spaces.opened[self.did] = opened  # as in a process that has it open
        for command in (
            PutSide("note", "n", MARK, 0),
            PutPiece(None, 0, MARK.encode()),
        ):
            with pytest.raises(NotFound):
                self.port.answer(self.did, command)

    def test_what_a_failure_has_left_is_finished_by_its_did(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = type(kernel_of(self.port).spaces.wiring.engine)
        self.fill_space()

        def busy(*_: Any, **named: Any) -> Any:
            raise Busy("somebody reads")

        with monkeypatch.context() as patch:
            patch.setattr(engine, "scrub", busy)
            with pytest.raises(Busy, match=self.did):
                self.erase_space()
        assert [space.name for space in self.store.spaces()] == ["beside"]
        erasure = self.erase_space(self.did)
        assert erasure.version > 0
        with pytest.raises(NotFound):
            self.erase_space(self.did)

    def test_what_a_failure_has_left_is_finished_by_a_collection_of_another_space(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = type(kernel_of(self.port).spaces.wiring.engine)
        self.fill_space()
        beside = self.store.space("beside")
        with monkeypatch.context() as patch:
            patch.setattr(engine, "scrub", lambda *_, **named: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                self.erase_space()
        assert beside.gc().is_shrunk
        assert not beside.gc().is_shrunk
        with pytest.raises(NotFound, match="erased"):
            self.erase_space(self.did)


class SharedSpaceErasureTests(SpaceErasureTests):
    def test_a_number_is_not_given_again_while_others_hold_it(self) -> None:
        """A process that had the erased space open would else read and write another space."""
        others = self.open()
        held = others.space("notes")
        self.space.set(A, 1)
        assert held.get(A) == 1
        self.erase_space()
        self.store.space("new").set(A, "of another")
        for call in (lambda: held.get(A), lambda: held.set(A, 2), lambda: held.put_blob(b"x")):
            with pytest.raises(NotFound):
                call()
        assert self.store.space("new").get(A) == "of another"
        assert self.store.space("new").verify().ok

    def test_nothing_is_read_from_a_space_that_others_have_erased(self) -> None:
        """An entity that was not cached was absent, as if the space were there."""
        self.space.set(A, 1)
        self.space.set(B, 1)
        held = self.open().space("notes")
        assert held.get(A) == 1
        past, records = held.at(1), Memory(held)
        self.erase_space()
        calls: list[Callable[[], Any]] = [
            lambda: held.get(A),
            lambda: held.get(B),
            lambda: held.read("urn:never"),
            lambda: held.read_many([A, B]),
            lambda: list(held.scan()),
            lambda: held.history(B),
            lambda: past.get(B),
            lambda: records.get("ops", "k", "1"),
            lambda: records.list("ops"),
            lambda: records.delete("ops", "k", "1"),
            lambda: records.erase("ops", reason="asked to"),
            held.checkpoint,
            held.verify,
        ]
        for call in calls:
            with pytest.raises(NotFound):
                call()

    def test_a_run_in_an_erased_space_ends_with_not_found(self) -> None:
        others = self.open(modes=("buffered_write",))
        with (
            pytest.raises(NotFound),
            others.space("notes").run(
                workflow_id="w", model=None, policy_set_id="p", mode="buffered_write"
            ) as run,
        ):
            run.set(A, MARK)
            self.erase_space()
        assert others.runs() == []
