"""Records in and out of files: the same bytes from every store."""

from io import BytesIO

import pytest

from rote.bridges import export_markdown, import_markdown, import_records, write_export
from rote.errors import InvalidInput
from rote.records.memory import Memory
from rote.testing.space_suite.records import RecordGround
from rote.values import canonical

TEXTS = ("two\nlines", "[x] [a](b)", "\r\n- \\ ---\n```\n", "  \n\n", "\x00\u2028\U0001f600")


class RecordFileTests(RecordGround):
    """Records that leave one store enter another unchanged."""

    def _exported(self, memory: Memory) -> bytes:
        stream = BytesIO()
        write_export(memory, stream)
        return stream.getvalue()

    def test_records_travel_as_json_lines(self) -> None:
        for text in TEXTS:
            self.memory.append("daily_log", "note", "2026-03-20", {"text": text}, 60)
        sent = self._exported(self.memory)
        other = Memory(self.open_fresh("other").space("other"))
        assert import_records(other, BytesIO(sent)).written == 1
        assert self._exported(other) == sent
        assert import_records(other, BytesIO(sent)).written == 0

    def test_what_a_record_carries_is_kept_until_it_is_put_anew(self) -> None:
        carried = {
            "provenance": {"source_system": "ainl.memory", "confidence": None, "": [1.5]},
            "flags": {"curated": True},
        }
        key = ("daily_log", "note", "2026-03-20")
        self.memory.append(*key, {"text": "one"}, None, {"tags": ["tea"]})
        record = {**self.memory.get(*key)["record"], **carried}
        other = Memory(self.open_fresh("other").space("other"))
        assert import_records(other, BytesIO(canonical(record))).counts.new == 1
        assert other.get(*key) == {"found": True, "record": record}
        names = ("flags", "provenance")
        for filters in (None, {"tags_all": ["tea"]}):
            [item] = other.list("daily_log", filters=filters, include=names)["items"]
            assert {name: item[name] for name in names} == carried
        root = self.place / "carried"
        assert export_markdown(other, root).written == 1
        third = Memory(self.open_fresh("third").space("third"))
        assert import_markdown(third, root).written == 1
        assert self._exported(third) == self._exported(other) == canonical(record) + b"\n"
        self.clock.move(seconds=1)
        other.append(*key, {"text": "two"})
        other.touch(*key)
        assert carried.items() <= other.get(*key)["record"].items()
        other.put(*key, {})
        assert other.get(*key)["record"].keys().isdisjoint(carried)
        [item] = other.list("daily_log", include=names)["items"]
        assert (item["flags"], item["provenance"]) == (None, None)

    def test_daily_logs_travel_as_markdown(self) -> None:
        for text in TEXTS:
            self.memory.append("daily_log", "note", "2026-03-20", {"text": text, "n": 1})
        self.memory.append("daily_log", "other", "standup", {"at": "2026-01-01T00:00:00Z"}, 60)
        root = self.place / "logs"
        assert export_markdown(self.memory, root).written == 2
        other = Memory(self.open_fresh("other").space("other"))
        assert import_markdown(other, root).written == 2
        assert self._exported(other) == self._exported(self.memory)
        before = other.space.head
        assert import_markdown(other, root).written == 0
        assert other.space.head == before
        assert export_markdown(other, root).written == 0

    def test_notes_come_in_once(self) -> None:
        root = self.place / "notes"
        root.mkdir()
        (root / "MEMORY.md").write_text("- sun\n\n## Preferences\n- tea\n- vim\n", "utf-8")
        (root / "2026-03-20.md").write_text("- [2026-03-20T09:00:00Z] asked\n", "utf-8")
        rehearsed = import_markdown(self.memory, root, dry_run=True)
        assert (rehearsed.written, self.space.head) == (4, None)
        assert import_markdown(self.memory, root).written == 4
        assert self.space.version == 1
        assert len(self.listed("long_term", "preference")) == 2
        self.memory.append("daily_log", "note", "2026-03-20", {"text": "more"})
        self.clock.move(seconds=1)
        before = self.space.head
        assert import_markdown(self.memory, root).written == 0
        assert self.space.head == before

    def test_what_was_edited_on_one_side_is_taken_and_on_both_is_refused(self) -> None:
        key = ("daily_log", "note", "2026-03-20")
        root = self.place / "edited"
        self.memory.append(*key, {"text": "one"})
        export_markdown(self.memory, root)
        [file] = root.rglob("*.md")
        for text in ("two", "three"):
            self.clock.move(seconds=1)
            self.memory.append(*key, {"text": text})
            self.memory.touch(*key)
            assert import_markdown(self.memory, root).counts.outdated == 1
            assert export_markdown(self.memory, root).written == 1
        file.write_text(file.read_text("utf-8") + "- by hand\n", "utf-8")
        with pytest.raises(InvalidInput, match="was edited"):
            export_markdown(self.memory, root)
        assert import_markdown(self.memory, root).counts.changed == 1
        file.write_text(file.read_text("utf-8") + "- and again\n", "utf-8")
        self.clock.move(seconds=1)
        self.memory.append(*key, {"text": "four"})
        before = self.space.head
        with pytest.raises(InvalidInput, match="newer than the file"):
            import_markdown(self.memory, root)
        with pytest.raises(InvalidInput, match="was edited"):
            export_markdown(self.memory, root)
        assert self.space.head == before
        entries = self.memory.get(*key)["record"]["payload"]["entries"]
        assert [e["text"] for e in entries] == ["one", "two", "three", "by hand", "four"]
