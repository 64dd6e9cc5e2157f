"""Folders as agents leave them come in whole: every line in a record, or named with its reason."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.bridges import import_markdown, markdown_imports, validate_markdown
from rote.errors import InvalidInput, LimitExceeded
from rote.records.keys import NAMESPACES
from tests.unit.bridges.ground import Ground, exported

WORKSPACE: dict[str, str | bytes] = {
    "MEMORY.md": (
        "\ufeff# Long-term memory\r\n\r\n"
        "Ada moved here in\r\n2019. It was spring.\r\n\r\n"
        "## Preferences\r\n\r\n- green tea 🫖\r\n  4. at four\r\n     5. or five\r\n- [x] vim\r\n\r\n"
        "## People\r\n\r\n### Bob\r\n\r\n### Eve\r\n<!-- who\r\nis she? -->\r\n\r\n"
        "## Project\r\n\r\n---\r\n\r\n4. ship\r\n5. rest\r\n\r\n"
        "| day | what |\r\n|-----|------|\r\n| Mon | tea  |\r\n\r\n"
        "```sh\r\n# no heading\r\n- no bullet\r\n\r\nmake\r\n```\r\n\r\n- \r\n- green tea 🫖"
    ).encode(),
    "memory/2026-03-20.md": "# Friday\n\n- [2026-03-20T09:00:00Z] asked\n- answered\n\n## Evening",
    "memory/2026-03-20-evening.md": "went home\n",
    "memory/2026-03-21.md": "",
    "memory/topics/user_preferences.md": "# Editor\n\nDark, *always*.\n\n1. vim\n1. emacs\n",
    "memory/topics/deploy.md": (
        "---\nname: deploy\ndescription: how we ship\ntags: [ops, \"deploy, web\"]\n---\n\n"
        "Run `make`.\n\n<!-- since May -->\n"
    ),
    "notes\u3000of Ada.md": "a page whose name has a wide blank",
    "AGENTS.md": "- be kind",
    "export.json": "[]",
    ".obsidian/app.json": "{}",
    "drafts/poem.md": "Roses are",
}  # fmt: skip

COMMENT = [("MEMORY.md", 18), ("MEMORY.md", 19)]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "root")
    yield made
    made.close()


def payloads(memory: rote.Memory, namespace: str) -> dict[str, Any]:
    items = memory.list(namespace, include=["payload"])["items"]
    return {f"{item['record_kind']} {item['record_id']}": item["payload"] for item in items}


def told(report: Any) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in report.warnings]


def page_of(**front: str) -> str:
    return "\n".join(["---", *(f"{name}: {text}" for name, text in front.items()), "---", "tea\n"])


def test_a_workspace_comes_in_whole(ground: Ground) -> None:
    ground.write(WORKSPACE)
    (ground.root / "link.md").symlink_to(ground.root / "MEMORY.md")
    report = import_markdown(ground.memory, ground.root, skip=["drafts"])
    assert told(report) == [
        (".obsidian", "it is hidden; it is left out"),
        ("drafts", "left out by --skip drafts"),
        ("export.json", "it does not end with .md; it is left out"),
        ("link.md", "a link is not followed"),
        ("MEMORY.md:18-19", "a comment is left out"),
        ("MEMORY.md:23", "lines without text are left out: 23, 39"),
    ]
    texts = {record["text"] for record in payloads(ground.memory, "long_term").values()}
    assert texts == {
        "Ada moved here in\n2019. It was spring.", "green tea 🫖\n4. at four\n   5. or five",
        "[x] vim", "Bob", "Eve", "4. ship", "5. rest",
        "| day | what |\n|-----|------|\n| Mon | tea  |",
        "```sh\n# no heading\n- no bullet\n\nmake\n```", "green tea 🫖",
        "# Editor\n\nDark, *always*.\n\n1. vim\n1. emacs", "Run `make`.\n\n<!-- since May -->",
        "a page whose name has a wide blank", "- be kind",
    }  # fmt: skip
    assert payloads(ground.memory, "daily_log") == {
        "note 2026-03-20": {
            "entries": [
                {"at": "2026-03-20T09:00:00Z", "text": "asked"},
                {"text": "answered"},
                {"text": "Evening"},
            ]
        },
        "note 2026-03-20-evening": {"entries": [{"text": "went home"}]},
        "note 2026-03-21": {"entries": []},
    }
    assert (report.pages, report.files, report.records, report.commits) == (8, 8, 17, 1)
    before = ground.memory.space.head
    again = import_markdown(ground.memory, ground.root, skip=["drafts"])
    assert (again.counts.unchanged, again.written, told(again)) == (17, 0, told(report))
    assert ground.memory.space.head == before
    found = validate_markdown(ground.root, namespaces=NAMESPACES, skip=["drafts"])
    assert [(p.path, p.message) for _, problems in found for p in problems] == told(report)


def test_each_word_of_a_workspace_is_in_the_store_or_named(ground: Ground) -> None:
    ground.write(WORKSPACE)
    import_markdown(ground.memory, ground.root)
    kept = exported(ground.memory).decode()
    for name, data in ground.files().items():
        for number, line in enumerate(data.decode("utf-8-sig").split("\n"), start=1):
            is_named = not name.endswith(".md") or (name, number) in COMMENT
            assert is_named or all(word in kept for word in re.findall(r"\w+", line)), line


# -- topic pages -----------------------------------------------------------------------------------


def test_a_topic_page_is_one_record_by_its_path(ground: Ground) -> None:
    ground.write(WORKSPACE)
    import_markdown(ground.memory, ground.root)
    keys = set(payloads(ground.memory, "long_term"))
    assert {
        "preference memory/topics/user_preferences", "fact memory/topics/deploy",
        "fact notes of Ada", "fact AGENTS", "fact drafts/poem",
    } < keys  # fmt: skip
    deploy = ground.memory.get("long_term", "fact", "memory/topics/deploy")["record"]
    assert deploy["metadata"] == {
        "source": "import.markdown", "file": "memory/topics/deploy.md",
        "tags": ["ops", "deploy, web"],
        "front_matter": {"name": "deploy", "description": "how we ship"},
    }  # fmt: skip
    ground.clock.move(seconds=1)
    ground.write({"drafts/poem.md": "Roses are red"})
    report = import_markdown(ground.memory, ground.root)
    assert (report.counts.changed, report.written) == (1, 1)
    poem = ground.memory.get("long_term", "fact", "drafts/poem")["record"]
    assert poem["payload"] == {"text": "Roses are red"}
    assert poem["created_at"] < poem["updated_at"]


def test_a_path_that_is_too_long_for_an_id_is_still_one_record(ground: Ground) -> None:
    name = "/".join(["äöü" * 30] * 4)
    ground.write({f"{name}.md": "a", f"{name}x.md": "b"})
    assert import_markdown(ground.memory, ground.root).counts.new == 2
    assert import_markdown(ground.memory, ground.root).counts.unchanged == 2


def test_a_page_that_is_too_large_for_a_record_is_named(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rote.bridges.validator.VALUE_BYTES_MAX", 1_000)
    ground.write({"a.md": "fine", "large.md": "x" * 1_001})
    with pytest.raises(InvalidInput, match=r"large\.md:1: the record in bytes"):
        import_markdown(ground.memory, ground.root)
    assert import_markdown(ground.memory, ground.root, skip=["large.md"]).records == 1


def test_a_page_that_tells_of_rote_is_no_damaged_export(ground: Ground) -> None:
    ground.write(
        {"rote.md": "rote: a library\n\n    rote: memory\n", "2026-03-20.md": "record_id: x"}
    )
    assert import_markdown(ground.memory, ground.root).counts.new == 2


# -- front matter ----------------------------------------------------------------------------------


def test_pages_of_ainl_are_the_records_that_ainl_makes_of_them(ground: Ground) -> None:
    ground.write(
        {
            "fact.md": page_of(
                ainl_namespace="long_term", ainl_record_kind="long_term.project_fact",
                ainl_record_id="proj-123", ainl_source_system="obsidian",
                ainl_authored_by="human", ainl_authoritative="true", ainl_curated="yes",
            ),
            "pref.md": page_of(
                ainl_namespace="long_term", ainl_record_kind="long_term.user_preference",
                ainl_record_id="pref-theme", preference_key="theme", preference_value="dark",
            ),
            "daily/2026/2026-03-09.md": page_of(
                ainl_namespace="daily_log", ainl_record_kind="daily_log.note",
                ainl_record_id="2026-03-09", exported_from="ainl.memory",
            ).replace("tea", "\n# Daily Log\n\n- [2026-03-09T01:00:00Z] First.\n- Second."),
        }
    )  # fmt: skip
    assert told(import_markdown(ground.memory, ground.root)) == []
    fact = ground.memory.get("long_term", "long_term.project_fact", "proj-123")["record"]
    assert fact["payload"] == {"text": "tea"}
    assert fact["provenance"] == {"source_system": "obsidian", "authored_by": "human"}
    assert fact["flags"] == {"authoritative": True, "curated": True}
    pref = ground.memory.get("long_term", "long_term.user_preference", "pref-theme")["record"]
    assert pref["payload"] == {"text": "tea", "key": "theme", "value": "dark"}
    log = ground.memory.get("daily_log", "daily_log.note", "2026-03-09")["record"]
    assert log["payload"]["entries"] == [
        {"ts": "2026-03-09T01:00:00Z", "text": "First."},
        {"text": "Second."},
    ]
    assert import_markdown(ground.memory, ground.root).counts.unchanged == 3


def test_a_namespace_that_is_none_is_told_with_file_and_line(ground: Ground) -> None:
    ground.write({"a.md": "fine", "z/b.md": page_of(id="x", ainl_namespace="nope")})
    with pytest.raises(InvalidInput, match=r"^z/b\.md:3: .*no namespace 'nope'.*--namespaces"):
        import_markdown(ground.memory, ground.root)
    assert ground.memory.space.head is None
    own = ground.empty(namespaces=["nope", "long_term"])
    assert import_markdown(own, ground.root).counts.new == 2
    assert own.get("nope", "fact", "x")["found"]
    errors = [
        (problem.kind, problem.path)
        for _, problems in validate_markdown(ground.root, namespaces=NAMESPACES)
        for problem in problems
    ]
    assert errors == [("error", "z/b.md:3")]


def test_front_matter_of_many_facts_is_that_of_each(ground: Ground) -> None:
    front = "---\nnamespace: ops\nkind: rule\ntags: a\nsource: wiki\ntitle: x\n---\n"
    ground.write({"MEMORY.md": front + "- one\n\n## b\n- two\n"})
    report = import_markdown(ground.memory, ground.root)
    assert [path for path, _ in told(report)] == ["MEMORY.md:6"]
    items = ground.memory.list("ops", "rule", include=["metadata"])["items"]
    assert [item["metadata"]["tags"] for item in items] == [["a"], ["a", "b"]]
    assert {item["metadata"]["source"] for item in items} == {"wiki"}
    named = front.replace("kind: rule", "id: all")
    ground.write({"MEMORY.md": named + "- one\n\n## b\n- two\n"})
    import_markdown(ground.memory, ground.root)
    assert payloads(ground.memory, "ops")["fact all"] == {"text": "- one\n\n## b\n- two"}


def test_an_edit_of_front_matter_alone_is_taken(ground: Ground) -> None:
    key = ("long_term", "fact", "x")
    ground.write({"x.md": page_of(tags="a", source="wiki")})
    import_markdown(ground.memory, ground.root)
    ground.memory.touch(*key)
    assert import_markdown(ground.memory, ground.root).counts.unchanged == 1
    ground.clock.move(seconds=1)
    ground.write({"x.md": page_of(tags="b", source="book")})
    assert import_markdown(ground.memory, ground.root).counts.changed == 1
    metadata = ground.memory.get(*key)["record"]["metadata"]
    assert (metadata["tags"], metadata["source"]) == (["b"], "book")
    ground.memory.space.patch(
        rote.Memory.entity_id(*key), [{"op": "add", "path": "/metadata/tags/-", "value": "c"}]
    )
    assert import_markdown(ground.memory, ground.root).counts.outdated == 1
    ground.write({"x.md": page_of(tags="d")})
    with pytest.raises(InvalidInput, match="newer than the file"):
        import_markdown(ground.memory, ground.root)


# -- the same thing twice --------------------------------------------------------------------------


def test_a_fact_under_two_headings_has_both_as_tags(ground: Ground) -> None:
    ground.write({"MEMORY.md": "# M\n\n## a\n- tea\n## b\n- tea\n## a\n- tea\n"})
    assert told(import_markdown(ground.memory, ground.root)) == []
    [item] = ground.memory.list("long_term", include=["metadata"])["items"]
    assert item["metadata"]["tags"] == ["a", "b"]


def test_a_fact_of_two_pages_is_told(ground: Ground) -> None:
    ground.write({"MEMORY.md": "## a\n- tea\n- sun", "z/MEMORY.md": "## b\n- tea\n## a\n- sun\n"})
    words = "the text of MEMORY.md:2 again, so one record; its headings here are left out"
    assert told(import_markdown(ground.memory, ground.root)) == [("z/MEMORY.md:2", words)]


def test_a_day_in_two_folders_is_refused_until_one_is_skipped(ground: Ground) -> None:
    ground.write({"a/2026-03-20.md": "- x", "b/2026-03-20.md": "- y"})
    with pytest.raises(InvalidInput, match=r"b/2026-03-20\.md:1 has the key of a/.*--skip one"):
        import_markdown(ground.memory, ground.root)
    assert import_markdown(ground.memory, ground.root, skip=["b"]).records == 1


# -- reports ---------------------------------------------------------------------------------------


def test_more_warnings_than_a_report_has_are_counted(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markdown_imports, "MARKDOWN_WARNINGS_MAX", 2)
    ground.write({f"{number}.txt": "" for number in range(5)} | {"MEMORY.md": "- tea"})
    report = import_markdown(ground.memory, ground.root)
    assert [path for path, _ in told(report)] == ["0.txt", "1.txt", ""]
    assert told(report)[-1][1].startswith("3 more warnings")


def test_patterns_are_checked_and_those_of_no_use_are_told(ground: Ground) -> None:
    ground.write({"MEMORY.md": "- tea"})
    assert [
        path for path, _ in told(import_markdown(ground.memory, ground.root, skip=["*.txt"]))
    ] == ["*.txt"]
    for skip in ("MEMORY.md", [""], [1]):
        with pytest.raises(InvalidInput):
            import_markdown(ground.memory, ground.root, skip=skip)  # type: ignore[arg-type]
    with pytest.raises(LimitExceeded):
        import_markdown(ground.memory, ground.root, skip=["x"] * 101)
    with pytest.raises(InvalidInput, match="no folder"):
        import_markdown(ground.memory, ground.root / "MEMORY.md", skip=["x"])
