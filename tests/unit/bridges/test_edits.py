"""A folder that people edit while agents go on: no text of either side is lost."""

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.bridges import (
    export_markdown,
    export_records,
    import_markdown,
    import_records,
    validate_markdown,
)
from rote.bridges.past import was
from rote.errors import InvalidInput
from rote.records.keys import NAMESPACES
from rote.values import canonical
from rote.values.limits import PAGE_BYTES_MAX, RECORD_PAST_MAX
from tests.unit.bridges.ground import Ground, exported

DAY = "2026-03-20"
KEY = ("daily_log", "note", DAY)


class Diary(Ground):
    """A log of one day in a store, and as a file."""

    @property
    def file(self) -> Path:
        return self.root / "2026" / f"{DAY}.md"

    def say(self, text: str, **more: Any) -> None:
        self.clock.move(seconds=1)
        self.memory.append(*KEY, {"text": text}, **more)

    def said(self) -> list[str]:
        entries = self.memory.get(*KEY)["record"]["payload"]["entries"]
        return [entry["text"] for entry in entries]

    def export(self, **more: Any) -> Any:
        return export_markdown(self.memory, self.root, **more)

    def take(self, **more: Any) -> Any:
        return import_markdown(self.memory, self.root, **more)

    def edit(self, before: str, after: str) -> None:
        text = self.file.read_text()
        assert before in text
        self.file.write_text(text.replace(before, after))


@pytest.fixture
def diary(tmp_path: Path) -> Iterator[Diary]:
    made = Diary(tmp_path / "root")
    made.say("one")
    made.say("two", metadata={"tags": ["a"]})
    made.export()
    yield made
    made.close()


# -- out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- two", "- TWO"), ("- two\n", ""), ("- two\n", "- two\n- three\n"), ('["a"]', '["b"]'),
        ("- two\n", "- two\nloose\n"), ("ttl_seconds: null", "ttl_seconds: never"),
        ("metadata: ", "meta: "),
    ],
)  # fmt: skip
def test_an_export_does_not_replace_what_was_edited(diary: Diary, before: str, after: str) -> None:
    diary.memory.append("daily_log", "note", "2026-03-19", {"text": "earlier"})
    diary.edit(before, after)
    files = diary.files()
    with pytest.raises(
        InvalidInput, match=rf"2026/{DAY}\.md was edited.*import.*--overwrite"
    ) as raised:
        diary.export()
    assert raised.value.code == "file_in_the_way"
    assert raised.value.details["files"] == [f"2026/{DAY}.md"]
    diary.say("four")
    with pytest.raises(InvalidInput, match="was edited"):
        diary.export()
    assert diary.files() == files
    assert diary.export(overwrite=True).written == 2
    assert diary.export().written == 0


def test_an_export_replaces_what_the_record_was_before(diary: Diary) -> None:
    def delete_and_say() -> None:
        diary.memory.delete(*KEY)
        diary.say("anew")

    steps: list[Callable[[], object]] = [
        partial(diary.say, "three"),
        partial(diary.memory.touch, *KEY),
        partial(diary.memory.touch, *KEY),
        partial(diary.memory.put, *KEY, {"entries": []}, 60),
        delete_and_say,
    ]
    for step in steps:
        step()
        assert diary.export().written == 1


def test_an_edit_that_was_imported_is_replaced_when_the_log_goes_on(diary: Diary) -> None:
    diary.edit("- two", "- TWO")
    assert diary.take().counts.changed == 1
    diary.say("three")
    diary.memory.touch(*KEY)
    assert diary.export().written == 1
    assert diary.said() == ["one", "TWO", "three"]
    assert "- TWO\n- three\n" in diary.file.read_text()


def test_line_ends_and_blank_lines_are_no_edit(diary: Diary) -> None:
    diary.file.write_bytes(diary.file.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    diary.say("three")
    assert diary.export().written == 1


def test_a_folder_of_another_store_is_not_replaced(diary: Diary) -> None:
    other = diary.empty()
    other.append(*KEY, {"text": "theirs"})
    files = diary.files()
    with pytest.raises(InvalidInput, match="another store"):
        export_markdown(other, diary.root)
    assert diary.files() == files


def test_kinds_with_one_id_do_not_take_each_others_file(diary: Diary) -> None:
    diary.memory.append("daily_log", "summary", DAY, {"text": "sum"})
    diary.export(kind="note")
    files = diary.files()
    with pytest.raises(InvalidInput, match=rf"is the file of note {DAY}: use one folder per kind"):
        diary.export(kind="summary")
    assert diary.files() == files
    assert export_markdown(diary.memory, diary.root / "sums", kind=["summary"]).written == 1


def test_a_file_without_a_record_is_told_and_comes_back_with_an_import(diary: Diary) -> None:
    diary.memory.append("daily_log", "other", "free", {"text": "x"})
    assert diary.export().without_record == ()
    diary.memory.delete("daily_log", "other", "free")
    diary.write({"README.md": "no export"})  # a topic page
    assert diary.export().without_record == ("2026/free.md",)
    assert diary.export(kind="note").without_record == ()
    assert diary.export(kind="other").without_record == ("2026/free.md",)
    assert diary.take().counts.new == 2


def test_all_ids_that_are_no_names_are_told_at_once(diary: Diary) -> None:
    for id in ("a/b", "a:b", "x" * 300, "fine name"):
        diary.memory.append("daily_log", "odd", id, {})
    with pytest.raises(InvalidInput, match=r"'a/b' is no .*'a:b' is no .*too long.*--kind.*JSON"):
        diary.export()
    assert diary.export(kind="note").records == 1


def test_paths_may_be_texts_but_not_empty(diary: Diary, monkeypatch: pytest.MonkeyPatch) -> None:
    assert export_markdown(diary.memory, str(diary.root)).written == 0
    assert import_markdown(diary.memory, str(diary.root)).records == 1
    assert sum(n for n, _ in validate_markdown(str(diary.root), namespaces=NAMESPACES)) == 1
    monkeypatch.chdir(diary.root)
    for call in (export_markdown, import_markdown):
        with pytest.raises(InvalidInput, match="empty"):
            call(diary.memory, "")


def test_several_namespaces_and_kinds_leave_together(diary: Diary) -> None:
    for namespace in ("ops", "session", "workflow"):
        for kind in "ab":
            diary.memory.put(namespace, kind, "1", {})
    chosen = export_records(diary.memory, namespace=["session", "ops"], kind=["b"])
    assert [(r["namespace"], r["record_kind"]) for r in chosen] == [("ops", "b"), ("session", "b")]


# -- in --------------------------------------------------------------------------------------------


def test_an_older_folder_leaves_what_has_gone_on_since(diary: Diary) -> None:
    diary.say("three")
    before = diary.memory.space.head
    report = diary.take()
    assert (report.counts.outdated, report.written) == (1, 0)
    assert [problem.path for problem in report.warnings] == [f"2026/{DAY}.md:1"]
    assert diary.memory.space.head == before
    # One edited day is imported although another has gone on.
    diary.memory.append("daily_log", "note", "2026-03-19", {"text": "x"})
    export_markdown(diary.memory, diary.root)
    diary.say("four")
    other = diary.root / "2026" / "2026-03-19.md"
    other.write_text(other.read_text().replace("- x", "- y"))
    assert diary.take().counts.changed == 1
    assert diary.said() == ["one", "two", "three", "four"]


def test_a_newer_record_is_not_replaced_by_an_edited_file(diary: Diary) -> None:
    diary.edit("- two", "- TWO")
    diary.say("three")
    before = diary.memory.space.head
    with pytest.raises(InvalidInput, match=rf"2026/{DAY}\.md:1 .*{DAY}.*--overwrite") as raised:
        diary.take()
    assert raised.value.code == "record_is_newer"
    assert raised.value.details["places"] == [f"2026/{DAY}.md:1"]
    rehearsed = diary.take(dry_run=True)
    assert (rehearsed.counts.newer, rehearsed.written) == (1, 0)
    assert "newer" in rehearsed.warnings[0].message
    assert diary.memory.space.head == before
    assert diary.take(overwrite=True).written == 1
    assert diary.said() == ["one", "TWO"]


def test_lines_of_json_do_not_replace_what_is_newer_either(diary: Diary) -> None:
    old = exported(diary.memory)
    diary.say("three")
    report = import_records(diary.memory, BytesIO(old))
    assert (report.counts.outdated, report.written) == (1, 0)
    edited = old.replace(b'"two"', b'"TWO"')
    with pytest.raises(InvalidInput, match=r"newer.*record 1 ") as raised:
        import_records(diary.memory, BytesIO(edited))
    assert raised.value.code == "record_is_newer"
    assert import_records(diary.memory, BytesIO(edited), dry_run=True).counts.newer == 1
    assert diary.said() == ["one", "two", "three"]
    assert import_records(diary.memory, BytesIO(old), overwrite=True).written == 1
    assert exported(diary.memory) == old


def test_an_old_file_does_not_undo_what_left_the_time_of_the_record(ground: Diary) -> None:
    """A touch leaves updated_at as it is, and so does a put in the same instant. An export from
    before was taken for an edit, and its import undid them."""
    memory, key = ground.memory, ("ops", "k", "a")

    def check_outdated(old: bytes) -> None:
        now = exported(memory)
        assert now != old
        for _ in range(2):
            report = import_records(memory, BytesIO(old))
            assert (report.counts.outdated, report.written) == (1, 0)
        assert exported(memory) == now

    memory.put(*key, {"x": 1})
    made = exported(memory)
    memory.touch(*key)
    memory.touch(*key)
    check_outdated(made)
    assert memory.get(*key)["record"]["metadata"]["access_count"] == 2
    touched = exported(memory)
    memory.put(*key, {"x": 2})
    check_outdated(made)
    check_outdated(touched)
    # A state that the record never had is an edit.
    edited = made.replace(b'"x":1', b'"x":3')
    assert import_records(memory, BytesIO(edited)).counts.changed == 1
    assert exported(memory) == edited
    assert import_records(memory, BytesIO(made), overwrite=True).written == 1
    assert exported(memory) == made


def test_an_import_again_changes_nothing_however_much_has_come_since(ground: Diary) -> None:
    """The file was compared with the last 256 facts only. Beyond that touches were undone, and
    after as many puts the unchanged file was refused."""
    memory, key = ground.memory, ("ops", "k", "a")
    memory.put(*key, {"x": 0})
    old = exported(memory).replace(b"2026-", b"2019-")
    import_records(memory, BytesIO(old), overwrite=True)

    def check_outdated(file: bytes) -> None:
        now = exported(memory)
        report = import_records(memory, BytesIO(file))
        assert (report.counts.outdated, report.written) == (1, 0)
        assert exported(memory) == now

    for _ in range(RECORD_PAST_MAX + 1):
        memory.touch(*key)
    check_outdated(old)
    touched = exported(memory)
    for number in range(RECORD_PAST_MAX + 1):
        ground.clock.move(seconds=1)
        memory.put(*key, {"x": number})
    check_outdated(old)
    for _ in range(RECORD_PAST_MAX + 1):
        memory.touch(*key)
    check_outdated(old)
    check_outdated(touched)
    with pytest.raises(InvalidInput, match="newer"):
        import_records(memory, BytesIO(old.replace(b'"x":0', b'"x":-1')))


def test_a_file_from_before_touches_is_known_after_a_compaction(diary: Diary) -> None:
    """Nothing told any more that the file is an earlier state of the record: an import undid the
    touches, and an export took the file for edited."""
    memory, made = diary.memory, exported(diary.memory)
    memory.touch(*KEY)
    memory.touch(*KEY)
    diary.memory.put("ops", "k", "other", {})
    memory.space.compact(before=memory.space.version)
    assert diary.take().counts.outdated == 1
    report = import_records(memory, BytesIO(made))
    assert (report.counts.outdated, report.written) == (1, 0)
    assert memory.get(*KEY)["record"]["metadata"]["access_count"] == 2
    assert diary.export().written == 1
    # Touches raise the count and change nothing else.
    touched = exported(memory)
    for edited in (
        made.replace(b'"two"', b'"TWO"'),
        made.replace(b'"tags":["a"]', b'"tags":["b"]'),
        touched.replace(b'"access_count":2', b'"access_count":3'),
    ):
        assert import_records(memory, BytesIO(edited), dry_run=True).counts.changed == 1


def test_a_note_is_known_however_often_its_log_was_written_to(ground: Diary) -> None:
    """The state that the import had left was not found below 256 patches. A note without its last
    bullets was then taken for unchanged."""
    ground.write({f"{DAY}.md": "- one\n- two\n"})
    ground.take()
    for _ in range(RECORD_PAST_MAX + 1):
        ground.memory.touch(*KEY)
    ground.say("theirs")
    ground.write({f"{DAY}.md": "- one\n"})
    with pytest.raises(InvalidInput, match="newer"):
        ground.take()
    assert ground.said() == ["one", "two", "theirs"]


def test_a_look_into_a_long_past_holds_no_more_than_a_page_of_it(ground: Diary) -> None:
    memory, key, size = ground.memory, ("ops", "k", "a"), PAGE_BYTES_MAX // 16
    for number in range(100):
        memory.put(*key, {"text": f"{number} {'x' * size}"})
    [record] = export_records(memory)
    entity, never = memory.entity_id(*key), {**record, "payload": {}}
    tracemalloc.start()
    try:
        assert not was(memory.space, entity, never, newest=record)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * PAGE_BYTES_MAX < 100 * size


def test_a_view_of_the_past_does_not_replace_a_file_of_what_came_after(diary: Diary) -> None:
    """The error said that the view sees nothing later, and not which file is in the way."""
    past = rote.Memory(diary.memory.space.at(diary.memory.space.version))
    diary.say("three")
    diary.export()
    files = diary.files()
    with pytest.raises(InvalidInput) as raised:
        export_markdown(past, diary.root)
    assert raised.value.code == "file_in_the_way"
    assert diary.files() == files


def test_a_log_with_its_times_in_another_form_goes_in_and_out(diary: Diary) -> None:
    record = diary.memory.get(*KEY)["record"]
    diary.edit(".000000Z", "+00:00")
    assert diary.take().counts.unchanged == 1
    diary.edit("- two", "- TWO")
    assert diary.take().counts.changed == 1
    assert diary.said() == ["one", "TWO"]
    there = diary.memory.get(*KEY)["record"]
    assert [there[name] for name in ("created_at", "updated_at")] == [
        record[name] for name in ("created_at", "updated_at")
    ]
    assert diary.export().written == 1
    assert "+00:00" not in diary.file.read_text()


def test_times_that_were_stored_as_given_are_known_again(diary: Diary) -> None:
    """Imports once stored times in the form of the file, and stores still hold such records."""
    record = diary.memory.get(*KEY)["record"]
    odd = {**record, "created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-01T00:00:00Z"}
    entity = diary.memory.entity_id(*KEY)
    diary.memory.space.set(entity, odd)
    diary.export(overwrite=True)
    diary.say("three")
    assert diary.take().counts.outdated == 1
    assert diary.export().written == 1
    diary.memory.space.set(entity, odd)
    line = canonical(odd)
    assert import_records(diary.memory, BytesIO(line)).counts.changed == 1
    assert import_records(diary.memory, BytesIO(line)).counts.unchanged == 1
    assert diary.memory.get(*KEY)["record"]["created_at"] == "2020-01-01T00:00:00.000000Z"


def test_a_note_of_a_day_does_not_erase_the_log_of_an_agent(diary: Diary) -> None:
    notes = diary.root / "notes"
    notes.mkdir()
    (notes / f"{DAY}.md").write_text("- my day\n")
    with pytest.raises(InvalidInput, match=r"others have written.*--overwrite"):
        import_markdown(diary.memory, notes)
    assert diary.said() == ["one", "two"]
    assert import_markdown(diary.memory, notes, dry_run=True).counts.newer == 1
    assert import_markdown(diary.memory, notes, overwrite=True).written == 1
    assert diary.said() == ["my day"]


def test_a_bullet_that_is_removed_from_a_note_goes(ground: Diary) -> None:
    ground.write({f"{DAY}.md": "- one\n- two\n- three\n"})
    ground.take()
    ground.memory.touch(*KEY)
    ground.write({f"{DAY}.md": "- one\n"})
    assert ground.take().counts.changed == 1
    assert ground.said() == ["one"]
    ground.say("theirs")
    assert ground.take().counts.outdated == 1
    ground.write({f"{DAY}.md": ""})
    with pytest.raises(InvalidInput, match="newer"):
        ground.take()
    assert ground.said() == ["one", "theirs"]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Diary]:
    made = Diary(tmp_path / "root")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("---\nrote", "\n---\nrote"), ("---\nrote", "rote"), ("---\nrote", "---  \nrote"),
        ("rote: ", "rotte: "), ('rote: "daily_log/1"\n', ""), ("---\nrote", "- x\n---\nrote"),
    ],
)  # fmt: skip
def test_a_damaged_export_is_not_taken_for_a_note(diary: Diary, before: str, after: str) -> None:
    diary.edit(before, after)
    head = diary.memory.space.head
    with pytest.raises(InvalidInput, match="this looks like an export, but"):
        diary.take(overwrite=True)
    assert diary.memory.space.head == head
    told = [p for _, found in validate_markdown(diary.root, namespaces=NAMESPACES) for p in found]
    assert [problem.kind for problem in told] == ["error"]


def test_the_validator_refuses_a_day_in_two_files_and_counts_a_fact_once(ground: Diary) -> None:
    ground.write({f"{DAY}.md": "- a", f"x/{DAY}.md": "- b", "MEMORY.md": "- sun\n- sun\n"})
    found = list(validate_markdown(ground.root, namespaces=NAMESPACES))
    [problem] = [problem for _, problems in found for problem in problems]
    assert (problem.kind, problem.path) == ("error", f"x/{DAY}.md:1")
    assert f"{DAY}.md:1" in problem.message
    assert sum(count for count, _ in found) == 2


def test_facts_that_are_not_in_their_file_any_more_are_told(ground: Diary) -> None:
    ground.write({"MEMORY.md": "- tea\n- sun\n- rain\n", "x/MEMORY.md": "- wind\n"})
    assert ground.take().warnings == ()
    ground.write({"MEMORY.md": "- green tea\n- sun\n", "x/MEMORY.md": "- wind\n- rain\n"})
    report = ground.take()
    assert [(problem.path, problem.message[:9]) for problem in report.warnings] == [
        ("MEMORY.md", "1 record ")
    ]
    assert "fact tea-" in report.warnings[0].message
    assert len(ground.memory.list("long_term")["items"]) == 5
    [(tea, kind)] = [
        (item["record_id"], item["record_kind"])
        for item in ground.memory.list("long_term", id_prefix="tea-")["items"]
    ]
    ground.memory.delete("long_term", kind, tea)
    assert ground.take().warnings == ()


def test_facts_of_another_folder_are_not_said_to_have_been_in_this_one(ground: Diary) -> None:
    """Such facts were reported as gone from a file that they were never in, to be deleted."""
    ground.write({"p1/MEMORY.md": "- alpha\n- gamma\n", "p2/MEMORY.md": "- beta\n"})
    import_markdown(ground.memory, ground.root / "p1")
    [two] = import_markdown(ground.memory, ground.root / "p2").warnings
    assert two.message.startswith(
        "2 records that came from files of this name, here or in other folders, are not in it;"
        " they stay: fact alpha-"
    )
    [one] = import_markdown(ground.memory, ground.root / "p1").warnings
    assert one.message.startswith(
        "1 record that came from a file of this name, here or in another folder, is not in it;"
        " it stays: fact beta-"
    )


def test_a_record_that_names_no_file_is_no_fact_of_one(ground: Diary) -> None:
    """A member of metadata may be anything. A list was looked up among the files, which gave a
    TypeError after the commit."""
    metadata = {"source": "import.markdown", "file": ["MEMORY.md"]}
    ground.memory.put("long_term", "fact", "x", {}, metadata=metadata)
    ground.write({"MEMORY.md": "- sun\n"})
    assert ground.take().warnings == ()


def test_what_has_expired_already_is_told(ground: Diary) -> None:
    ground.say("x", ttl_seconds=60)
    ground.export()
    line = exported(ground.memory)
    other = ground.empty()
    ground.clock.move(seconds=61)
    report = import_markdown(other, ground.root)
    assert (report.counts.new, report.counts.expired) == (1, 1)
    assert "expired" in report.warnings[0].message
    assert import_records(other, BytesIO(line)).counts.expired == 1


def test_what_is_left_out_of_a_folder_is_told(ground: Diary) -> None:
    ground.write({"a.txt": "", ".git/x.md": "", "c.png": b"\x89", "MEMORY.md": "- sun"})
    assert [problem.path for problem in ground.take().warnings] == [".git", "a.txt", "c.png"]


def test_what_is_nearly_a_time_is_text_and_told(diary: Diary) -> None:
    diary.edit("- two", "- [2026-03-20 09:00] two\n- [2026-03-20T09:00:00Z] three\n- [2 of 3] x")
    note = {"notes/2026-03-21.md": "- [2026-13-20T09:00:00Z] two\n"}
    diary.write(note)
    assert [(p.path, "RFC 3339" in p.message) for p in diary.take().warnings] == [
        (f"2026/{DAY}.md:14", True), ("notes/2026-03-21.md:1", True),
    ]  # fmt: skip
    assert diary.said()[1] == "[2026-03-20 09:00] two"


def test_all_that_a_record_lacks_is_told_at_once(ground: Diary) -> None:
    with pytest.raises(InvalidInput, match=r"record_kind is missing.*updated_at is missing"):
        import_records(ground.memory, BytesIO(b'{"namespace":"ops","record_id":"1"}'))


def test_all_namespaces_that_are_unknown_are_told_at_once(ground: Diary) -> None:
    ground.memory.put("ops", "k", "1", {})
    [record] = export_records(ground.memory)
    lines = [canonical({**record, "namespace": name}) for name in ("ops", "zoo", "ops", "ant")]
    with pytest.raises(InvalidInput, match=r"'zoo'.*--namespaces.*'ant'"):
        import_records(ground.memory, BytesIO(b"\n".join(lines)))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"hello\n", "JSON lines, one JSON array"),
        (b"\x1f\x8b\x08\x00", "unpack it"),
        (b"PK\x03\x04", "unpack it"),
        (b"(\xb5/\xfd", "unpack it"),
    ],
)
def test_a_file_of_another_kind_is_told_what_is_taken(
    ground: Diary, data: bytes, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        import_records(ground.memory, BytesIO(data))


def test_a_file_with_blanks_in_its_name_is_named_whole(ground: Diary) -> None:
    ground.memory.append("daily_log", "note", "2026-03-20 tea", {"text": "x"})
    ground.export()
    [file] = ground.root.rglob("*.md")
    file.write_text(file.read_text() + "- y\n")
    with pytest.raises(InvalidInput) as raised:
        ground.export()
    assert raised.value.details["files"] == ["2026/2026-03-20 tea.md"]
