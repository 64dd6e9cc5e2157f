"""Daily logs leave as Markdown and come back; notes of others come in once, all or nothing."""

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.bridges import (
    batches,
    export_markdown,
    import_markdown,
    import_records,
    validate_markdown,
)
from rote.contract import operations
from rote.errors import InvalidInput, RoteError
from rote.records.keys import NAMESPACES
from rote.values import canonical
from tests.unit.bridges.ground import Ground, exported

MEMORY = """\
# Memory of Ada

Ada leads the project
since 2024.

## Preferences

- green tea
  - in the morning
* vim

  not emacs

## Project ##
### Release

1. ships on Fridays
2) ships from `main`
- ships on Fridays

```
- no bullet

# no heading
```
***
"""


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "root")
    yield made
    made.close()


def texts(memory: rote.Memory, kind: str) -> dict[str, Any]:
    """Return the texts of facts or preferences with their tags."""
    items = memory.list("long_term", kind, include=["payload", "metadata"])["items"]
    return {item["payload"]["text"]: item["metadata"].get("tags") for item in items}


# -- daily logs out --------------------------------------------------------------------------------


def test_daily_logs_round_trip_with_everything_in_them(ground: Ground) -> None:
    for text in ("plain", "two\nlines", "[x] [a](b)", "\r\n", "- \\ ---\n```\n", "  \n\n"):
        ground.memory.append("daily_log", "note", "2026-03-20", {"text": text, "n": 1})
    ground.memory.append("daily_log", "other", "standup", {"at": "2026-01-01T00:00:00Z"}, 60)
    ground.memory.put("daily_log", "note", "odd", {"entries": 5}, None, {"tags": ["a"]})
    ground.memory.put("ops", "k", "1", {})
    report = export_markdown(ground.memory, ground.root)
    assert report.to_dict() == {
        "records": 3, "written": 3, "unchanged": 0, "without_record": [],
    }  # fmt: skip
    assert sorted(ground.files()) == ["2026/2026-03-20.md", "2026/odd.md", "2026/standup.md"]
    other = ground.empty()
    ground.clock.move(seconds=30)

    def counts(new: int) -> dict[str, int]:
        return {
            "records": new, "new": new, "changed": 0, "unchanged": 0, "outdated": 0, "newer": 0,
            "written": new, "expired": 0,
        }  # fmt: skip

    assert import_markdown(other, ground.root).to_dict() == {
        "pages": 3, "files": 3, **counts(3), "commits": 1, "warnings": [],
        "made": [
            {"namespace": "daily_log", "record_kind": "note", **counts(2)},
            {"namespace": "daily_log", "record_kind": "other", **counts(1)},
        ],
    }  # fmt: skip
    ground.memory.delete("ops", "k", "1")
    assert exported(other) == exported(ground.memory)
    before = other.space.head
    assert import_markdown(other, ground.root).written == 0
    assert other.space.head == before


def test_an_export_again_is_the_same_to_the_byte_and_touches_nothing(ground: Ground) -> None:
    ground.memory.append("daily_log", "note", "2026-03-20", {"text": "a"})
    export_markdown(ground.memory, ground.root)
    [path] = ground.root.rglob("*.md")
    before, made = ground.files(), path.stat()
    ground.clock.move(seconds=60)
    assert export_markdown(ground.memory, ground.root).written == 0
    assert ground.files() == before
    assert path.stat().st_ino == made.st_ino
    ground.memory.append("daily_log", "note", "2026-03-20", {"text": "b"})
    assert export_markdown(ground.memory, ground.root).written == 1
    assert ground.files() != before
    other = ground.root.parent / "other"
    export_markdown(ground.memory, other)
    assert {path.read_bytes() for path in other.rglob("*.md")} == set(ground.files().values())
    assert ground.memory.space.did.encode() not in b"".join(ground.files().values())


@pytest.mark.parametrize(
    "id", ["../../x", "/etc/passwd", "a/b", "a\\b", "..", ".x", "CON", "n\x00", "\n"]
)
def test_an_id_that_would_leave_the_folder_is_refused_and_nothing_is_written(
    ground: Ground, id: str
) -> None:
    ground.memory.append("daily_log", "a", "2026-03-20", {"text": "a"})
    ground.memory.append("daily_log", "b", id, {"text": "a"})
    with pytest.raises(InvalidInput, match="no name for a file"):
        export_markdown(ground.memory, ground.root)
    assert sorted(ground.root.parent.rglob("*")) == []
    assert export_markdown(ground.memory, ground.root, kind="a").records == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a", "day"), ("a", "DAY")), (("a", "day"), ("b", "day")), (("a", "é"), ("a", "e\u0301"))],
)
def test_two_records_that_would_be_one_file_are_refused(
    ground: Ground, first: tuple[str, str], second: tuple[str, str]
) -> None:
    for key in (first, second):
        ground.memory.append("daily_log", *key, {"text": "a"})
    with pytest.raises(InvalidInput, match="would be one file"):
        export_markdown(ground.memory, ground.root)
    assert not ground.root.exists()


def test_names_alike_in_two_years_are_two_files(ground: Ground) -> None:
    ground.memory.append("daily_log", "a", "day", {"text": "a"})
    ground.clock.move(seconds=366 * 86_400)
    ground.memory.append("daily_log", "a", "DAY", {"text": "a"})
    assert export_markdown(ground.memory, ground.root).written == 2
    assert sorted(ground.files()) == ["2026/day.md", "2027/DAY.md"]


def test_links_that_were_planted_lead_nowhere(ground: Ground) -> None:
    outside = ground.root.parent / "outside"
    outside.mkdir()
    ground.root.mkdir()
    ground.memory.append("daily_log", "note", "2026-03-20", {"text": "a"})
    ground.memory.append("daily_log", "note", "2025-01-01", {"text": "a"})
    (ground.root / "2026").symlink_to(outside)
    with pytest.raises(InvalidInput, match="is a link"):
        export_markdown(ground.memory, ground.root)
    (ground.root / "2026").unlink()
    (ground.root / "2026").mkdir()
    (ground.root / "2026" / "2026-03-20.md").symlink_to(outside / "new.md")
    with pytest.raises(InvalidInput, match="is a link"):
        export_markdown(ground.memory, ground.root)
    assert list(outside.iterdir()) == []
    assert ground.files() == {}


def test_a_file_that_is_no_export_is_never_replaced(ground: Ground) -> None:
    ground.write({"2026/2026-03-20.md": "mine"})
    ground.memory.append("daily_log", "note", "2026-03-20", {"text": "a"})
    ground.memory.append("daily_log", "note", "2025-01-01", {"text": "a"})
    with pytest.raises(InvalidInput, match="is no export"):
        export_markdown(ground.memory, ground.root)
    assert ground.files() == {"2026/2026-03-20.md": b"mine"}


def test_a_log_in_another_file_than_its_own_is_refused(ground: Ground) -> None:
    ground.memory.append("daily_log", "note", "2026-03-20", {"text": "a"})
    export_markdown(ground.memory, ground.root)
    path = ground.root / "2026" / "2026-03-20.md"
    path.rename(path.with_name("2026-03-21.md"))
    with pytest.raises(InvalidInput, match=r"2026/2026-03-21\.md:1: "):
        import_markdown(ground.memory, ground.root)


# -- notes of others in ----------------------------------------------------------------------------


def test_bullets_and_paragraphs_become_facts_and_preferences(ground: Ground) -> None:
    ground.write({"MEMORY.md": MEMORY})
    report = import_markdown(ground.memory, ground.root)
    assert texts(ground.memory, "preference") == {
        "green tea\n- in the morning": ["Preferences"],
        "vim\n\nnot emacs": ["Preferences"],
    }
    tags = ["Project", "Release"]
    assert texts(ground.memory, "fact") == {
        "Ada leads the project\nsince 2024.": None,
        "ships on Fridays": tags,
        "ships from `main`": tags,
        "```\n- no bullet\n\n# no heading\n```": tags,
    }
    assert (report.records, report.written, report.commits) == (6, 6, 1)
    assert [(problem.path, problem.message) for problem in report.warnings] == [
        ("MEMORY.md:26", "lines without text are left out: 26")
    ]
    found = ground.memory.list("long_term", filters={"source": "import.markdown"})
    assert len(found["items"]) == 6


def test_facts_are_stamped_by_the_commit_and_importing_again_changes_nothing(
    ground: Ground,
) -> None:
    ground.write({"MEMORY.md": "- tea\n"})
    import_markdown(ground.memory, ground.root)
    [item] = ground.memory.list("long_term")["items"]
    assert (
        item["created_at"]
        == item["updated_at"]
        == ground.memory.space.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    )
    ground.memory.touch("long_term", "fact", item["record_id"])
    ground.clock.move(seconds=60)
    ground.write({"MEMORY.md": "# Moved\n\n## Elsewhere\n\n* tea\n* coffee\n"})
    before = exported(ground.memory)
    assert import_markdown(ground.memory, ground.root).written == 1
    assert import_markdown(ground.memory, ground.root).written == 0
    for item in ground.memory.list("long_term", id_prefix="coffee")["items"]:
        ground.memory.delete("long_term", "fact", item["record_id"])
    assert exported(ground.memory) == before


def test_ids_come_from_texts_alone(ground: Ground) -> None:
    ground.write({"MEMORY.md": "- tea\n\n- Ein Täßchen 茶\n- 茶\n"})
    import_markdown(ground.memory, ground.root)
    other = ground.empty()
    ground.write({"MEMORY.md": "# Title\n- 茶\n1. Ein Täßchen 茶\n+ tea"})
    ground.clock.move(seconds=5)
    import_markdown(other, ground.root)
    ids = [
        [item["record_id"] for item in m.list("long_term")["items"]] for m in (ground.memory, other)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3


def test_a_file_by_itself_is_facts_or_a_day(ground: Ground) -> None:
    ground.write(
        {
            "preferences.md": "- tea",
            "notes.md": "# Preferences\n- vim\n# Facts\n- sun",
            "2026-03-20.md": "- x",
        }
    )
    for name in ("preferences", "notes", "2026-03-20"):
        import_markdown(ground.memory, ground.root / f"{name}.md")
    assert texts(ground.memory, "preference") == {"tea": None, "vim": None}
    assert texts(ground.memory, "fact") == {"sun": ["Facts"]}
    assert ground.memory.get("daily_log", "note", "2026-03-20")["found"]


def test_a_folder_is_migrated_whole(ground: Ground) -> None:
    ground.write(
        {
            "MEMORY.md": MEMORY,
            "README.md": "a topic",
            "empty.md": "\n \n",
            "memory/2026-03-20.md": "---\ntags: x\n---\n# Friday\n\n- [2026-03-20T09:00:00Z] asked\n"
            "\n<!-- to do\n\n- x -->\n\n## Later\nwent on\n- [ ] open\n",
            "memory/2026-03-21-tea.md": "",
            "memory/2026-13-01.md": "- no day",
        }
    )
    (ground.root / "link.md").symlink_to(ground.root / "README.md")
    report = import_markdown(ground.memory, ground.root)
    assert [(made.record_kind, made.records) for made in report.made] == [
        ("note", 2), ("fact", 6), ("preference", 2),
    ]  # fmt: skip
    assert (report.pages, report.files, report.commits) == (6, 5, 1)
    assert [problem.path for problem in report.warnings] == [
        "link.md", "MEMORY.md:26", "empty.md:1", "memory/2026-03-20.md:8-10",
    ]  # fmt: skip
    no_day = ground.memory.get("long_term", "fact", "memory/2026-13-01")["record"]
    assert no_day["payload"] == {"text": "- no day"}
    record = ground.memory.get("daily_log", "note", "2026-03-20")["record"]
    assert record["payload"] == {
        "entries": [
            {"at": "2026-03-20T09:00:00Z", "text": "asked"},
            {"text": "went on", "headings": ["Later"]},
            {"text": "[ ] open", "headings": ["Later"]},
        ]
    }
    assert record["metadata"] == {
        "source": "import.markdown", "file": "memory/2026-03-20.md", "title": "Friday",
        "tags": ["x"], "valid_at": "2026-03-20T00:00:00Z",
    }  # fmt: skip
    empty = ground.memory.get("daily_log", "note", "2026-03-21-tea")["record"]
    assert empty["payload"] == {"entries": []}


def test_a_log_that_has_gone_on_since_keeps_what_it_has(ground: Ground) -> None:
    ground.write({"2026-03-20.md": "- one\n- two\n"})
    import_markdown(ground.memory, ground.root)
    ground.memory.append("daily_log", "note", "2026-03-20", {"text": "three"})
    before = ground.memory.space.head
    assert import_markdown(ground.memory, ground.root).written == 0
    assert ground.memory.space.head == before
    ground.clock.move(seconds=5)
    ground.write({"2026-03-20.md": "- one\n- other\n"})
    created = ground.memory.get("daily_log", "note", "2026-03-20")["record"]["created_at"]
    with pytest.raises(InvalidInput, match="newer"):
        import_markdown(ground.memory, ground.root)
    assert ground.memory.space.head == before
    assert import_markdown(ground.memory, ground.root, overwrite=True).written == 1
    record = ground.memory.get("daily_log", "note", "2026-03-20")["record"]
    assert [entry["text"] for entry in record["payload"]["entries"]] == ["one", "other"]
    assert record["created_at"] == created < record["updated_at"]


@pytest.mark.parametrize("is_export", [False, True])
def test_what_is_appended_during_an_import_is_not_lost(ground: Ground, is_export: bool) -> None:
    """Another process appends between the look at a log and the commit: the import looks again."""
    ground.write({"2026-03-20.md": "- one\n"})
    import_markdown(ground.memory, ground.root)
    path = ground.root / "2026-03-20.md"
    if is_export:
        path.unlink()
        export_markdown(ground.memory, ground.root)
        [path] = ground.root.rglob("*.md")
    path.write_text(path.read_text() + "- two\n")
    space = ground.memory.space
    transact, calls = space.transact, list[int]()

    def interrupted(*arguments: Any, **more: Any) -> rote.Commit:
        calls.append(1)
        if len(calls) == 1:
            ground.clock.move(seconds=1)
            ground.memory.append("daily_log", "note", "2026-03-20", {"text": "theirs"})
        return transact(*arguments, **more)

    space.transact = interrupted  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="newer"):
        import_markdown(ground.memory, ground.root)
    record = ground.memory.get("daily_log", "note", "2026-03-20")["record"]
    assert [entry["text"] for entry in record["payload"]["entries"]] == ["one", "theirs"]


def test_what_expired_comes_back_and_new_records_live_as_long_as_others(ground: Ground) -> None:
    memory = ground.empty(default_ttl_by_namespace={"long_term": 10})
    ground.write({"MEMORY.md": "- tea"})
    import_markdown(memory, ground.root)
    [item] = memory.list("long_term")["items"]
    assert item["ttl_seconds"] == 10
    ground.clock.move(seconds=11)
    assert import_markdown(memory, ground.root).written == 1
    [again] = memory.list("long_term")["items"]
    assert again["created_at"] > item["created_at"]


def test_a_memory_of_v1_gets_no_metadata(ground: Ground) -> None:
    memory = ground.empty(profile="v1")
    ground.write({"MEMORY.md": "## A\n- tea", "2026-03-20.md": "- x"})
    assert import_markdown(memory, ground.root).written == 2
    assert memory.get("daily_log", "note", "2026-03-20")["record"]["metadata"] is None
    with pytest.raises(InvalidInput, match="no namespace 'long_term'"):
        import_markdown(ground.empty(namespaces=["ops"]), ground.root / "MEMORY.md")


# -- all or nothing --------------------------------------------------------------------------------

BAD_FILES: list[tuple[bytes, str]] = [
    (b"- a\n- \xff\n", "z/2026-03-20.md:2: it is not UTF-8"),
    (b"\xef\xbb\xbf- \xc0\x80", "z/2026-03-20.md:1: it is not UTF-8"),
    (b"- a\n\n" + b"x" * (1024 * 1024 + 1), "z/2026-03-20.md:3: the line has more than"),
    (b'---\nrote: "daily_log/1"\n---\n- x\n', "z/2026-03-20.md:1: the record_id is not"),
    (
        b'---\nrote: "daily_log/1"\nrecord_id: "2026-03-20"\n---\n- x\n',
        "z/2026-03-20.md:1 at /record_kind",
    ),
]


@pytest.mark.parametrize(("data", "told"), BAD_FILES)
def test_a_bad_file_is_told_and_nothing_of_the_folder_is_written(
    ground: Ground, data: bytes, told: str
) -> None:
    ground.write({"MEMORY.md": MEMORY, "z/2026-03-20.md": data})
    before = ground.memory.space.head
    with pytest.raises(RoteError) as raised:
        import_markdown(ground.memory, ground.root)
    assert str(raised.value).startswith(told)
    assert raised.value.code == "invalid_input"
    assert ground.memory.space.head == before
    problems = [
        (problem.kind, problem.path)
        for _, found in validate_markdown(ground.root, namespaces=NAMESPACES)
        for problem in found
        if problem.kind == "error"
    ]
    assert problems[0][1].startswith("z/2026-03-20.md:")


def test_one_day_in_two_files_is_refused(ground: Ground) -> None:
    ground.write({"2026-03-20.md": "- a", "memory/2026-03-20.md": "- b"})
    with pytest.raises(
        InvalidInput, match=r"memory/2026-03-20\.md:1 has the key of 2026-03-20.md:1"
    ):
        import_markdown(ground.memory, ground.root)
    assert ground.memory.space.head is None


def test_a_dry_run_says_the_same_and_writes_nothing(ground: Ground) -> None:
    ground.write({"MEMORY.md": MEMORY, "2026-03-20.md": "- a"})
    rehearsed = import_markdown(ground.memory, ground.root, dry_run=True)
    assert ground.memory.space.head is None
    assert (rehearsed.commits, rehearsed.written) == (0, 7)
    done = import_markdown(ground.memory, ground.root)
    assert (done.made, done.files, done.commits) == (rehearsed.made, rehearsed.files, 1)
    line = canonical(ground.memory.get("daily_log", "note", "2026-03-20")["record"])
    assert import_records(ground.empty(), BytesIO(line), dry_run=True).to_dict() == {
        "records": 1, "new": 1, "changed": 0, "unchanged": 0, "outdated": 0, "newer": 0,
        "written": 1, "expired": 0, "commits": 0,
    }  # fmt: skip


def test_batches_of_notes_end_before_they_are_too_large(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (batches, operations):
        monkeypatch.setattr(module, "COMMIT_BYTES_MAX", 2_000)
    facts = [f"- fact number {number}\n" for number in range(40)]
    ground.write({"MEMORY.md": "".join(facts)})
    report = import_markdown(ground.memory, ground.root, batch=40)
    assert (report.written, report.commits > 5) == (40, True)


def test_a_note_in_two_batches_is_one_note(ground: Ground) -> None:
    ground.write({"MEMORY.md": "- sun\n- rain\n- sun\n- wind\n"})
    report = import_markdown(ground.memory, ground.root, batch=1)
    assert (report.records, report.written, report.commits) == (3, 3, 3)
    ground.write({"2026-03-20.md": "- a\n", "more/2026-03-20.md": "- b\n"})
    with pytest.raises(InvalidInput, match=r"has the key of 2026-03-20\.md:1"):
        import_markdown(ground.memory, ground.root, batch=1)


def test_batches_are_commits_of_their_own(ground: Ground) -> None:
    ground.write({"MEMORY.md": MEMORY, "2026-03-20.md": "- a"})
    assert import_markdown(ground.memory, ground.root, batch=3).commits == 3
    assert import_markdown(ground.memory, ground.root, batch=2).commits == 0


def _file(ground: Ground) -> object:
    return import_markdown(ground.memory, ground.root / "MEMORY.md")


def _folder(ground: Ground) -> object:
    return import_markdown(ground.memory, ground.root)


@pytest.mark.parametrize(
    ("limit", "call"),
    [
        ("rote.bridges.pages.MARKDOWN_FILE_BYTES_MAX", _file),
        ("rote.bridges.pages.MARKDOWN_LINES_MAX", _file),
        ("rote.bridges.notes.MARKDOWN_BLOCKS_MAX", _file),
        ("rote.bridges.markdown_imports.MARKDOWN_FOLDER_BYTES_MAX", _folder),
        ("rote.bridges.folders.MARKDOWN_NAMES_MAX", _folder),
        ("rote.bridges.imports.OPERATIONS_MAX", _file),
    ],
)
def test_files_have_bounds(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, limit: str, call: Callable[[Ground], object]
) -> None:
    ground.write({"MEMORY.md": "- a\n- b\n- c\n", "2026-03-20.md": "- a", "2026-03-21.md": "- a"})
    monkeypatch.setattr(limit, 2)
    with pytest.raises(RoteError, match=r"the limit is 2|more than 2 notes"):
        call(ground)
    assert ground.memory.space.head is None


def test_a_line_that_is_made_to_be_slow_is_not(ground: Ground) -> None:
    size = 500_000
    pages = [
        "# " + " " * size + "#" * 7 + " x",
        "- " * (size // 2) + "x",
        "&amp;" * (size // 5),
        "[" * size,
    ]
    ground.write(
        {
            "MEMORY.md": "\n\n".join(pages),
            "2026-03-20.md": "\n\n".join(f"- {page}" for page in pages),
        }
    )
    assert import_markdown(ground.memory, ground.root).records > 0
    export_markdown(ground.memory, ground.root / "out")
    assert import_markdown(ground.memory, ground.root / "out").written == 0


# -- the validator ---------------------------------------------------------------------------------


def test_the_validator_tells_of_every_file(ground: Ground) -> None:
    ground.memory.append("daily_log", "note", "2026-03-19", {"text": "x"}, None, {"tags": ["a"]})
    export_markdown(ground.memory, ground.root)
    ground.write(
        {
            "MEMORY.md": "- tea\n- vim",
            "README.md": "",
            "2026-03-20.md": b"- a\n\xff",
            "2026-03-21.md": b"\xff",
        }
    )

    def told(**more: Any) -> list[tuple[str, str]]:
        return [
            (problem.kind, problem.path)
            for _, problems in validate_markdown(ground.root, **{"namespaces": NAMESPACES, **more})
            for problem in problems
        ]

    expected = [
        ("error", "2026-03-20.md:2"),
        ("error", "2026-03-21.md:1"),
        ("warning", "README.md:1"),
    ]
    assert told() == expected
    in_v1 = ("error", "2026/2026-03-19.md:1/metadata")
    assert told(profile="v1") == [*expected[:2], in_v1, expected[2]]
    facts = [("error", f"MEMORY.md:{line}/namespace") for line in (1, 2)]
    assert told(namespaces=["daily_log"]) == [*expected[:2], *facts, expected[2]]
    counts = [count for count, _ in validate_markdown(ground.root, namespaces=NAMESPACES)]
    assert sum(counts) == 3
    with pytest.raises(InvalidInput):
        list(validate_markdown(ground.root, namespaces=NAMESPACES, profile="v2"))
