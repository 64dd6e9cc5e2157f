"""Records by their three words, wherever an id is taken or shown."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rote import Memory
from rote.cli.naming import id_in, shown, told
from rote.errors import RoteError
from rote.opening import open as open_store
from rote.records.keys import entity_id, key_of
from tests.unit.cli.command import error_of, run, run_json, run_ok

KEY = ("long_term", "fact", "drink")
ODD = ("ops", "a kind", "it's !! odd/é")

NAMESPACES = some.from_regex(r"\A[a-z0-9_-]{1,64}\Z")
PARTS = some.text(
    some.characters(exclude_categories=["Cs", "Zl", "Zp", "Zs", "Cc"], include_characters=" \t!"),
    min_size=1,
    max_size=20,
)


@given(NAMESPACES, PARTS, PARTS)
def test_the_key_of_a_record_is_found_in_its_id(namespace: str, kind: str, id: str) -> None:
    entity = entity_id(namespace, kind, id)
    assert key_of(entity) == (namespace, kind, id)
    assert id_in([namespace, kind, id]) == id_in([shown(entity)]) == entity
    assert shlex.split(shown(entity)) == [namespace, kind, id]


@pytest.mark.parametrize(
    "id",
    ["urn:a", "record:", "record:ops", "record:ops!!k!!i", "record:ops!!k!!", "record:ops!!!!i!!",
     "record:OPS!!k!!i!!", "record:ops!!k!2!!i!!", "record:ops!!k!!i!!more", "record:ops!!k!7e!!i!!"],
)  # fmt: skip
def test_what_is_no_record_is_shown_as_it_is(id: str) -> None:
    assert (key_of(id), shown(id)) == (None, id)


def test_a_record_in_a_message_has_its_name() -> None:
    entity = entity_id(*KEY)
    assert told(f"{entity} and '{entity}' but not record:x") == (
        "long_term fact drink and 'long_term fact drink' but not record:x"
    )


@pytest.mark.parametrize("words", [["a", "b"], ["a", "b", "c", "d"], ["ada"], ["a b"], [""], ["'"]])
def test_an_id_has_one_word_or_three(words: list[str]) -> None:
    with pytest.raises(RoteError, match=r"three words: NAMESPACE KIND ID"):
        id_in(words)


@pytest.fixture
def store(store_path: Path) -> Path:
    with open_store(store_path, author="planner") as opened:
        space = opened.space("default")
        for key in (KEY, ODD):
            Memory(space).put(*key, {"text": "tea"})
            Memory(space).put(*key, {"text": "coffee"})
    return store_path


@pytest.mark.parametrize("key", [KEY, ODD])
def test_every_command_takes_a_record_by_its_words(store: Path, key: tuple[str, str, str]) -> None:
    entity = entity_id(*key)
    name = shown(entity)
    for words in (key, (name,), (entity,)):
        assert run_json("get", *words, store=store)["id"] == entity
        history = run_ok("history", *words, store=store).splitlines()
        assert len(history) == 2
        log = run_ok("log", *words, store=store).splitlines()
        assert [line.split("\t")[3] for line in log] == [f"set {name}"] * 2
        queried = run_ok("query", *words, store=store)
        assert queried.startswith(f"{name}\t")
    ops = '[{"op":"replace","path":"/payload/text","value":"water"}]'
    assert run_ok("patch", *key, ops, store=store).startswith(f"patch {name} at version 5 (")
    assert f"~ {name}\n" in run_ok("diff", "4", store=store)
    assert run_ok("delete", *key, store=store).startswith(f"delete {name} at version 6 (")
    absent = run("get", *key, store=store)
    assert (absent.exit_code, absent.stderr) == (1, f"{name} does not exist\n")
    erased = run_ok("erase", *key, "--reason", "r", store=store)
    assert erased.startswith(f"erase {name} at version 7 (")
    assert run("get", *key, store=store).stderr == f"{name} was erased\n"


def test_a_record_can_be_set_whole(store: Path) -> None:
    assert "three words" in error_of(run("set", "long_term", "fact", "1", store=store))
    assert "VALUE is missing" in error_of(run("set", "urn:a", store=store))
    written = run("set", *KEY, "-", store=store, stdin=run_ok("get", *KEY, store=store))
    assert written.stdout.startswith("set long_term fact drink at version 5 (")


def test_list_takes_the_beginning_of_an_id_or_of_the_words_of_records(store: Path) -> None:
    run_ok("set", "urn:a", "1", store=store)
    run_ok("memory", "put", "ops", "a kind", "other", "{}", store=store)

    def listed(*words: str) -> list[str]:
        lines = run_ok("list", *words, store=store).splitlines()
        return [line.split("\t")[0] for line in lines]

    odd, other, drink = shown(entity_id(*ODD)), "ops 'a kind' other", "long_term fact drink"
    assert listed() == [drink, odd, other, "urn:a"]
    assert listed("urn:") == ["urn:a"]
    assert listed("record:") == [drink, odd, other]
    assert listed("ops", "a kind") == [odd, other]
    assert listed("ops", "a kind", "o") == [other]
    assert listed("--limit", "2") == [drink, odd]
    assert listed("--at", "2") == [drink]
    hint = run("list", "long_term", store=store)
    assert (hint.exit_code, hint.stdout) == (0, "")
    assert "rote memory list long_term" in hint.stderr
    assert "one word" in error_of(run("list", "a", "b", "c", "d", store=store))
    lines = run_ok("list", "urn:", "--json", store=store).splitlines()
    assert len(lines) == 1
    assert '"id":"urn:a"' in lines[0]


def test_conflicts_of_records_are_shown_and_settled_by_their_names(store: Path) -> None:
    run_ok("branch", "create", "topic", store=store)
    put = ("memory", "put", *KEY)
    run_ok(*put, '{"text":"milk"}', store=store)
    run_ok(*put, '{"text":"cocoa"}', "--branch", "topic", store=store)
    conflict = run("merge", "topic", store=store)
    assert conflict.exit_code == 1
    assert conflict.stdout.splitlines()[1].startswith("long_term fact drink\t")
    merged = run_ok("merge", "topic", "--delete", " ".join(KEY), store=store)
    assert "  long_term fact drink\n" in merged
    assert run("get", *KEY, store=store).exit_code == 1


def test_errors_name_records_by_their_words(store: Path) -> None:
    words = error_of(run("erase", "ops", "k", "i", "--reason", "r", store=store))
    assert "ops k i" in words
    assert "!!" not in words
