"""Bad input of every kind gives its typed error, stores nothing, and harms nothing.

After each of them the head is where it was, the store verifies and takes the next commit.
"""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import apsw
import pytest

import rote
from rote.engines.sqlite.checksums import checked
from rote.engines.sqlite.schema import FORMAT
from rote.errors import (
    Conflict,
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    NotFound,
    PatchFailed,
    PayloadMismatch,
    RoteError,
    Unavailable,
    VersionNotFound,
)
from rote.values.limits import COMMIT_BYTES_MAX, DEPTH_MAX, MIB, OPERATIONS_MAX, VALUE_BYTES_MAX

ROOT = Path(__file__).parents[2]
ID = "urn:entity:known"
LONE = "\ud800"


class Colour(Enum):
    RED = "red"


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def text_of(size_bytes: int) -> str:
    """Return a string whose canonical form, quotes included, has so many bytes."""
    return "x" * (size_bytes - 2)


VALUES: dict[str, tuple[Any, str]] = {
    "NaN": (math.nan, ""),
    "infinity": ({"a": [math.inf]}, "/a/0"),
    "an integer beyond 64 bit": ({"a": 2**63}, "/a"),
    "an integer below 64 bit": (-(2**63) - 1, ""),
    "a lone surrogate": ({"a": LONE}, "/a"),
    "a lone surrogate in a key": ({LONE: 1}, r"/\ud800"),
    "a key that is no string": ({1: 1}, ""),
    "bytes": (b"x", ""),
    "a set": ({1}, ""),
    "a date": (date(2026, 1, 1), ""),
    "a datetime": ([datetime(2026, 1, 1, tzinfo=UTC)], "/0"),
    "a UUID": (UUID(int=0), ""),
    "an enum": ({"a~/b": Colour.RED}, "/a~0~1b"),
    "an object of a class": (object(), ""),
    "an iterator": (iter([]), ""),
    "too deep": (nested(DEPTH_MAX + 1), "/0" * DEPTH_MAX),
    "a cycle": (cyclic(), "/0" * DEPTH_MAX),
}

IDS: dict[str, Any] = {
    "nothing": "",
    "no scheme": "alice",
    "no rest": "urn:",
    "a space": "urn:entity:a b",
    "a control character": "urn:entity:a\x00b",
    "a star at the end": "urn:entity:*",
    "1,025 bytes": "urn:" + "x" * 1_021,
    "1,025 bytes of two-byte characters": "urn:x" + "é" * 510,
    "a lone surrogate": f"urn:entity:{LONE}",
    "an integer": 7,
    "None": None,
    "bytes": b"urn:entity:a",
}

KEYS: dict[str, Any] = {
    "nothing": "",
    "201 bytes": "x" * 201,
    "a reserved prefix": "rote:mine",
    "a lone surrogate": LONE,
    "an integer": 7,
}

NAMES: dict[str, Any] = {
    "nothing": "",
    "101 characters": "x" * 101,
    "a dot first": ".hidden",
    "a slash": "a/b",
    "a letter beyond ASCII": "é",
    "a line break": "a\n",
    "an integer": 7,
}

OPERATIONS: dict[str, Any] = {
    "none": [],
    "no list": {"op": "set"},
    "text": "set",
    "no object": ["set"],
    "no op": [{"id": ID, "value": 1}],
    "an unknown op": [{"op": "merge", "id": ID}],
    "an op that is no text": [{"op": ["set"], "id": ID}],
    "no id": [{"op": "set", "value": 1}],
    "no value": [{"op": "set", "id": ID}],
    "no ops": [{"op": "patch", "id": ID}],
    "an unknown member": [{"op": "set", "id": ID, "value": 1, "ttl": 5}],
    "a delete with a value": [{"op": "delete", "id": ID, "value": 1}],
    "else on a set": [{"op": "set", "id": ID, "value": 1, "else": 2}],
    "a stamp that is no list": [{"op": "set", "id": ID, "value": {}, "stamp": "/at"}],
    "a stamp without a parent": [{"op": "set", "id": ID, "value": {}, "stamp": ["/a/b"]}],
    "a stamp of everything": [{"op": "set", "id": ID, "value": {}, "stamp": [""]}],
    "a stamp with a bad pointer": [{"op": "set", "id": ID, "value": {}, "stamp": ["at"]}],
    "a bad one after a good one": [{"op": "set", "id": ID, "value": 1}, {"op": "set", "id": "x"}],
}

READS: dict[str, Any] = {
    "no list": {"id": ID, "version": 1},
    "no object": ["read"],
    "no version": [{"id": ID}],
    "a negative version": [{"id": ID, "version": -1}],
    "a version that is a bool": [{"id": ID, "version": True}],
    "a version that is a float": [{"id": ID, "version": 1.0}],
    "a version above the log": [{"id": ID, "version": 99}],
    "a version beyond 64 bit": [{"id": ID, "version": 2**64}],
    "nothing that was read": [{"version": 1}],
    "two things at once": [{"id": ID, "prefix": "urn:", "version": 1}],
    "an unknown member": [{"id": ID, "version": 1, "hash": "x"}],
    "a path in a range": [{"prefix": "urn:", "version": 1, "path": "/a"}],
    "a bad id": [{"id": "x", "version": 1}],
    "a bad pointer": [{"id": ID, "version": 1, "path": "a"}],
    "an escape that is none": [{"id": ID, "version": 1, "path": "/~2"}],
    "a prefix that is no text": [{"prefix": 1, "version": 1}],
    "a prefix with a lone surrogate": [{"prefix": LONE, "version": 1}],
    "an unknown branch": [{"id": ID, "version": 1, "branch": "nowhere"}],
    "a branch that is no name": [{"id": ID, "version": 1, "branch": "/"}],
}

PATCHES: dict[str, list[Any]] = {
    "an unknown op": [{"op": "increment", "path": "/number"}],
    "no object": ["remove"],
    "no path": [{"op": "remove"}],
    "no value": [{"op": "add", "path": "/a"}],
    "no from": [{"op": "move", "path": "/a"}],
    "a bad pointer": [{"op": "remove", "path": "number"}],
    "an escape that is none": [{"op": "remove", "path": "/~"}],
    "a leading zero": [{"op": "replace", "path": "/items/00", "value": 1}],
    "an index past the end": [{"op": "add", "path": "/items/9", "value": 1}],
    "no such member": [{"op": "remove", "path": "/missing"}],
    "no such parent": [{"op": "add", "path": "/missing/member", "value": 1}],
    "a path through a number": [{"op": "add", "path": "/number/a", "value": 1}],
    "a test that fails": [{"op": "test", "path": "/number", "value": 2}],
    "a move into its own child": [{"op": "move", "from": "/items", "path": "/items/0"}],
    "a removal of everything": [{"op": "remove", "path": ""}],
    "a splice of no array": [{"op": "splice", "path": "/number", "index": 0, "remove": 0, "add": []}],
    "a splice past the end": [{"op": "splice", "path": "/items", "index": 4, "remove": 0, "add": []}],
    "a splice below 0": [{"op": "splice", "path": "/items", "index": -1, "remove": 0, "add": []}],
    "a splice by a float": [{"op": "splice", "path": "/items", "index": 1.0, "remove": 0, "add": []}],
    "half a splice": [{"op": "splice", "path": "/items", "index": 0}],
    "a good one and a bad one": [
        {"op": "replace", "path": "/number", "value": 5},
        {"op": "remove", "path": "/missing"},
    ],
}  # fmt: skip


class Subject:
    """A store with one entity, and a check that nothing in it has changed."""

    def __init__(self, store: rote.Store) -> None:
        self.store = store
        self.space = store.space("agent")
        self.space.set(ID, {"number": 1, "items": [1, 2, 3]}, key="key")

    def refuses(
        self, kind: type[RoteError], call: Callable[..., object], *arguments: Any, **named: Any
    ) -> RoteError:
        """Check that the call raises just this, nothing is stored, and the next commit works."""
        before = (self.space.version, self.space.head, list(self.space.scan()), self._spaces())
        with pytest.raises(kind) as caught:
            call(*arguments, **named)
        assert type(caught.value) is kind, repr(caught.value)
        assert str(caught.value)
        rote.canonical(caught.value.to_dict())
        after = (self.space.version, self.space.head, list(self.space.scan()), self._spaces())
        assert after == before
        assert self.space.verify().ok
        self.space.set("urn:entity:next", self.space.version)
        return caught.value

    def _spaces(self) -> list[str]:
        return [space.name for space in self.store.spaces()]


@pytest.fixture
def subject() -> Iterator[Subject]:
    with rote.open(":memory:") as store:
        yield Subject(store)


# -- what is sent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALUES)
def test_a_value_outside_the_domain_is_named_by_its_pointer(subject: Subject, name: str) -> None:
    value, pointer = VALUES[name]
    error = subject.refuses(InvalidValue, subject.space.set, ID, value)
    assert error.details["pointer"] == pointer
    operations = [{"op": "set", "id": ID, "value": 1}]
    subject.refuses(InvalidValue, subject.space.transact, operations, meta=value)
    patch = [{"op": "add", "path": "/value", "value": value}]
    subject.refuses(InvalidValue, subject.space.patch, ID, patch)
    otherwise = {"op": "patch", "id": "urn:entity:new", "ops": [], "else": value}
    subject.refuses(InvalidValue, subject.space.transact, [otherwise])


@pytest.mark.parametrize("name", IDS)
def test_a_bad_id_is_refused_wherever_one_is_taken(subject: Subject, name: str) -> None:
    space, id = subject.space, IDS[name]
    subject.refuses(InvalidInput, space.set, id, 1)
    subject.refuses(InvalidInput, space.patch, id, [])
    subject.refuses(InvalidInput, space.delete, id)
    subject.refuses(InvalidInput, space.get, id)
    subject.refuses(InvalidInput, space.read, id)
    subject.refuses(InvalidInput, space.at(1).read, id)
    subject.refuses(InvalidInput, space.history, id)

    def in_a_transaction() -> None:
        with space.transaction() as tx:
            tx.set(ID, 2)
            tx.get(id)

    subject.refuses(InvalidInput, in_a_transaction)


@pytest.mark.parametrize("name", KEYS)
def test_a_bad_key_is_refused(subject: Subject, name: str) -> None:
    subject.refuses(InvalidInput, subject.space.set, ID, 1, key=KEYS[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_space_name_is_refused(subject: Subject, name: str) -> None:
    subject.refuses(InvalidInput, subject.store.space, NAMES[name])


def test_a_did_that_is_not_here_makes_no_space(subject: Subject) -> None:
    did = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
    subject.refuses(NotFound, subject.store.space, did)
    subject.refuses(InvalidInput, subject.store.space, "did:key:nonsense")


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_malformed_operation_is_refused(subject: Subject, name: str) -> None:
    subject.refuses(InvalidInput, subject.space.transact, OPERATIONS[name])


@pytest.mark.parametrize("name", READS)
def test_a_malformed_read_is_refused(subject: Subject, name: str) -> None:
    operations = [{"op": "set", "id": ID, "value": 1}]
    subject.refuses(InvalidInput, subject.space.transact, operations, reads=READS[name])


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_that_does_not_apply_says_which_operation(subject: Subject, name: str) -> None:
    error = subject.refuses(PatchFailed, subject.space.patch, ID, PATCHES[name])
    assert error.details["index"] == len(PATCHES[name]) - 1
    assert subject.space.get(ID) == {"number": 1, "items": [1, 2, 3]}


def test_a_patch_that_is_no_list_is_refused(subject: Subject) -> None:
    for ops in ("remove", {"op": "remove"}, None, 7):
        bad: Any = ops
        subject.refuses(InvalidInput, subject.space.patch, ID, bad)


def test_what_does_not_exist_can_be_neither_patched_nor_deleted(subject: Subject) -> None:
    space = subject.space
    subject.refuses(NotFound, space.patch, "urn:entity:new", [])
    subject.refuses(NotFound, space.delete, "urn:entity:new")
    space.delete(ID)
    subject.refuses(NotFound, space.delete, ID)
    subject.refuses(NotFound, space.patch, ID, [])


def test_a_key_that_stands_for_something_else_is_refused(subject: Subject) -> None:
    error = subject.refuses(PayloadMismatch, subject.space.set, ID, 2, key="key")
    assert error.details == {"key": "key", "version": 1}


def test_a_read_that_no_longer_holds_is_a_conflict(subject: Subject) -> None:
    operations, reads = [{"op": "set", "id": ID, "value": 1}], [{"id": ID, "version": 0}]
    subject.refuses(Conflict, subject.space.transact, operations, reads=reads)


# -- limits ----------------------------------------------------------------------------------------


def test_a_document_of_16_mib_works_and_one_byte_more_is_refused(store_path: Path) -> None:
    with rote.open(store_path) as store:
        subject = Subject(store)
        subject.space.set("urn:entity:large", text_of(VALUE_BYTES_MAX))
        assert subject.space.get("urn:entity:large") == text_of(VALUE_BYTES_MAX)
        error = subject.refuses(LimitExceeded, subject.space.set, ID, text_of(VALUE_BYTES_MAX + 1))
        assert error.details["size"] == VALUE_BYTES_MAX + 1
    with rote.open(store_path) as store:
        assert store.space("agent").get("urn:entity:large") == text_of(VALUE_BYTES_MAX)


def test_a_patch_may_grow_a_document_to_the_limit_and_not_beyond(subject: Subject) -> None:
    half = text_of(VALUE_BYTES_MAX // 2)
    subject.space.set(ID, [half])
    grow = [{"op": "add", "path": "/-", "value": half}]
    subject.refuses(LimitExceeded, subject.space.patch, ID, grow)
    double = [{"op": "copy", "from": "/0", "path": "/-"}]
    subject.refuses(LimitExceeded, subject.space.patch, ID, double)
    fits = [{"op": "add", "path": "/-", "value": half[:-3]}]
    subject.space.patch(ID, fits)
    assert len(rote.canonical(subject.space.get(ID))) == VALUE_BYTES_MAX


def test_a_patch_may_nest_64_levels_and_not_65(subject: Subject) -> None:
    deep = nested(DEPTH_MAX - 1)
    for filling in ("", "x" * 5_000):  # small documents are measured, large ones bounded
        subject.space.set(ID, {"filling": filling, "a": {}})
        subject.space.patch(ID, [{"op": "add", "path": "/b", "value": deep}])
        add = [{"op": "add", "path": "/a/b", "value": deep}]
        subject.refuses(InvalidValue, subject.space.patch, ID, add)
        move = [{"op": "move", "from": "/b", "path": "/a/b"}]
        subject.refuses(InvalidValue, subject.space.patch, ID, move)


def test_100_000_operations_work_and_one_more_is_refused(subject: Subject) -> None:
    one = {"op": "set", "id": ID, "value": 0}
    commit = subject.space.transact([one] * OPERATIONS_MAX)
    assert len(commit.facts) == OPERATIONS_MAX
    subject.refuses(LimitExceeded, subject.space.transact, [one] * (OPERATIONS_MAX + 1))


def test_a_commit_beyond_64_mib_is_refused(subject: Subject) -> None:
    value = text_of(15 * MIB)
    operations = [{"op": "set", "id": f"urn:entity:{n}", "value": value} for n in range(5)]
    assert len(value) * 5 > COMMIT_BYTES_MAX
    subject.refuses(LimitExceeded, subject.space.transact, operations)


# -- reading ---------------------------------------------------------------------------------------


def list_of(pages: Callable[..., Iterator[object]], *arguments: Any, **named: Any) -> object:
    return list(pages(*arguments, **named))


def test_a_point_that_does_not_exist_cannot_be_read(subject: Subject) -> None:
    space = subject.space
    subject.refuses(VersionNotFound, space.at, 99)
    bad: list[Any] = [-1, 2**70, 1.0, True, "1", None, datetime(2026, 1, 1)]
    for point in bad:
        subject.refuses(InvalidInput, space.at, point)


def test_bad_bounds_of_a_read_are_refused(subject: Subject) -> None:
    space = subject.space
    bad: list[Any] = [-1, 1.5, "1", True]
    for bound in bad:
        subject.refuses(InvalidInput, list_of, space.scan, limit=bound)
        subject.refuses(InvalidInput, list_of, space.log, limit=bound)
        subject.refuses(InvalidInput, list_of, space.log, since=bound)
        subject.refuses(InvalidInput, space.history, ID, limit=bound)
    texts: list[Any] = [1, b"urn:", LONE]
    for text in texts:
        subject.refuses(InvalidInput, list_of, space.scan, text)
        subject.refuses(InvalidInput, list_of, space.scan, after=text)


def test_a_pinned_view_cannot_be_written(subject: Subject) -> None:
    view = subject.space.at(1)
    subject.refuses(InvalidInput, view.set, ID, 1)
    subject.refuses(InvalidInput, view.transaction)


def test_a_checkpoint_that_is_none_is_refused(subject: Subject) -> None:
    good = subject.space.checkpoint()
    bad: list[Any] = [
        {}, [], "x", {**good, "more": 1}, {**good, "kind": "checkpoint/2"},
        {**good, "version": -1}, {**good, "version": "1"},
    ]  # fmt: skip
    for checkpoint in bad:
        subject.refuses(InvalidInput, subject.space.verify, against=checkpoint)
    subject.refuses(InvalidValue, subject.space.verify, against={**good, "at": math.nan})


# -- opening ---------------------------------------------------------------------------------------


def refused(kind: type[RoteError], url: str | os.PathLike[str], **options: Any) -> RoteError:
    with pytest.raises(kind) as caught:
        rote.open(url, **options)
    assert type(caught.value) is kind, repr(caught.value)
    return caught.value


def test_what_is_no_store_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    text, database = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_bytes(b"these are notes, not a database\n" * 100)
    with apsw.Connection(str(database)) as connection:
        connection.execute("create table people (name text)")
    connection.close()
    contents = [path.read_bytes() for path in (text, database)]
    for path, words in ((text, "is not a Rote store"), (database, "is not a Rote store")):
        for options in ({}, {"create": False}, {"read_only": True}):
            assert words in str(refused(InvalidInput, path, **options))
    refused(InvalidInput, tmp_path)
    refused(NotFound, tmp_path / "missing" / "memory.db")
    refused(NotFound, tmp_path / "memory.db", create=False)
    assert [path.read_bytes() for path in (text, database)] == contents
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "other.db"}


def test_a_store_of_the_future_is_refused_and_left_as_it_was(store_path: Path) -> None:
    with rote.open(store_path) as store:
        store.space("agent").set(ID, 1)
    connection = apsw.Connection(str(store_path), vfs=checked())
    connection.pragma("user_version", FORMAT + 1)
    connection.execute("create table of_the_future (id text)")
    connection.close()
    content = store_path.read_bytes()
    assert "upgrade" in str(refused(Unavailable, store_path))
    assert "upgrade" in str(refused(Unavailable, store_path, read_only=True))
    assert store_path.read_bytes() == content


def test_a_store_that_may_not_be_written_is_refused() -> None:
    """The process is not root, because root may write everything."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with rote.open(path) as store:
            store.space("agent").set(ID, 1)
        Path(folder).chmod(0o755)
        path.chmod(0o444)
        argv = [sys.executable, "-m", "tests.faults.children", "open_as_a_guest", str(path)]
        child = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (child.stdout, child.returncode) == ("Denied\n", 0), child.stderr
        with rote.open(path) as store:
            assert store.space("agent").get(ID) == 1


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("", InvalidInput),
        ("sqlite://", InvalidInput),
        ("sqlite:///", InvalidInput),
        ("sqlite://host/file.db", InvalidInput),
        ("mysql://host/db", InvalidInput),
        ("postgresql://localhost/db", Unavailable),
    ],
)
def test_a_url_that_cannot_be_opened_is_refused(url: str, kind: type[RoteError]) -> None:
    refused(kind, url)


def test_bad_options_are_refused_before_anything_is_made(store_path: Path) -> None:
    refused(InvalidInput, store_path, durability="never")
    refused(InvalidInput, store_path, key=b"short")
    refused(InvalidInput, store_path, author="")
    refused(InvalidInput, store_path, author=7)
    assert not store_path.exists()


# -- a clock that steps back -----------------------------------------------------------------------


class Wound:
    """A clock that shows the given times, one after the other."""

    def __init__(self, minutes: list[int]) -> None:
        self._minutes = list(minutes)

    def now(self) -> datetime:
        minute = self._minutes.pop(0) if len(self._minutes) > 1 else self._minutes[0]
        return noon(minute)


def noon(minute: int) -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(minutes=minute)


def test_a_clock_that_steps_back_does_not_disturb_the_order_of_times() -> None:
    shown = [10, 20, 5, 1, 20, 15, 30, 0]
    with rote.open(":memory:", clock=Wound(shown)) as store:
        space = store.space("agent")
        commits = [space.set(ID, number) for number in range(len(shown))]
        times = [datetime.fromisoformat(commit.at) for commit in commits]
        assert times == [noon(max(shown[: n + 1])) for n in range(len(shown))]
        assert space.at(noon(9)).version == 0
        assert space.at(noon(10)).version == 1
        assert space.at(noon(19)).version == 1
        assert space.at(noon(20)).version == 6
        assert space.at(noon(20)).get(ID) == 5
        assert space.at(noon(30)).version == 8
        assert space.verify().ok


def test_a_clock_that_is_behind_the_stored_log_does_not_go_back(store_path: Path) -> None:
    with rote.open(store_path, clock=Wound([60])) as store:
        later = store.space("agent").set(ID, 1)
    with rote.open(store_path, clock=Wound([0])) as store:
        space = store.space("agent")
        assert space.set(ID, 2).at == later.at
        assert space.checkpoint()["at"] == later.at
        assert space.at(noon(59)).version == 0
        assert space.at(noon(60)).version == 2
        assert space.verify().ok
