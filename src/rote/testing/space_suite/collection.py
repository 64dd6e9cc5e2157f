"""Garbage collection: data that nothing refers to is deleted after a while, and no other data ever is."""

import io
import threading
from typing import Any

import pytest

from rote.contract.commands import CollectGarbage
from rote.errors import InvalidInput, NotFound, Unavailable
from rote.kernel.keeping import gc
from rote.testing.space_suite.blobs import Trickle, adopt, hash_of, meta, payload_of
from rote.testing.space_suite.ground import A, B, SpaceGround, add, change, put, remove
from rote.values.limits import BLOB_PIECE_BYTES, GC_GRACE_SECONDS, UPLOAD_IDLE_SECONDS_MAX

ROUNDS = 12


class CollectionTests(SpaceGround):
    def put_undescribed(self, data: bytes = b"abc") -> str:
        hash = self.space.put_blob(data)
        self.space.delete(meta(hash))
        return hash

    def is_kept(self, hash: str) -> bool:
        """Whether the blob is still there after a collection, long after."""
        self.clock.move(seconds=1e6)
        self.space.gc()
        assert self.space.verify().ok
        try:
            self.space.blob(hash)
        except NotFound:
            return False
        return True

    def test_an_empty_space_has_nothing_to_collect(self) -> None:
        report = self.space.gc()
        assert report.to_dict() == {
            "blobs": 0,
            "uploads": 0,
            "size_bytes": 0,
            "kept": 0,
            "snapshots": 0,
            "erasures": 0,
            "is_shrunk": False,
        }

    def test_a_blob_that_nothing_refers_to_goes_after_the_grace_period(self) -> None:
        hash = self.put_undescribed(payload_of(700_000))
        assert self.space.gc().blobs == 0
        self.clock.move(seconds=GC_GRACE_SECONDS - 1)
        assert self.space.gc().blobs == 0
        assert self.space.blob(hash) == payload_of(700_000)
        self.clock.move(seconds=1)
        report = self.space.gc()
        assert (report.blobs, report.size_bytes, report.kept) == (1, 700_000, 0)
        for use in (self.space.blob, self.space.open_blob, self.space.blob_info):
            with pytest.raises(NotFound):
                use(hash)
        assert self.space.verify().ok
        assert self.space.gc().to_dict() == {
            "blobs": 0,
            "uploads": 0,
            "size_bytes": 0,
            "kept": 0,
            "snapshots": 0,
            "erasures": 0,
            "is_shrunk": False,
        }

    def test_the_grace_period_begins_when_the_last_description_goes(self) -> None:
        hash = self.space.put_blob(b"abc")
        self.clock.move(seconds=1e6)
        self.space.delete(meta(hash))
        assert self.space.gc().blobs == 0
        assert self.space.gc(grace_seconds=0.0).blobs == 1

    def test_a_blob_that_a_copy_has_brought_waits_for_its_description(self) -> None:
        assert adopt(self.port, self.did, hash_of(b"abc"), b"abc")
        assert self.space.gc().blobs == 0
        self.clock.move(seconds=GC_GRACE_SECONDS)
        assert self.space.gc().blobs == 1

    def test_collecting_moves_no_version_and_changes_no_value(self) -> None:
        self.put_undescribed()
        self.space.set(A, {"x": 1})
        version, head = self.space.version, self.space.head
        self.clock.move(seconds=1e6)
        assert self.space.gc().blobs == 1
        assert (self.space.version, self.space.head, self.space.get(A)) == (version, head, {"x": 1})

    def test_a_blob_that_is_described_stays(self) -> None:
        hash = self.space.put_blob(b"abc")
        assert self.is_kept(hash)
        self.space.set(meta(hash), "whatever it says")
        assert self.is_kept(hash)

    @pytest.mark.parametrize(
        "value",
        [
            {"$blob": "{}"},
            [1, [{"deep": [{"$blob": "{}"}]}]],
            {"$blob": "{}", "beside": 1},
            {"$blob": {"$blob": "{}"}},
        ],
        ids=repr,
    )
    def test_a_blob_that_a_value_refers_to_stays(self, value: Any) -> None:
        hash = self.put_undescribed()
        self.space.set(A, _filled(value, hash))
        assert self.is_kept(hash)

    @pytest.mark.parametrize(
        "value",
        ["{}", {"blob": "{}"}, {"$blob": ["{}"]}, {"{}": "$blob"}, {"$blob": "x{}"}],
        ids=repr,
    )
    def test_what_only_looks_like_a_reference_keeps_nothing(self, value: Any) -> None:
        hash = self.put_undescribed()
        self.space.set(A, _filled(value, hash))
        assert not self.is_kept(hash)

    def test_a_value_of_the_past_refers_as_one_of_today_does(self) -> None:
        hash = self.put_undescribed()
        self.space.set(A, {"$blob": hash})
        self.space.set(A, "replaced")
        self.space.delete(A)
        assert self.is_kept(hash)
        assert self.space.blob(self.space.at(3).get(A)["$blob"]) == b"abc"

    def test_a_value_that_came_before_the_blob_refers_to_it(self) -> None:
        self.space.set(A, {"$blob": hash_of(b"abc")})
        hash = self.put_undescribed()
        assert self.is_kept(hash)

    @pytest.mark.parametrize(
        "ops",
        [
            [{"op": "add", "path": "/file", "value": {"$blob": "{}"}}],
            [{"op": "replace", "path": "/slot/$blob", "value": "{}"}],
            [{"op": "move", "from": "/hash", "path": "/slot/$blob"}],
            [{"op": "copy", "from": "/hash", "path": "/slot/$blob"}],
            [{"op": "splice", "path": "/list", "index": 0, "remove": 0, "add": [{"$blob": "{}"}]}],
            [{"op": "add", "path": "/list/0/$blob", "value": "{}"}],
        ],
        ids=repr,
    )
    def test_a_patched_value_refers_however_the_patch_made_it(self, ops: list[Any]) -> None:
        """A collector once read only the bodies of facts, and missed a hash that a patch had moved
        to a place where it became a reference. Small documents carry snapshots, large ones are
        replayed."""
        for size in (1, 3_000):
            hash = self.put_undescribed(b"%d" % size)
            document = {"hash": hash, "slot": {"$blob": None}, "list": [{}], "text": "x" * size}
            self.space.set(A, document)
            self.space.patch(A, [_filled(operation, hash) for operation in ops])
            self.space.delete(A)
            assert self.is_kept(hash)

    def test_a_reference_that_lasted_for_one_commit_counts(self) -> None:
        hash = self.put_undescribed()
        self.space.set(A, {"text": "x" * 3_000})
        self.space.patch(A, [add("/file", {"$blob": hash})])
        self.space.patch(A, [{"op": "remove", "path": "/file"}])
        assert self.is_kept(hash)

    def test_references_in_transactions_and_in_other_spaces(self) -> None:
        kept, gone = self.put_undescribed(b"kept"), self.put_undescribed(b"gone")
        self.space.transact(
            [put(A, 1), change(B, add("/x", 1), **{"else": {"$blob": kept}}), remove(A)]
        )
        self.store.space("other").set(A, {"$blob": gone})
        assert self.is_kept(kept)
        assert not self.is_kept(gone)

    def test_a_collected_blob_can_be_put_again(self) -> None:
        hash = self.put_undescribed()
        assert not self.is_kept(hash)
        assert self.space.put_blob(b"abc") == hash
        assert self.is_kept(hash)

    def test_many_are_collected_and_their_neighbours_stay(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gc, "GC_BATCH", 3)
        monkeypatch.setattr(gc, "GC_CANDIDATES_MAX", 4)
        monkeypatch.setattr(gc, "PAGE_MAX", 2)
        hashes = [self.space.put_blob(b"%d" % number) for number in range(30)]
        gone = hashes[::3]
        self.space.transact([remove(meta(hash)) for hash in gone])
        self.space.set(A, {"$blob": gone[0]})
        self.clock.move(seconds=1e6)
        told: list[tuple[str, int, int]] = []
        report = self.space.gc(progress=lambda *words: told.append(words))
        assert (report.blobs, report.kept) == (9, 21)
        assert {phase for phase, _, _ in told} == {"reading", "dropping", "thinning"}
        for hash in hashes:
            if hash in gone[1:]:
                with pytest.raises(NotFound):
                    self.space.blob(hash)
            else:
                assert hash_of(self.space.blob(hash)) == hash
        assert self.space.verify().ok

    @pytest.mark.parametrize(
        "grace", [-1, float("nan"), float("inf"), 1e308, "1", None, True], ids=repr
    )
    def test_a_grace_period_that_cannot_be_is_refused(self, grace: Any) -> None:
        with pytest.raises(InvalidInput):
            self.space.gc(grace_seconds=grace)

    def test_a_space_is_collected_through_the_port(self) -> None:
        self.put_undescribed()
        assert self.port.begin(self.did, CollectGarbage(grace_seconds=0)).result().blobs == 1

    # -- snapshots ---------------------------------------------------------------------------------

    def test_superseded_snapshots_go_and_every_answer_stays(self) -> None:
        for number in range(100):
            self.space.patch(A, [add(f"/{number % 7}", number)]) if number else self.space.set(
                A, {}
            )
            if number % 10 == 5:
                self.space.set(B, number)
        self.space.delete(B)
        versions = range(self.space.version + 1)
        before = [
            (self.space.at(version).get(A), self.space.at(version).get(B)) for version in versions
        ]
        history = self.space.history(A)
        # Of 99 patches the newest keeps its snapshot, and of the others one in 32.
        assert self.space.gc().snapshots == 98 - 3
        assert self.space.gc().snapshots == 0
        fresh = self.store.space("notes")
        assert [(fresh.at(v).get(A), fresh.at(v).get(B)) for v in versions] == before
        assert fresh.history(A) == history
        assert self.space.verify().ok
        self.space.patch(A, [add("/more", 1)])
        assert self.space.get(A)["more"] == 1
        assert self.space.verify().ok

    # -- uploads -----------------------------------------------------------------------------------

    def test_a_slow_upload_is_never_taken_for_one_that_was_given_up(self) -> None:
        """An upload may take any time in all, as long as some bytes arrive now and then."""
        data = payload_of(3 * BLOB_PIECE_BYTES)
        step, collected = UPLOAD_IDLE_SECONDS_MAX / 4, []

        class Slow(Trickle):
            def read(slow, size: int = -1, /) -> bytes:  # noqa: N805 - `self` is the test
                self.clock.move(seconds=step)
                collected.append(self.space.gc(grace_seconds=0).uploads)
                return super().read(size)

        assert self.space.put_blob(Slow(data, step=BLOB_PIECE_BYTES // 2 + 1)) == hash_of(data)
        assert collected and not any(collected)
        assert self.space.blob(hash_of(data)) == data

    def test_an_upload_that_was_given_up_is_collected_and_cannot_go_on(self) -> None:
        data = payload_of(BLOB_PIECE_BYTES + 5)

        class Stuck(Trickle):
            def read(stuck, size: int = -1, /) -> bytes:  # noqa: N805 - `self` is the test
                part = super().read(size)
                if not part:
                    self.clock.move(seconds=UPLOAD_IDLE_SECONDS_MAX)
                    reports.append(self.space.gc())
                return part

        reports: list[Any] = []
        with pytest.raises(Unavailable, match="put it again"):
            self.space.put_blob(Stuck(data, step=BLOB_PIECE_BYTES))
        assert (reports[0].uploads, reports[0].size_bytes) == (1, BLOB_PIECE_BYTES)
        assert self.space.verify().ok
        with pytest.raises(NotFound):
            self.space.blob(hash_of(data))
        assert self.space.put_blob(data) == hash_of(data)

    # -- beside writers ----------------------------------------------------------------------------

    def test_whoever_puts_while_others_collect_has_the_blob(self) -> None:
        """There is no grace period, so that collections meet every moment of a put."""
        stop, problems = threading.Event(), []

        def collect() -> None:
            try:
                while not stop.is_set():
                    self.space.gc(grace_seconds=0)
            except BaseException as error:
                problems.append(error)

        collector = threading.Thread(target=collect)
        collector.start()
        try:
            for number in range(ROUNDS):
                data = b"the same" if number % 2 else payload_of(300_000)
                hash = self.space.put_blob(data if number % 3 else io.BytesIO(data))
                assert self.space.blob(hash) == data
                self.space.delete(meta(hash))
        finally:
            stop.set()
            collector.join()
        assert problems == []
        assert self.space.verify().ok


def _filled(value: Any, hash: str) -> Any:
    """Return the value with the hash in place of {}."""
    if isinstance(value, str):
        return value.replace("{}", hash)
    if isinstance(value, list):
        return [_filled(item, hash) for item in value]
    if isinstance(value, dict):
        return {name.replace("{}", hash): _filled(item, hash) for name, item in value.items()}
    return value
