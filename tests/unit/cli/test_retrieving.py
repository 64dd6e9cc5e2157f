"""rote retrieve: its cache, its output, and its input."""

from pathlib import Path

import pytest

from rote.values import decode
from tests.unit.cli.command import error_of, run, run_ok, run_process
from tests.unit.cli.test_outcome import on_terminal

REQUEST = '{"query":"keys","store_paths":["s.jsonl"],"budget":{"max_excerpt_tokens":50}}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "s.jsonl").write_bytes(b'{"memory_id":"1","text":"deploy keys"}\n')
    return tmp_path / "root"


def asked(root: Path, *options: str, **environment: str) -> str:
    told = run_process("retrieve", REQUEST, *options, cwd=root, **environment)
    assert (told.returncode, told.stderr) == (0, "")
    return told.stdout


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_kept_in_the_users_cache_folder(root: Path, tmp_path: Path) -> None:
    cache, home = tmp_path / "cache", tmp_path / "home"
    first = asked(root, XDG_CACHE_HOME=str(cache), HOME=str(home))
    [kept] = files_in(cache)
    assert kept.startswith("rote/retrieval/")
    assert not home.exists()
    assert asked(root, XDG_CACHE_HOME="relative", HOME=str(home)) == first
    assert [path.removeprefix(".cache/") for path in files_in(home)] == [kept]
    assert files_in(root) == ["s.jsonl"]


def test_a_file_is_kept_where_one_says_or_nowhere(root: Path, tmp_path: Path) -> None:
    cache, other = tmp_path / "cache", tmp_path / "other"
    environment = {"XDG_CACHE_HOME": str(cache), "HOME": str(tmp_path / "home")}
    first = asked(root, "--no-cache", **environment)
    assert files_in(tmp_path) == ["root/s.jsonl"]
    assert asked(root, "--cache", str(other), **environment) == first
    assert len(files_in(other)) == 1
    assert not cache.exists()


def test_a_home_that_cannot_be_written_is_no_fault(root: Path) -> None:
    assert asked(root, XDG_CACHE_HOME="/proc/nothing", HOME="/proc/nothing")


def test_a_cache_and_none_exclude_each_other(root: Path) -> None:
    told = run("retrieve", REQUEST, "--root", str(root), "--cache", "x", "--no-cache")
    assert "exclude each other" in error_of(told)


# -- what it shows ------------------------------------------------------------------------------------


def test_the_columns_have_names_on_a_terminal_and_none_elsewhere(root: Path) -> None:
    shown = on_terminal("retrieve", REQUEST, "--no-cache", cwd=root)
    assert [word for word in ("rank", "score", "memory", "excerpt") if word not in shown] == []
    assert asked(root, "--no-cache").startswith("1\t1\tkeys\t3\t1\tdeploy keys\n")


def test_who_reads_several_stores_sees_where_each_memory_is_from(root: Path) -> None:
    (root / "t.jsonl").write_bytes(b'{"memory_id":"1","text":"door keys"}\n')
    request = REQUEST.replace('"s.jsonl"', '"t.jsonl","s.jsonl"')
    told = run("retrieve", request, "--root", str(root), "--no-cache")
    assert [line.split("\t")[4:] for line in told.stdout.splitlines()[:2]] == [
        ["1", "s.jsonl", "deploy keys"],
        ["1", "t.jsonl", "door keys"],
    ]


NO_MEMORY = b'{"namespace":"ops","record_id":"1"}\n'


@pytest.mark.parametrize("options", [(), ("--json",), ("--explain",)])
def test_a_file_without_memories_is_told(root: Path, options: tuple[str, ...]) -> None:
    (root / "s.jsonl").write_bytes(NO_MEMORY * 2)
    told = run("retrieve", REQUEST, "--root", str(root), "--no-cache", *options)
    hint = "no line of s.jsonl is a memory; export with --format retrieval\n"
    assert (told.exit_code, told.stderr) == (0, hint)


@pytest.mark.parametrize("denied", ["1", "2"])
def test_a_file_with_one_memory_is_a_file_of_memories(root: Path, denied: str) -> None:
    """A file with one memory counts also when that memory is kept out."""
    (root / "s.jsonl").write_bytes(NO_MEMORY + b'{"memory_id":"1","text":"keys"}\n')
    entry = f'{{"memory_id":"{denied}","classification":"malicious"}}'
    (root / "trust.json").write_text(f'{{"classifications":[{entry}]}}')
    request = REQUEST.replace("}}", '},"trust_filter":{"trust_snapshot_path":"trust.json"}}')
    told = run("retrieve", request, "--root", str(root), "--no-cache")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout.splitlines()[-1].startswith("0 mem" if denied == "1" else "1 mem")


def test_an_empty_file_is_no_foreign_file(root: Path) -> None:
    (root / "s.jsonl").write_bytes(b"")
    told = run("retrieve", REQUEST, "--root", str(root), "--no-cache")
    assert (told.exit_code, told.stderr) == (0, "")


# -- what it asks for ---------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", ["deploy keys", "[1]", "x" * 5000, "nowhere.json"])
def test_what_is_neither_json_nor_a_file_is_answered_with_what_may_be(request_: str) -> None:
    said = error_of(run("retrieve", request_))
    assert 'REQUEST is a file, - for standard input, or JSON such as \'{"query":' in said


def test_a_request_is_taken_as_other_commands_take_json_and_by_a_files_name(root: Path) -> None:
    (root / "q.json").write_text(REQUEST)
    options = ("--root", str(root), "--no-cache")
    whole = run("retrieve", REQUEST, *options).stdout
    assert whole
    for request, stdin in ((f"@{root}/q.json", ""), (f"{root}/q.json", ""), ("-", REQUEST)):
        told = run("retrieve", request, *options, stdin=stdin)
        assert (told.exit_code, told.stdout) == (0, whole)
    assert "nowhere.json" in error_of(run("retrieve", "@nowhere.json", *options))


def test_the_request_that_is_shown_as_an_example_is_a_request(root: Path) -> None:
    (root / "s.jsonl").rename(root / "notes.jsonl")
    example = error_of(run("retrieve", "deploy keys")).split("'")[1]
    assert run("retrieve", example, "--root", str(root), "--no-cache").exit_code == 0


def test_a_file_that_is_missing_is_told_with_its_folder(root: Path) -> None:
    missing = REQUEST.replace("s.jsonl", "t.jsonl")
    said = error_of(run("retrieve", missing, "--root", str(root)))
    assert said == f"error: there is no store 't.jsonl' in {root}; name the folder with --root\n"
    untrusted = REQUEST.replace("}}", '},"trust_filter":{"trust_snapshot_path":"trust.json"}}')
    assert f"'trust.json' in {root}" in error_of(run("retrieve", untrusted, "--root", str(root)))
    elsewhere = REQUEST.replace("s.jsonl", "/nowhere/t.jsonl")
    said = error_of(run("retrieve", elsewhere, "--root", str(root)))
    assert said == "error: there is no store '/nowhere/t.jsonl'\n"


def test_a_space_that_is_missing_is_in_no_folder(root: Path, store_path: Path) -> None:
    run_ok("set", "urn:entity:a", "1", store=store_path)
    missing = REQUEST.replace("s.jsonl", "rote:nowhere")
    said = error_of(run("retrieve", missing, "--root", str(root), store=store_path))
    assert said.endswith("there is no space 'nowhere'; there is default\n")
    assert str(root) not in said
    branch = REQUEST.replace("s.jsonl", "rote:default@none")
    said = error_of(run("retrieve", branch, "--root", str(root), store=store_path))
    assert "there is no branch 'none'" in said
    assert "default" not in said.partition(":default@none")[2]


@pytest.mark.parametrize("paths", ['"default"', '"default","rote:default"'])
def test_a_path_that_is_the_name_of_a_space_is_told_how_to_name_it(
    root: Path, store_path: Path, paths: str
) -> None:
    run_ok("set", "urn:entity:a", "1", store=store_path)
    bare = REQUEST.replace('"s.jsonl"', paths)
    said = error_of(run("retrieve", bare, "--root", str(root), store=store_path))
    assert said == "error: there is no store 'default'; the space is rote:default\n"


def test_hybrid_1_without_an_embedder_names_the_option(root: Path) -> None:
    for request in (REQUEST, REQUEST.replace("s.jsonl", "rote:default")):
        said = error_of(run("retrieve", request, "--policy", "hybrid-1", "--root", str(root)))
        assert said.endswith("--embedder MODULE:NAME\n")


def test_a_policy_that_is_not_there_is_told_with_all_that_are(root: Path) -> None:
    for request in (REQUEST, REQUEST.replace("s.jsonl", "rote:default")):
        said = error_of(run("retrieve", request, "--policy", "hybrid-2", "--root", str(root)))
        assert said.endswith("there are phase6-v1, lexical-1, hybrid-1\n")


@pytest.mark.parametrize("paths", ['"rote:notes"', '"rote:notes","s.jsonl"'])
def test_a_request_is_checked_before_the_store_is_opened(tmp_path: Path, paths: str) -> None:
    """A missing store hid the fault in the request."""
    request = f'{{"query":" ","store_paths":[{paths}],"budget":{{"max_excerpt_tokens":0}}}}'
    missing = tmp_path / "missing.db"
    assert "query" in error_of(run("retrieve", request, store=missing))
    asked = request.replace('" "', '"keys"')
    assert "max_excerpt_tokens" in error_of(run("retrieve", asked, store=missing))
    assert "missing.db" in error_of(run("retrieve", asked.replace(":0}", ":9}"), store=missing))
    assert not missing.exists()


# -- by another policy --------------------------------------------------------------------------------

LEXICAL = ("--policy", "lexical-1", "--no-cache")


def test_a_policy_is_named_in_the_request_or_by_the_option(root: Path) -> None:
    request = REQUEST.replace('"keys"', '"Deploying?"')
    told = run("retrieve", request, *LEXICAL, "--root", str(root))
    assert told.exit_code == 0
    assert told.stdout.splitlines()[0].split("\t")[2:] == ["deploi", "3", "1", "deploy keys"]
    assert told.stdout.splitlines()[1].startswith("1 memory in 3 of 50 tokens, 0 dropped")
    named = request.replace("{", '{"policy":"lexical-1",', 1)
    assert run("retrieve", named, "--no-cache", "--root", str(root)).stdout == told.stdout
    seeds = run("retrieve", named, "--policy", "phase6-v1", "--no-cache", "--root", str(root))
    assert seeds.stdout == run("retrieve", request, "--no-cache", "--root", str(root)).stdout
    said = error_of(run("retrieve", request, "--policy", "lexical-2", "--root", str(root)))
    assert "there is no policy 'lexical-2'" in said


def test_who_was_dropped_by_lexical_1_is_counted_or_explained(root: Path) -> None:
    with (root / "s.jsonl").open("ab") as file:
        file.write(b'{"memory_id":"2","text":"a plant"}\n')
    told = run("retrieve", REQUEST, *LEXICAL, "--root", str(root))
    assert told.stdout.splitlines()[1].startswith("1 memory in 3 of 50 tokens, 1 dropped")
    why = run("retrieve", REQUEST, *LEXICAL, "--root", str(root), "--explain").stdout
    assert why.splitlines()[1] == "2\ts.jsonl\tno_match"
    assert why.splitlines()[2] == told.stdout.splitlines()[1]
    package = run("retrieve", REQUEST, *LEXICAL, "--root", str(root), "--json").stdout
    assert '"dropped_counts":{"no_match":1}' in package
    assert '"dropped":' not in package


def test_a_file_without_memories_is_told_by_lexical_1_too(root: Path) -> None:
    (root / "s.jsonl").write_bytes(NO_MEMORY)
    told = run("retrieve", REQUEST, *LEXICAL, "--root", str(root))
    hint = "no line of s.jsonl is a memory; export with --format memories\n"
    assert (told.exit_code, told.stderr) == (0, hint)
    (root / "s.jsonl").write_bytes(b"")
    assert run("retrieve", REQUEST, *LEXICAL, "--root", str(root)).stderr == ""


def test_the_excerpts_are_printed_as_text_for_a_prompt(root: Path) -> None:
    (root / "s.jsonl").write_bytes(b'{"memory_id":"1","text":"<keys>\\u001b\\nof ours"}\n')
    text = '<memory id="1">\n&lt;keys&gt;\x1b\nof ours\n</memory>\n'
    options = ("--text", "--no-cache", "--root", str(root))
    assert run("retrieve", REQUEST, *options).stdout == text
    assert run("retrieve", REQUEST, *options, "--policy", "lexical-1").stdout == text
    for more in ("--json", "--explain"):
        assert "--text is printed alone" in error_of(run("retrieve", REQUEST, *options, more))


def test_a_space_is_asked_by_lexical_1(store_path: Path) -> None:
    run_ok("memory", "put", "ops", "note", "1", '{"text":"deploy keys"}', store=store_path)
    request = REQUEST.replace("s.jsonl", "rote:default")
    told = run_ok("retrieve", request, *LEXICAL, store=store_path)
    assert told.splitlines()[0].split("\t")[4:] == ["ops/note/1", "deploy keys"]
    wrong = request.replace("{", '{"filters":[],', 1)
    assert "filters must be an object" in error_of(
        run("retrieve", wrong, *LEXICAL, store=store_path)
    )


# -- by an embedder -----------------------------------------------------------------------------------

EMBEDDERS = """
print("loading")

class Lengths:
    name, version, dimension = "lengths", "1", 2
    def embed(self, texts):
        print("embedding")
        return [[len(text), 1] for text in texts]

made = Lengths()

def make():
    return made

def fails():
    raise OSError("no model")

class Failing(Lengths):
    def embed(self, texts):
        return 1 / 0

class Wordy(Lengths):
    name = "two words"

number = 5
"""
HYBRID = ("--policy", "hybrid-1", "--no-cache", "--json")


def test_an_embedder_is_named_as_an_object_a_class_or_a_function(root: Path) -> None:
    (root / "embedders.py").write_text(EMBEDDERS)
    answers = set()
    for name in ("made", "Lengths", "make"):
        told = run_process(
            "retrieve", REQUEST, *HYBRID, "--embedder", f"embedders:{name}", cwd=root
        )
        assert told.returncode == 0, told.stderr
        assert "embedding" in told.stderr
        answers.add(told.stdout)
    [answer] = answers
    assert decode(answer)["policy"]["embedder"]["name"] == "lengths"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none:made", "cannot import none"),
        ("embedders:other", "there is no other"),
        ("embedders", "name a function as MODULE:FUNCTION"),
        ("embedders:fails", "embedders.py, line 16)"),
        ("embedders:Failing", "failed: ZeroDivisionError: division by zero"),
        ("embedders:Wordy", "without @ and white space"),
        ("embedders:number", "failed: TypeError"),
        (None, "hybrid-1 compares vectors"),
    ],
)
def test_what_is_no_embedder_is_told(root: Path, name: str | None, words: str) -> None:
    (root / "embedders.py").write_text(EMBEDDERS)
    named = () if name is None else ("--embedder", name)
    told = run_process("retrieve", REQUEST, *HYBRID, *named, cwd=root)
    assert told.returncode == 2
    assert words in told.stderr.splitlines()[-1]
    assert told.stdout == ""
