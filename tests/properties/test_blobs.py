"""Blobs beside a plain model: after any history the same ones are there, with the same bytes."""

import copy
import io
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rote.contract.commands import AdoptSpace, CopyIn, CopyOut, ListBlobs
from rote.errors import PatchFailed
from rote.kernel.blobs import blob_data
from rote.space import Space, blobs
from rote.testing import FixedClock, StoreSettings
from rote.testing.naive_patch import DoesNotApply, apply_naively
from rote.testing.space_suite.blobs import adopt
from tests.lanes import examples
from tests.properties.test_model import open_file, open_memory, open_postgres

OPENERS = {"file": open_file, "memory": open_memory, "postgres": open_postgres}
EXAMPLES = {"file": (30, 500), "memory": (100, 3_000), "postgres": (15, 200)}

PAYLOADS = [b"", b"c" * 100]
HASHES = [sha256(payload).hexdigest() for payload in PAYLOADS]
IDS = ("urn:a", "urn:b")
LARGE = "x" * 2_000  # too large to carry its snapshot

Step = tuple[str, int, int]


def shapes(hash: str) -> list[Any]:
    """Return values that refer, only look as if, or could come to refer."""
    return [
        {"$blob": hash},
        {"text": LARGE, "list": [{"$blob": hash}]},
        {"text": LARGE, "hash": hash, "slot": {"$blob": None}, "list": []},
        {"hash": hash, "slot": {}, "list": [hash]},
        {"blob": hash, "$blob": [hash]},
        [hash],
    ]


def patches(hash: str) -> list[list[dict[str, Any]]]:
    return [
        [{"op": "add", "path": "/slot", "value": {"$blob": hash}}],
        [{"op": "add", "path": "/slot/$blob", "value": hash}],
        [{"op": "copy", "from": "/hash", "path": "/slot/$blob"}],
        [{"op": "move", "from": "/hash", "path": "/slot/$blob"}],
        [{"op": "splice", "path": "/list", "index": 0, "remove": 1, "add": [{"$blob": hash}]}],
        [{"op": "remove", "path": "/slot"}],
        [{"op": "remove", "path": "/list"}],
        [{"op": "replace", "path": "/hash", "value": hash}],
        [
            {"op": "add", "path": "/slot", "value": {"$blob": hash}},
            {"op": "move", "from": "/slot", "path": "/kept"},
        ],
    ]


class Model:
    """Everything that was ever visible, searched from the start each time."""

    def __init__(self) -> None:
        self.now = 0
        self.values: dict[str, Any] = {}
        self.seen: list[Any] = []
        self.there: dict[int, int] = {}  # blobs, with the time they came
        self.described: set[int] = set()
        self.forgotten: dict[int, int] = {}  # when the last description was deleted

    def write(self, id: str, value: Any) -> None:
        self.values[id] = copy.deepcopy(value)
        self.seen.append(copy.deepcopy(value))

    def collect(self, grace: int) -> None:
        for number in list(self.there):
            last = max(self.there[number], self.forgotten.get(number, 0))
            is_old = last <= self.now - grace
            if is_old and number not in self.described and not self._refers(HASHES[number]):
                del self.there[number]

    def _refers(self, hash: str) -> bool:
        return any(_holds(value, hash) for value in self.seen)


def _holds(value: Any, hash: str) -> bool:
    if isinstance(value, dict):
        return value.get("$blob") == hash or any(_holds(part, hash) for part in value.values())
    return isinstance(value, list) and any(_holds(part, hash) for part in value)


STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "stream", "toss", "toss", "forget", "write", "patch", "delete", "wait", "gc"]
        ),
        st.integers(0, len(PAYLOADS) - 1),
        st.integers(0, 17),
    ),
    min_size=5,
    max_size=30,
)


@pytest.mark.parametrize("kind", OPENERS)
def test_the_blobs_of_any_story_are_those_of_the_model(kind: str) -> None:
    @settings(max_examples=examples(*EXAMPLES[kind]))
    @given(story=STEPS)
    def tell(story: list[Step]) -> None:
        clock = FixedClock()
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patching:
            patching.setattr(blob_data, "BLOB_CHUNK_BYTES", 7)
            for module in (blob_data, blobs):
                patching.setattr(module, "BLOB_PIECE_BYTES", 30)
            with OPENERS[kind](Path(folder), StoreSettings(clock=clock)) as store:
                space, model = store.space("notes"), Model()
                for step in [*story, ("gc", 0, 0)]:
                    _take(space, clock, model, step)
                    _compare(space, model)
                report = space.verify()
                assert report.ok, report.faults
                _compare_copy(space, model)

    tell()


def _take(space: Space, clock: FixedClock, model: Model, step: Step) -> None:
    word, number, choice = step
    hash, id = HASHES[number], IDS[choice % len(IDS)]
    if word == "toss":
        # Most histories would otherwise never have a blob that only values can keep.
        _take(space, clock, model, ("put", number, choice))
        _take(space, clock, model, ("forget", number, choice))
    elif word in ("put", "stream"):
        data = PAYLOADS[number]
        assert space.put_blob(data if word == "put" else io.BytesIO(data)) == hash
        model.there.setdefault(number, model.now)
        model.described.add(number)
    elif word == "forget" and number in model.described:
        space.delete(f"urn:blob-meta:{hash}")
        model.described.remove(number)
        model.forgotten[number] = model.now
    elif word == "write":
        value = shapes(hash)[choice % 6]
        space.set(id, value)
        model.write(id, value)
    elif word == "patch" and id in model.values:
        _patch(space, model, id, patches(hash)[choice % 9])
    elif word == "delete" and id in model.values:
        space.delete(id)
        del model.values[id]
    elif word == "wait":
        clock.move(seconds=choice)
        model.now += choice
    elif word == "gc":
        before, grace = len(model.there), max(choice - 9, 0)
        model.collect(grace)
        report = space.gc(grace_seconds=grace)
        assert (report.blobs, report.kept) == (before - len(model.there), len(model.there))


def _patch(space: Space, model: Model, id: str, ops: list[dict[str, Any]]) -> None:
    try:
        value = apply_naively(model.values[id], ops)
    except DoesNotApply:
        with pytest.raises(PatchFailed):
            space.patch(id, ops)
        return
    space.patch(id, ops)
    model.write(id, value)


def _compare(space: Space, model: Model) -> None:
    listed = space._port.answer(space.did, ListBlobs(after="", limit=99))
    assert {part.hash for part in listed} == {HASHES[number] for number in model.there}


def _compare_copy(space: Space, model: Model) -> None:
    """Compare the bytes, here and in a copy."""
    with open_memory(Path(), StoreSettings()) as target:
        page = space._port.answer(space.did, CopyOut(since=0, until=space.version))
        target._port.answer("", AdoptSpace(space.did, "notes"))
        for number in model.there:
            with space.open_blob(HASHES[number]) as file:
                assert adopt(target._port, space.did, HASHES[number], file.read())
        if page.commits:
            target._port.answer(space.did, CopyIn(page))
        copied = target.space("notes")
        for number in model.there:
            assert copied.blob(HASHES[number]) == space.blob(HASHES[number]) == PAYLOADS[number]
