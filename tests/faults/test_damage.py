"""One byte of a store is changed, anywhere in its file: each reading call gives an equal answer, or
raises Corrupt, and nothing is written.

In a file with checksums of pages no change of a byte gives another answer. In a file of an earlier
format most of what a look shows is covered by a hash and checked on the way out. The rows that only
lead to it (pointers and indexes) are not, so a damaged one can hide a fact or show an older one. Nor
are the values that a compaction has signed, because only verify reads all of them. There a wrong
answer is allowed where verify reports the store: verify finds every change of content.
"""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

import rote
from rote.engines.sqlite import connections, identity, reader
from rote.engines.sqlite.checksums import checked
from rote.errors import Busy, Corrupt, NotFound, RoteError
from tests.faults.tampering import raw
from tests.golden import lives
from tests.lanes import SLOW, examples

SPACES = ("agent", "notes", "whole")
PAGE_BYTES = 4_096
SECONDS_MAX = 10
# Of the changes of a file without checksums, the share that may show in an answer: those that hit a
# pointer or an index.
SHOWN_MAX = 0.06
EVERYTHING: dict[str, Any] = {"select": {"*": {}}}

# In the quick lane a change meets one in so many calls.
PARTS = 3
CHANGES = examples(400, 20_000)

Call = Callable[[], object]


@dataclass(slots=True)
class Patient:
    """A store with its answers, to be damaged."""

    path: Path
    content: bytes
    answers: dict[str, object] = field(default_factory=dict)
    branches: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)

    def open(self) -> rote.Store:
        return lives.open_at(self.path, day=lives.AFTERWARDS, read_only=True).store

    def calls(self, store: rote.Store) -> Iterator[tuple[str, Call]]:
        """Yield every kind of reading call."""
        yield "spaces", lambda: [(space.name, space.did) for space in store.spaces()]
        yield "receipts", store.receipts
        yield "runs", lambda: [{**run.to_dict(), **store.run_origin(run)} for run in store.runs()]
        yield "retrieve", lambda: rote.retrieve(lives.QUESTION, store=store)
        for name in SPACES:
            for call, answer in self._calls_of(store, name):
                yield f"{name} {call}", answer

    def _calls_of(self, store: rote.Store, name: str) -> Iterator[tuple[str, Call]]:
        def space() -> rote.Space:
            return store.space(name)

        branches, ids = self.branches[name], self.ids[name]
        yield "head", lambda: (space().did, space().version, space().head, space().oldest)
        yield "branches", lambda: space().branches()
        yield "log", lambda: [commit.to_dict() for commit in space().log()]
        yield "read", lambda: [space().read(id) for id in ids]
        yield "scan", lambda: [list(space().on(branch).scan()) for branch in branches]
        yield "past", lambda: self._past(space())
        yield "history", lambda: [[fact.to_dict() for fact in space().history(id)] for id in ids]
        yield "query", lambda: space().query(EVERYTHING)
        yield "watch", lambda: next(space().watch(EVERYTHING, timeout=0))
        yield "diff", lambda: [space().diff(branch) for branch in branches]
        if name == "agent":
            yield "records", lambda: lives._told_records(space())
        if name == "notes":
            yield "blobs", lambda: [lives._told_blob(space(), data) for data in lives.BLOBS]

    def _past(self, space: rote.Space) -> list[Any]:
        middle = (space.oldest + space.version) // 2
        return [list(space.at(version).scan()) for version in (space.oldest, middle)]

    def verifies(self, store: rote.Store) -> bool:
        try:
            return all(store.space(name).verify().ok for name in SPACES)
        except (Corrupt, NotFound):
            return False


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """Return a store with branches, records, blobs, runs, erasures and compactions, in format 1."""
    return examined(lives.copy_store("life-1", tmp_path_factory.mktemp("damage")))


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """Return the same store with checksums."""
    folder = tmp_path_factory.mktemp("protected")
    path = lives.copy_store("life-1", folder)
    with lives.open_at(path, day=lives.AFTERWARDS, read_only=True).store as store:
        store.backup(folder / "copy.db")
    (folder / "copy.db").rename(path)
    return examined(path)


def examined(path: Path) -> Patient:
    patient = Patient(path, path.read_bytes())
    with patient.open() as store:
        for name in SPACES:
            space = store.space(name)
            patient.branches[name] = [branch.name for branch in space.branches()]
            views = [space.on(branch) for branch in patient.branches[name]]
            ids = {state.id for view in views for state in view.scan()}
            patient.ids[name] = sorted({*ids, lives.SECRET, "urn:none"})
        patient.answers.update((call, answer()) for call, answer in patient.calls(store))
        assert patient.verifies(store)
    assert len(patient.content) < 1_000_000
    return patient


def places(content: bytes, count: int, random: Random) -> Iterator[int]:
    """Yield places of bytes, as many in each page; the header of the file and of each page in full
    in the slow lane."""
    pages = len(content) // PAGE_BYTES
    if SLOW:
        yield from range(100)
    for number in range(count):
        page = number % pages
        # The first bytes of a page say where everything else in it is.
        low = random.randrange(PAGE_BYTES) if number % 8 else random.randrange(64)
        yield page * PAGE_BYTES + low


class Findings:
    """The outcomes of many changes."""

    def __init__(self) -> None:
        self.wrong: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def note(self, what: str, place: object) -> None:
        self.wrong.setdefault(what, str(place))

    def check(self) -> None:
        told = "\n".join(f"{what}: {place}" for what, place in sorted(self.wrong.items()))
        assert not self.wrong, f"{dict(self.counts)}\n{told}"


def examine(
    patient: Patient, changed: bytes, place: int, findings: Findings, *, part: int | None = None
) -> None:
    """Make all reading calls, or one part of them; then verify, if an answer has changed."""
    patient.path.write_bytes(changed)
    started, shown = time.monotonic(), list[str]()
    try:
        store = patient.open()
    except Corrupt:
        findings.counts["not opened"] += 1
        return
    with store:
        calls = list(patient.calls(store))
        for call, answer in calls if part is None else calls[part::PARTS]:
            try:
                if answer() != patient.answers[call]:
                    shown.append(f"{call} differs")
            except Corrupt:
                findings.counts["Corrupt"] += 1
            except NotFound:
                shown.append(f"{call} finds nothing")
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                findings.note(f"{call}: {error!r} in {where.name}", place)
        if (shown or part is None) and not patient.verifies(store):
            findings.counts["found"] += 1
        elif shown:
            findings.note(f"not found by verify, but {shown[0]}", place)
    findings.counts["shown"] += bool(shown)
    if time.monotonic() - started > SECONDS_MAX:
        findings.note("too slow", place)


def change_bytes(patient: Patient, count: int) -> Findings:
    """Change one byte after the other; return what the calls gave."""
    random, findings = Random(19), Findings()
    folder = {path.name for path in patient.path.parent.iterdir()}
    for number, place in enumerate(places(patient.content, count, random)):
        changed = bytearray(patient.content)
        changed[place] ^= random.randrange(1, 256)
        part = None if SLOW else number % PARTS
        examine(patient, bytes(changed), place, findings, part=part)
        if patient.path.read_bytes() != changed:
            findings.note("opening it to look has written", place)
    assert {path.name for path in patient.path.parent.iterdir()} == folder
    findings.check()
    return findings


def test_a_changed_byte_gives_equal_answers_or_corrupt(protected: Patient) -> None:
    counts = change_bytes(protected, CHANGES).counts
    assert counts["Corrupt"] + counts["not opened"] > CHANGES / 2  # of the calls
    assert counts["shown"] == 0


def test_a_changed_byte_of_a_file_without_checksums_is_found(patient: Patient) -> None:
    count = examples(200, 20_000)
    counts = change_bytes(patient, count).counts
    assert counts["Corrupt"] > count / 10  # of the calls
    assert 0 < counts["shown"] < count * SHOWN_MAX


def test_what_no_checksum_checks_is_shown(
    protected: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Rote that ignores the checksums is found out by the changes above."""
    monkeypatch.setattr(connections, "checked", lambda below: below)
    for module in (identity, reader):
        monkeypatch.setattr(module, "refuse_unchecked", lambda connection: None)
    assert change_bytes(protected, examples(80, 400)).counts["shown"] > 0


def test_every_page_and_every_table_is_hit(protected: Patient, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(protected.content)
    connection = apsw.Connection(str(copy), vfs=checked())
    connection.execute("create virtual table temp.pages using dbstat")
    owners: dict[Any, Any] = dict(
        connection.execute("select pageno, name from temp.pages").fetchall()  # type: ignore[arg-type]
    )
    tables = {
        name for (name,) in connection.execute("select name from sqlite_schema where rootpage")
    }
    connection.close()
    hit = {place // PAGE_BYTES + 1 for place in places(protected.content, CHANGES, Random(19))}
    assert hit == set(range(1, len(protected.content) // PAGE_BYTES + 1))
    assert {owners.get(page) for page in hit} >= tables


@pytest.mark.parametrize("has_checksums", [False, True])
@pytest.mark.parametrize("place", [0, 15, 16, 18, 19, 20, 21, 56, 59, 60, 63, 68, 71])
def test_a_damaged_header_does_not_make_a_store_another_file(
    patient: Patient, protected: Patient, place: int, has_checksums: bool
) -> None:
    """The name of the format, its version, the room for checksums and Rote's own mark stand there."""
    one = protected if has_checksums else patient
    for bit in range(0, 8, examples(3, 1)):
        findings, changed = Findings(), bytearray(one.content)
        changed[place] ^= 1 << bit
        examine(one, bytes(changed), place, findings)
        findings.check()
        assert not has_checksums or not findings.counts["shown"]


@pytest.mark.parametrize(("place", "change"), [(97_826, 169), (98_070, 141)])
def test_an_error_of_python_over_stored_bytes_is_corrupt(
    patient: Patient, place: int, change: int
) -> None:
    """An event that is no text any more once raised UnicodeDecodeError."""
    findings, changed = Findings(), bytearray(patient.content)
    changed[place] ^= change
    examine(patient, bytes(changed), place, findings)
    findings.check()
    assert findings.counts["Corrupt"]


# A change behind Rote's back, and the calls that show what was changed.
SHOWN_BY: list[tuple[str, tuple[str, ...]]] = [
    (
        "update facts set body = cast('\"x\"' as blob) where id = 'urn:note:b' and op = 1",
        ("log", "history"),
    ),
    (
        "update facts set salt = zeroblob(16) where id = 'urn:note:b' and salt is not null",
        ("read",),
    ),
    (
        "update facts set value = cast('{\"text\":\"x\"}' as blob) where id = 'urn:note:a' and op = 2",
        ("read",),
    ),
    # The newest patches of this entity have no snapshot: they are applied to this one.
    (
        "update facts set value = cast(replace(cast(value as text), 'line 3', 'lime 3') as blob)"
        " where id = 'urn:note:long' and version = 44",
        ("read", "scan"),
    ),
    ("update commits set author = 'Eve' where version = 20", ("log", "history")),
    ("update commits set at = at + 1", ("head", "log")),
    ("update branches set fork_version = fork_version + 1 where branch = 2", ("branches", "scan")),
    ("update sides set fence = fence + 1 where kind = 'run'", ("runs",)),
    ("update sides set body = cast('{}' as blob) where kind = 'receipt'", ("receipts",)),
    ("update spaces set name = 'whale' where name = 'whole'", ("spaces", "head")),
]


@pytest.mark.parametrize(("statement", "names"), SHOWN_BY, ids=[each for each, _ in SHOWN_BY])
def test_a_look_checks_what_it_shows_by_its_hashes(
    patient: Patient, statement: str, names: tuple[str, ...]
) -> None:
    patient.path.write_bytes(patient.content)
    with raw(patient.path) as connection:
        connection.pragma("journal_mode", "delete")
        connection.execute(statement)
        assert connection.changes()
    with patient.open() as store:
        refused = set()
        for call, answer in patient.calls(store):
            try:
                assert answer() == patient.answers[call], call
            except Corrupt:
                refused.add(call.split()[-1])
    assert refused >= set(names)


# -- writing -----------------------------------------------------------------------------------------


def writes(patient: Patient, store: rote.Store, name: str) -> Iterator[tuple[str, Call]]:
    """Yield every kind of writing call."""
    space, ids = store.space(name), patient.ids[name]
    yield "set", lambda: space.set("urn:new", 1, key="new")
    yield "patch", lambda: space.patch(ids[0], [])
    yield "delete", lambda: space.delete(ids[0])
    yield (
        "guarded",
        lambda: space.transact(
            [{"op": "set", "id": "urn:new", "value": 2}],
            reads=[{"prefix": "urn:", "version": space.version}],
        ),
    )
    yield "put", lambda: rote.Memory(space).put("ops", "k", "1", {"text": "x"})
    yield "branch", lambda: space.create_branch("new")
    yield "blob", lambda: space.put_blob(b"new")
    for branch in patient.branches[name][1:]:
        yield f"merge {branch}", partial(space.merge, branch, on_conflict="ours")
    yield "erase", lambda: space.erase(ids[1], reason="asked to")
    yield "erase records", lambda: rote.Memory(space).erase("ops", reason="asked to")
    yield "compact", lambda: space.compact(before=max(space.version, 1))
    yield "erase space", lambda: store.erase_space(name, reason="asked to", confirm=name)


# A change behind Rote's back. Most of these once raised InvalidInput, or an error of Python.
NONSENSE = [
    "update commits set event = cast('7' as blob) where event is not null",
    'update commits set event = cast(\'{"type":"merge"}\' as blob) where event is not null',
    "update commits set at = 4611686018427387904",
    "update facts set body = x'ff' where body is not null",
    "update sides set body = cast('[]' as blob) where kind in ('key', 'run', 'lease')",
    "update branches set parent = 99 where parent is not null",
    "update spaces set number = number + 100",
]


@pytest.mark.parametrize("statement", NONSENSE)
def test_writing_to_a_store_with_nonsense_in_its_rows_is_corrupt_or_works(
    patient: Patient, tmp_path: Path, statement: str
) -> None:
    refused = Counter[str]()
    for name in SPACES:
        (tmp_path / name).mkdir()
        path = lives.copy_store("life-1", tmp_path / name)
        with raw(path) as connection:
            connection.execute(statement)
            assert connection.changes()
        with lives.open_at(path, day=lives.AFTERWARDS).store as store:
            for call, write in writes(patient, store, name):
                try:
                    write()
                except (Busy, NotFound):
                    pass  # a row is not where it was, or a run of this life is still open
                except RoteError as error:
                    refused[type(error).__name__] += 1
                    assert isinstance(error, Corrupt), (name, call, error)
    assert refused


def test_an_error_of_the_callers_own_is_passed_on(tmp_path: Path) -> None:
    class Broken:
        def now(self) -> Any:
            raise KeyError("no time")

        def random_bytes(self, size: int, /) -> bytes:
            raise ValueError("no luck")

    with rote.open(tmp_path / "memory.db") as store:
        assert store.space("agent").version == 0
    for given, kind in (({"clock": Broken()}, KeyError), ({"ids": Broken()}, ValueError)):
        with rote.open(tmp_path / "memory.db", **given) as store:  # type: ignore[arg-type]
            space = store.space("agent")
            with pytest.raises(kind):
                space.set("urn:a", 1)
            assert (space.version, space.get("urn:a")) == (0, None)
