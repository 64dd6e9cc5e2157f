"""Erasures between two reads of another call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import rote
from rote.contract import Remains
from rote.engines import Reader
from rote.errors import InvalidInput
from rote.kernel import Kernel
from rote.kernel.keeping.snapshot_thinning import _rewrite, _superseded
from rote.kernel.log.erased_facts import check_remains
from rote.kernel.proving.blob_pass import inspect_blobs
from rote.kernel.proving.foundation_pass import inspect_foundation
from rote.kernel.proving.index_pass import inspect_indexes
from rote.kernel.proving.inspection import Inspection
from rote.kernel.proving.log_pass import inspect_log
from rote.kernel.proving.pointer_pass import inspect_entities
from tests.faults.tampering import Tags, open_port

ID = "urn:a"  # sorts before all others, so that it is being read


class Meddled:
    """A reader after one of whose calls something happens, once."""

    def __init__(self, reads: Reader, after: str, meddle: Callable[[], object]) -> None:
        self._reads = reads
        self._after = after
        self._meddle = meddle
        self.has_meddled = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._reads, name)

        def meddled(*arguments: Any, **named: Any) -> Any:
            found = method(*arguments, **named)
            if name == self._after and not self.has_meddled:
                self.has_meddled = True
                self._meddle()
            return found

        return meddled


@pytest.fixture
def port(store_path: Path) -> Any:
    kernel = open_port(store_path)
    yield kernel
    kernel.close()


def write(port: Kernel) -> rote.Space:
    space = rote.Store(port, url="", local=port).space("agent")
    space.set(ID, {"tag": "one", "text": "x" * 2_000})
    for number in range(40):
        space.patch(ID, [{"op": "add", "path": "/n", "value": number}])
    space.patch(ID, [{"op": "replace", "path": "/text", "value": ""}])
    for number in range(40):
        space.patch(ID, [{"op": "add", "path": "/n", "value": number}])
    return space


PASSES: list[tuple[Callable[..., None], str]] = [
    (inspect_log, "commits"), (inspect_log, "facts"), (inspect_log, "newest"),
    (inspect_log, "history"), (inspect_entities, "entity_rows"), (inspect_entities, "newest"),
    (inspect_indexes, "indexed"), (inspect_indexes, "entity_rows"), (inspect_indexes, "history"),
    (inspect_indexes, "derived_of"), (inspect_blobs, "entities"),
]  # fmt: skip


@pytest.mark.parametrize(("inspect", "after"), PASSES, ids=lambda value: str(value)[:25])
def test_verify_finds_no_fault_wherever_an_erasure_comes_in_between(
    port: Kernel, inspect: Callable[..., None], after: str
) -> None:
    space = write(port)
    space.put_blob(b"payload")
    inspection = Inspection(
        port.spaces.open(space.did), space.version, lambda what, done, total: None
    )
    for earlier in (inspect_foundation, inspect_log):
        if inspect is not earlier:
            earlier(inspection, port.spaces.wiring.engine.reader())
    reads = Meddled(
        port.spaces.wiring.engine.reader(), after, lambda: space.erase(ID, reason="meanwhile")
    )
    more = {"index": Tags()} if inspect is inspect_indexes else {}
    inspect(inspection, reads, **more)
    assert reads.has_meddled
    assert inspection.faults == []


@pytest.mark.parametrize("after", ["head", "indexed", "entity_rows", "derived_of"])
def test_verify_finds_no_fault_when_others_build_the_index_anew_meanwhile(
    port: Kernel, after: str
) -> None:
    """They drop it first."""
    space = write(port)
    opened, index, engine = port.spaces.open(space.did), Tags(), port.spaces.wiring.engine
    space.reindex()

    def drop() -> None:
        with engine.writer(opened.number) as rows:
            rows.drop_derived(opened.number, index.name)

    inspection = Inspection(opened, space.version, lambda what, done, total: None)
    for earlier in (inspect_foundation, inspect_log):
        earlier(inspection, engine.reader())
    reads = Meddled(engine.reader(), after, drop)
    inspect_indexes(inspection, cast(Reader, reads), index)
    assert reads.has_meddled
    assert inspection.faults == []


def test_thinning_brings_nothing_back_that_was_erased_since_it_looked(port: Kernel) -> None:
    space = write(port)
    opened = port.spaces.open(space.did)
    reads = opened.reader()
    [pointer] = reads.rows.entity_rows(opened.number, after=None, limit=9)
    [page] = _superseded(reads, pointer)
    assert len(page) > 9
    space.erase(ID, reason="meanwhile")
    for again in ("not written since", "written since"):
        assert _rewrite(opened, page) == 0, again
        assert all(fact.erased for fact in space.history(ID)[-82:]), again
        assert space.verify().ok, again
        space.set(ID, 1)


def test_what_is_left_of_an_operation_that_there_is_not_is_refused() -> None:
    """A changed byte made verify end with a KeyError instead of a fault."""
    remains = Remains(body=None, value="0" * 64, version=9)
    with pytest.raises(InvalidInput):
        check_remains(360_287_970_189_639_681, 1, remains)
