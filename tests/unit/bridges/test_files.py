"""Records leave and enter files: byte for byte, all or none, and a second time without effect."""

from collections.abc import Iterator
from io import BytesIO, StringIO
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rote
from rote.bridges import (
    batches,
    check_file,
    export_records,
    import_records,
    imports,
    record_files,
    validate,
    write_export,
)
from rote.bridges.record_files import read_records
from rote.bridges.validator import normal_record
from rote.errors import InvalidInput, InvalidValue, LimitExceeded, RoteError
from rote.records.envelope import CARRIED, has_members, life_of
from rote.records.metadata import check_metadata
from rote.testing.clocks import FixedClock
from rote.values import canonical, decode, format_time, parse_time
from rote.values.limits import DEPTH_MAX, VALUE_BYTES_MAX
from tests.lanes import examples

AT = "2026-01-01T12:00:00.000000Z"
TIMES = ("created_at", "updated_at")
ENVELOPE: dict[str, Any] = {
    "namespace": "ops", "record_kind": "k", "record_id": "1", "created_at": AT, "updated_at": AT,
    "ttl_seconds": 60, "payload": {"x": 1}, "metadata": {"tags": ["a"], "source": "import"},
}  # fmt: skip


class Files:
    """A memory with a few records, and others to import them into."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self._stores: list[rote.Store] = []
        self.memory = self.empty()
        for number in range(5):
            self.memory.put(
                "ops", "k", f"{number} \U0001f600", {"text": "two\nlines"}, None, {"tags": ["t"]}
            )
        self.memory.append("daily_log", "note", "2026-01-01", {"text": "x"}, 60)
        self.memory.put("session", "turn", "gone", {}, 1)
        self.clock.move(seconds=5)

    def empty(self) -> rote.Memory:
        store = rote.open(":memory:", clock=self.clock)
        self._stores.append(store)
        return rote.Memory(store.space("x"))

    def close(self) -> None:
        for store in self._stores:
            store.close()


@pytest.fixture
def files() -> Iterator[Files]:
    made = Files()
    yield made
    made.close()


def exported(memory: rote.Memory, **more: Any) -> bytes:
    stream = BytesIO()
    write_export(memory, stream, **more)
    return stream.getvalue()


def lines(*records: dict[str, Any]) -> BytesIO:
    return BytesIO(b"".join(canonical(record) + b"\n" for record in records))


@pytest.mark.parametrize("format", ["jsonl", "json"])
@pytest.mark.parametrize("batch", [None, 1, 4])
def test_a_round_trip_is_the_same_to_the_byte(files: Files, format: str, batch: int | None) -> None:
    sent = exported(files.memory, format=format)
    other = files.empty()
    files.clock.move(seconds=1)
    report = import_records(other, BytesIO(sent), batch=batch)
    assert report.to_dict() == {
        "records": 6, "new": 6, "changed": 0, "unchanged": 0, "outdated": 0, "newer": 0,
        "written": 6, "expired": 0, "commits": {None: 1, 1: 6, 4: 2}[batch],
    }  # fmt: skip
    assert exported(other, format=format) == sent
    assert other.list("ops", filters={"tags_any": ["t"]}) == files.memory.list(
        "ops", filters={"tags_any": ["t"]}
    )
    before = other.space.version
    assert import_records(other, BytesIO(sent), batch=batch).written == 0
    assert other.space.version == before


def test_an_export_has_the_living_records_in_order_and_nothing_else(files: Files) -> None:
    records = list(export_records(files.memory))
    keys = [(r["namespace"], r["record_kind"], r["record_id"]) for r in records]
    assert keys == sorted(keys)
    assert len(keys) == 6
    assert exported(files.memory, namespace="daily_log").count(b"\n") == 1
    assert exported(files.memory, namespace="workflow") == b""
    assert decode(exported(files.memory, namespace="workflow", format="json")) == []
    assert decode(exported(files.memory, format="json")) == records
    assert files.memory.space.did.encode() not in exported(files.memory)
    with pytest.raises(InvalidInput):
        exported(files.memory, format="xml")
    with pytest.raises(InvalidInput):
        exported(files.memory, namespace="unknown")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2020-01-01T00:00:00+02:00", "2019-12-31T22:00:00.000000Z"),
        ("2020-01-01t00:00:00.5z", "2020-01-01T00:00:00.500000Z"),
        ("2020-01-01 00:00:00.000000Z", "2020-01-01T00:00:00.000000Z"),
        ("2020-01-01T00:00:00.1234567-00:00", "2020-01-01T00:00:00.123456Z"),
        ("2020-01-01T00:00:00.1+00:00", "2020-01-01T00:00:00.100000Z"),
        ("0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_an_import_keeps_the_times_of_the_file_in_the_form_of_all_times(
    files: Files, given: str, kept: str
) -> None:
    """Imported times were stored and returned in whatever form the file had, so one record in two
    forms was two states. Times in the metadata stay as given."""
    metadata = {"valid_at": given, "last_accessed": given}
    times = {"created_at": given, "updated_at": given}
    record = {**ENVELOPE, **times, "ttl_seconds": None, "metadata": metadata}
    import_records(files.memory, lines(record))
    there = files.memory.get("ops", "k", "1")["record"]
    assert there == {**record, "created_at": kept, "updated_at": kept}
    assert import_records(files.memory, lines(record)).counts.unchanged == 1
    assert import_records(files.memory, lines(there)).counts.unchanged == 1


def test_a_record_of_v1_brings_its_metadata_in_its_payload(files: Files) -> None:
    record = {**ENVELOPE, "payload": {"_metadata": {"tags": ["v1", "v1"]}}}
    del record["metadata"]
    import_records(files.memory, lines(record))
    assert files.memory.get("ops", "k", "1")["record"]["metadata"] == {"tags": ["v1"]}


def test_only_what_differs_is_written(files: Files) -> None:
    import_records(files.memory, lines(ENVELOPE))
    changed = {**ENVELOPE, "record_id": "2"}
    report = import_records(files.memory, lines(ENVELOPE, changed))
    assert (report.records, report.written, report.commits) == (2, 1, 1)
    assert len(next(iter(files.memory.space.log(since=files.memory.space.version - 1))).facts) == 1


BAD_LINES: list[tuple[bytes, str]] = [
    (b"{", "line 3"),
    (b'{"a":1,"a":2}', "line 3"),
    (b'{"a":NaN}', "line 3"),
    (b'{"a":"\\ud800"}', "line 3"),
    (b"\xff", "line 3"),
    (b"[]", "record 3"),
    (b"1", "record 3"),
    (canonical({**ENVELOPE, "namespace": "unknown"}), "record 3 at /namespace"),
    (canonical({**ENVELOPE, "record_id": ""}), "record 3 at /record_id"),
    (canonical({**ENVELOPE, "record_kind": "k" * 300}), "record 3 at /record_kind"),
    (canonical({**ENVELOPE, "created_at": "2026-01-01T00:00:00"}), "record 3 at /created_at"),
    (canonical({**ENVELOPE, "ttl_seconds": 0}), "record 3 at /ttl_seconds"),
    (canonical({**ENVELOPE, "payload": []}), "record 3 at /payload"),
    (canonical({**ENVELOPE, "metadata": {"tags": [""]}}), "record 3 at /metadata"),
    (canonical({**ENVELOPE, "extra": 1}), "record 3 at /extra"),
    (
        canonical(
            {n: v for n, v in {**ENVELOPE, "payload": {"_metadata": 5}}.items() if n != "metadata"}
        ),
        "record 3 at /payload/_metadata",
    ),
    (canonical({name: ENVELOPE[name] for name in ENVELOPE if name != "payload"}), "record 3 at"),
    (canonical(ENVELOPE), "record 3 has the key of record 1"),
]


@pytest.mark.parametrize(("line", "told"), BAD_LINES)
def test_a_bad_line_is_told_by_its_number_and_nothing_is_written(
    files: Files, line: bytes, told: str
) -> None:
    good = [canonical({**ENVELOPE, "record_id": id}) for id in "12"]
    if told.endswith("record 1"):
        good[1] = canonical({**ENVELOPE, "record_id": "other"})
    before = files.memory.space.head
    with pytest.raises(RoteError, match=told) as raised:
        import_records(files.memory, BytesIO(b"\n".join([*good, line, good[0]])))
    assert raised.value.code == "invalid_input"
    assert files.memory.space.head == before


def test_a_record_that_is_too_large_is_told_by_its_number(files: Files) -> None:
    large = {**ENVELOPE, "record_id": "2", "payload": {"text": "x" * VALUE_BYTES_MAX}}
    before = files.memory.space.head
    with pytest.raises(InvalidInput, match="record 2: the record in bytes"):
        import_records(files.memory, lines(ENVELOPE, large))
    assert files.memory.space.head == before


def test_empty_lines_count_and_hold_nothing(files: Files) -> None:
    assert import_records(files.memory, BytesIO(b"\n  \n")).records == 0
    with pytest.raises(InvalidInput, match="line 3"):
        import_records(files.memory, BytesIO(b"\n\n{"))


def test_batches_that_came_before_a_bad_line_stay(files: Files) -> None:
    memory = files.empty()
    records = [canonical({**ENVELOPE, "record_id": str(number)}) for number in range(5)]
    with pytest.raises(InvalidInput, match="line 6"):
        import_records(memory, BytesIO(b"\n".join([*records, b"{"])), batch=2)
    assert len(memory.list("ops")["items"]) == 4
    for batch in (0, -1, True, 100_001):
        with pytest.raises(InvalidInput):
            import_records(memory, BytesIO(b""), batch=batch)


def test_more_records_than_a_commit_holds_want_batches(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "OPERATIONS_MAX", 2)
    records = [{**ENVELOPE, "record_id": str(number)} for number in range(3)]
    with pytest.raises(LimitExceeded, match="batches"):
        import_records(files.memory, lines(*records))
    assert import_records(files.memory, lines(*records), batch=2).commits == 2


def test_more_bytes_than_a_commit_holds_want_batches_which_end_before_them(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "COMMIT_BYTES_MAX", 10_000)
    sizes = [4_000, 4_000, 4_000, 9_000, 100]
    records = [
        {**ENVELOPE, "record_id": str(number), "payload": {"text": "x" * size}}
        for number, size in enumerate(sizes)
    ]
    before = files.memory.space.version
    with pytest.raises(LimitExceeded, match="batches"):
        import_records(files.memory, lines(*records))
    assert files.memory.space.version == before
    report = import_records(files.memory, lines(*records), batch=5)
    assert (report.records, report.written, report.commits) == (5, 5, 3)
    assert import_records(files.memory, lines(*records), batch=5).written == 0


def test_a_key_that_comes_again_in_a_later_batch_is_refused(files: Files) -> None:
    records = [{**ENVELOPE, "record_id": id} for id in "1231"]
    with pytest.raises(InvalidInput, match="record 4 has the key of record 1"):
        import_records(files.memory, lines(*records), batch=1)


@pytest.mark.parametrize("format", ["jsonl", "json"])
def test_what_is_nested_as_deep_as_can_be_goes_out_and_in(files: Files, format: str) -> None:
    deepest: Any = {}
    for _ in range(DEPTH_MAX - 2):
        deepest = {"a": deepest}
    files.memory.put("ops", "deep", "1", deepest)
    sent = exported(files.memory, format=format)
    other = files.empty()
    import_records(other, BytesIO(sent))
    assert exported(other, format=format) == sent
    with pytest.raises(InvalidInput, match="deeper"):
        import_records(
            other,
            BytesIO(
                b"[" + canonical(ENVELOPE).replace(b'"x":1', b'"x":' + b"[" * 63 + b"]" * 63) + b"]"
            ),
        )


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (canonical(ENVELOPE) + b"\r\n\r\n", 1),
        (b" \t[\r\n" + canonical(ENVELOPE) + b"\r\n]", 1),
        (b"\xef\xbb\xbf" + canonical(ENVELOPE), None),
        (canonical(ENVELOPE).decode().encode("utf-16"), None),
        (canonical(ENVELOPE) + b"\r" + canonical(ENVELOPE), None),
        (b"[" + canonical(ENVELOPE) + b"]]", None),
        (canonical({**ENVELOPE, "updated_at": "9999-12-31T23:59:59-23:59"}), None),
        (canonical({**ENVELOPE, "updated_at": "2016-12-31T23:59:60Z"}), None),
        (canonical({**ENVELOPE, "ttl_seconds": True}), None),
        (canonical({**ENVELOPE, "ttl_seconds": 2**62}), None),
    ],
)  # fmt: skip
def test_files_of_other_programs_are_taken_or_refused_whole(
    files: Files, data: bytes, records: int | None
) -> None:
    before = files.memory.space.version
    if records is not None:
        assert import_records(files.memory, BytesIO(data)).records == records
        return
    with pytest.raises(InvalidInput):
        import_records(files.memory, BytesIO(data))
    assert files.memory.space.version == before


# -- arrays ----------------------------------------------------------------------------------------


def test_an_export_of_one_array_comes_back_however_long_it_is(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array longer than a commit could not be imported, not even in batches: it was read at once."""
    sent = exported(files.memory, format="json")
    size_bytes_max = max(map(len, sent.splitlines(keepends=True)))
    monkeypatch.setattr(record_files, "COMMIT_BYTES_MAX", size_bytes_max)
    other, told = files.empty(), list[int]()
    assert import_records(other, BytesIO(sent), batch=2, progress=told.append).written == 6
    assert sum(told) == len(sent)
    assert exported(other, format="json") == sent
    with pytest.raises(LimitExceeded, match="one record a line"):
        import_records(other, BytesIO(sent.replace(b"[\n", b"[")))


@pytest.mark.parametrize(("line", "told"), BAD_LINES)
def test_a_bad_line_of_an_array_is_told_and_nothing_is_written(
    files: Files, line: bytes, told: str
) -> None:
    ids = ("1", "other") if told.endswith("record 1") else ("1", "2")
    good = [canonical({**ENVELOPE, "record_id": id}) for id in ids]
    before = files.memory.space.head
    # Records are counted, and the first of them is on line 2.
    if told == "line 3":
        told = "line 4" if line.startswith(b'{"') else "the file"
    with pytest.raises(InvalidInput, match=told):
        import_records(files.memory, BytesIO(b"[\n" + b",\n".join([*good, line]) + b"\n]\n"))
    assert files.memory.space.head == before


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'[\n{"a":1},\n{"a":2}\n]\n\n]', "the file: .* line 6, column 1: Extra data"),
        (b'[\n{"a":1},\n\n{"a":2}\n', "the file: .* line 5, column 1"),
        (b'[\n{"a":1},\n]', "the file: .*line [23], column"),
        (b'[\n{"a":1}\n{"a":2}\n]', "the file: .* line 3, column 1"),
        (b'[\n{"a":1}{},\n{"a":2}\n]', "line 2: .* character 7: Extra data"),
        (b'[\n{"a":1},\n{"a":2},\n{"a":\n-}]', "the file: .* line 5, column 1"),
        (b'\n \r\n[\n{"a":1},\n\n{"a":2}\n', "the file: .* line 7, column 1"),
        (b'\n\n[{"a":1},\n-]', "the file: .* line 4, column 1"),
        (b'\n[\n{"a":1}{},\n{"a":2}\n]', "line 3: .* character 7: Extra data"),
    ],
)
def test_an_array_that_is_none_is_told_by_its_line(data: bytes, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        list(read_records(BytesIO(data)))


def test_an_array_may_begin_below_blank_lines(files: Files) -> None:
    """A file that begins with a blank line was taken for JSON lines, and the array for a bad one."""
    for array in (b"[]", b"[\n]", b"\t[" + canonical(ENVELOPE) + b"]"):
        data = b"\n \r\n" + array
        assert import_records(files.memory, BytesIO(data)).records == len(decode(array))
        assert all(problems == [] for _, problems in check_file(BytesIO(data), namespaces=["ops"]))
    assert list(read_records(BytesIO(b"\n{}\n\n[]"))) == [(2, {}), (4, [])]
    with pytest.raises(InvalidInput, match=r"line 2: .*JSON lines, one JSON array"):
        list(read_records(BytesIO(b"\nhello")))


PIECES = [
    b'{"a":1}', b'{"a":{}}', b"{}", b'{"a":1,"a":2}', b'{"a":{},', b'"b":2}', b"{", b"}", b"1", b"[",
    b"]", b",", b"\n", b"\n", b",\n", b" ", b"\r\n", b"\x0c", b"\xff", b'{"a":"},"}', b"-0.0",
]  # fmt: skip


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=12),
    start=st.sampled_from([b"[\n", b"[\r\n", b"[", b"\n[\n", b" \r\n\n["]),
    end=st.sampled_from([b"\n]\n", b"]", b""]),
)
@example(pieces=[b'{"a":1}', b",\n"], start=b"[\n", end=b"]")
@example(pieces=[b'{"a":{},', b"\n", b'"b":2}'], start=b"[\n", end=b"]")
@example(pieces=[b'{"a":1}', b",\n", b"{}", b",", b"{}"], start=b"[\n", end=b"\n]\n")
@settings(max_examples=examples(500, 10_000))
def test_an_array_by_lines_is_the_array_at_once(
    pieces: list[bytes], start: bytes, end: bytes
) -> None:
    data = start + b"".join(pieces) + end
    try:
        values = decode(data)
    except InvalidValue:
        with pytest.raises(InvalidInput):
            list(read_records(BytesIO(data)))
    else:
        assert list(read_records(BytesIO(data))) == list(enumerate(values, start=1))


# -- the validator ---------------------------------------------------------------------------------


def test_the_validator_tells_everything_at_once() -> None:
    bad = {
        **ENVELOPE, "namespace": "x", "record_id": 1, "updated_at": "2025-01-01T00:00:00Z",
        "ttl_seconds": "1", "metadata": {"confidence": 2}, "more": 1,
    }  # fmt: skip
    problems = validate(bad, namespaces=["ops"])
    assert [(problem.kind, problem.path) for problem in problems] == [
        ("error", "/more"), ("error", "/namespace"), ("error", "/record_id"),
        ("warning", "/updated_at"), ("error", "/ttl_seconds"), ("error", "/metadata"),
    ]  # fmt: skip
    assert all(problem.message for problem in problems)
    assert validate(ENVELOPE, namespaces=["ops"]) == []
    assert [p.path for p in validate([], namespaces=["ops"])] == [""]


PARTS: dict[str, list[Any]] = {
    "namespace": ["ops", "daily_log", "unknown", "", 1, None, ["ops"]],
    "record_kind": ["k", "k 1", "", "k" * 300, 1, None],
    "record_id": ["1", "\U0001f600", "a!", "", "\x7f", "i" * 600, 1, None],
    "created_at": [AT, "2026-01-01T12:00:00+02:00", "2026-01-01", 1, None],
    "updated_at": [AT, "2020-01-01T00:00:00Z", "", None],
    "ttl_seconds": [None, 1, 60, 0, -1, True, 1.5, "1", 10**12],
    "payload": [{}, {"_metadata": {"tags": ["p"]}}, {"_metadata": 5}, [], None, "text"],
    "metadata": [None, {}, {"tags": ["a", "a"], "x": 1}, {"tags": [""]}, {"confidence": 2}, 5],
    "provenance": [{}, {"source_system": "x", "deep": [{}]}, None, [], "text", True],
    "flags": [{"curated": True}, None, 0],
    "extra": [1],
}


@given(
    changes=st.lists(
        st.one_of(
            [st.tuples(st.just(name), st.sampled_from(values)) for name, values in PARTS.items()]
        ),
        max_size=2,
    ),
    missing=st.sampled_from([None, None, "metadata", *ENVELOPE]),
    profile=st.sampled_from(["v1", "v1.1-deterministic-metadata"]),
)
@example(changes=[("payload", {"_metadata": {"tags": ["p"]}})], missing="metadata", profile="v1")
@settings(max_examples=examples(300, 5_000))
def test_an_import_takes_what_the_validator_finds_no_error_in(
    changes: list[tuple[str, Any]], missing: str | None, profile: str
) -> None:
    record = {**ENVELOPE, **dict(changes)}
    if missing is not None:
        del record[missing]
    problems = validate(record, namespaces=["ops", "daily_log"], profile=profile)
    found = normal_record(record, namespaces=["ops", "daily_log"], profile=profile)
    assert (found is None) == any(problem.kind == "error" for problem in problems)
    if found is not None:
        entity, normal, life = found
        assert life == life_of(normal)
        assert entity == rote.Memory.entity_id(*(record[name] for name in list(ENVELOPE)[:3]))
        carried = {name: record[name] for name in CARRIED if record.get(name) is not None}
        assert normal.keys() == ENVELOPE.keys() | carried.keys()
        assert has_members(normal)
        times = {name: format_time(parse_time(record[name])) for name in TIMES}
        wanted = {name: record[name] for name in normal if name != "metadata"}
        assert {**normal, "metadata": 0} == {**wanted, **times, "metadata": 0}
        sent = record.get("metadata", record["payload"].get("_metadata"))
        assert normal["metadata"] == (None if profile == "v1" else check_metadata(sent))


def test_the_validator_goes_by_the_profile() -> None:
    paths = [p.path for p in validate(ENVELOPE, namespaces=["ops"], profile="v1")]
    assert paths == ["/metadata"]
    odd = {**ENVELOPE, "payload": {"_metadata": 5}, "metadata": None}
    assert validate(odd, namespaces=["ops"], profile="v1") == []
    with pytest.raises(InvalidInput):
        validate(ENVELOPE, namespaces=["ops"], profile="v2")


@pytest.mark.parametrize("stream", ["records.jsonl", b"{}", StringIO("{}"), None, 5])
def test_what_is_no_stream_of_bytes_is_refused(stream: Any) -> None:
    """A path, or a file of text, gave an error of Python's."""
    files = Files()
    for call in (import_records, write_export):
        with pytest.raises(InvalidInput, match="a stream of bytes"):
            call(files.memory, stream)
