"""`rote runs replay`: a function in the place of the program that was recorded."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from typer.testing import Result

import rote
from rote import ModelConfig, ToolProfile
from rote.testing.postgres import database_url
from rote.values import decode
from tests.unit.cli.command import (
    ROTE,
    SECONDS_MAX,
    environment,
    error_of,
    json_error_of,
    run,
    run_json,
    run_ok,
)

MODES = ("off", "read_only", "buffered_write", "live_read_write")
# The model has no seed: what people use.
MODEL = ModelConfig("acme", "large-1", temperature=0.5)
TERMS: dict[str, Any] = {
    "workflow_id": "triage",
    "model": MODEL,
    "policy_set_id": "p1",
    "mode": "buffered_write",
    "tools": [ToolProfile("search", "1"), ToolProfile("mail", "2", normalized_args_fields=["/to"])],
}
PROGRAM = """
CALLED = []

def search(query):
    CALLED.append(query)
    return {"hits": [query.upper()]}

def mail(to):
    CALLED.append(to)
    return "sent"

def think(prompt):
    CALLED.append(prompt)
    return {"text": prompt.title()}

def work(run):
    package = run.retrieve({"query": "deploy keys", "budget": {"max_excerpt_tokens": 100}})
    with run.event(role="planner", interceptor="before_tool", decision_type="tool_call") as event:
        thought = event.model(think, prompt="where are the keys?")
        found = event.call("search", search, query="keys")
        event.call("mail", mail, to="ada")
    run.set("urn:answer", found)
    run.memory.put("ops", "fact", "asked", thought)
    run.memory.append("ops", "log", "all", thought)
    run.memory.append("ops", "log", "all", found)
    run.patch("urn:ticket", [{"op": "replace", "path": "/state", "value": "answered"}])
    run.output({"type": "text", "sections": ["answer"]})
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in the test's own folder, and forget the modules that were imported from it."""
    monkeypatch.chdir(tmp_path)
    before, paths = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    assert sys.path == paths


def record(
    url: object, program: str = PROGRAM, *, run_id: str = "monday", **other: Any
) -> dict[str, Any]:
    """Run a program, recorded beside its trace; return what it defined."""
    defined: dict[str, Any] = {}
    exec(program, defined)
    settings = {"traces": other.pop("traces")} if "traces" in other else {}
    with rote.open(str(url), modes=MODES, **settings) as store:
        space = store.space("team")
        if not space.version:
            rote.Memory(space).put("long_term", "fact", "keys", {"text": "Deploy keys are here."})
            space.set("urn:ticket", {"state": "open"})
        with space.run(**{**TERMS, "record": True, **other}, run_id=run_id) as recorded:
            defined["work"](recorded)
    return defined


@pytest.fixture(scope="module")
def recorded_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a recorded run, of which every test gets a copy."""
    path = tmp_path_factory.mktemp("recorded") / "memory.db"
    assert record(path)["CALLED"] == ["where are the keys?", "keys", "ada"]
    return path


@pytest.fixture
def store(recorded_store: Path, tmp_path: Path) -> Path:
    copytree(recorded_store.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / recorded_store.name


def write(program: str, name: str = "agent") -> None:
    Path(f"{name}.py").write_text(program)


def changed(old: str, new: str, program: str = PROGRAM) -> str:
    assert program.count(old) == 1
    return program.replace(old, new)


def replay(store: Path, function: str = "agent:work", *more: str, run_id: str = "monday") -> Result:
    return run("runs", "replay", run_id, function, *more, store=store)


def answer_of(store: Path, function: str = "agent:work", *more: str, expected: int = 1) -> Any:
    result = replay(store, function, *more, "--json")
    assert (result.exit_code, result.stderr) == (expected, "")
    return decode(result.stdout)


# -- equal -----------------------------------------------------------------------------------------


def everything(store: Path) -> tuple[Any, ...]:
    traces = sorted(path for path in store.with_name("observability").rglob("*"))
    return (
        run_json("runs", "list", store=store),
        [(path, path.stat().st_mtime_ns) for path in traces],
        run("log", "--space", "team", "--json", store=store).stdout,
        store.read_bytes(),
    )


def test_the_same_program_is_equal_calls_nothing_and_leaves_nothing(store: Path) -> None:
    write(PROGRAM)
    before = everything(store)
    result = replay(store)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "equal: agent:work did what the run monday did: 2 events, 2 tool calls, the same writes\n"
    )
    assert sys.modules["agent"].CALLED == []
    assert everything(store) == before


def test_programs_are_told_the_same(store: Path) -> None:
    write(PROGRAM)
    answer = answer_of(store, expected=0)
    assert (answer["ok"], answer["status"], answer["parted"]) == (True, "equal", None)
    assert answer["report"]["status"] == "equivalent"
    assert answer["recording"] == str(store.with_name("observability") / "monday/recording.jsonl")
    trace: Any = decode(store.with_name("observability").joinpath("monday/trace.json").read_bytes())
    assert answer["payload_fingerprint"] == trace["metadata"]["commit_payload_fingerprint"]


def test_the_beginning_of_an_id_is_enough(store: Path) -> None:
    write(PROGRAM)
    assert replay(store, run_id="mon").exit_code == 0


@pytest.mark.parametrize(
    "function",
    ["package:work", "package.inner:work", "package.inner:Agent.work", "package.inner:agent.work"],
)
def test_a_function_may_be_in_a_package_a_class_or_an_object(store: Path, function: str) -> None:
    Path("package").mkdir()
    Path("package/__init__.py").write_text("from .inner import work\n")
    more = "\nclass Agent:\n    work = staticmethod(work)\n\nagent = Agent()\n"
    Path("package/inner.py").write_text(PROGRAM + more)
    assert replay(store, function).exit_code == 0


@pytest.mark.parametrize("mode", ["off", "read_only"])
def test_a_run_that_writes_nothing_can_be_replayed(store_path: Path, mode: str) -> None:
    program = "def work(run):\n    run.output({'type': 'none'})\n"
    record(store_path, program, mode=mode, model=None, tools=[])
    write(program)
    assert "0 events, 0 tool calls" in run_ok(
        "runs", "replay", "monday", "agent:work", store=store_path
    )


def test_a_run_that_failed_is_equal_when_it_fails_again(store_path: Path) -> None:
    program = changed("run.set(", "1 / 0; run.set(")
    with pytest.raises(ZeroDivisionError):
        record(store_path, program)
    write(program)
    said = run_ok("runs", "replay", "monday", "agent:work", store=store_path)
    assert said.endswith("2 tool calls, and ZeroDivisionError: division by zero, as then\n")
    write(PROGRAM, "mended")
    assert answer_of(store_path, "mended:work")["parted"]["by"] == "call"
    write(changed("1 / 0", "int('x')", program), "other")
    assert answer_of(store_path, "other:work")["status"] == "different"


def test_a_replay_is_kept_when_it_is_wanted(store: Path) -> None:
    write(PROGRAM)
    answer = answer_of(store, "agent:work", "--keep", expected=0)
    first, kept = run_json("runs", "list", store=store)
    assert (first["run_id"], kept["run_id"]) == ("monday", answer["kept"])
    lines = run_ok("runs", "list", store=store).splitlines()
    assert [line.split("\t")[3:5] for line in lines] == [["commit_applied", "3"], ["replayed", ""]]
    trace = str(store.with_name("observability") / answer["kept"] / "trace.json")
    assert run_json("runs", "show", answer["kept"], store=store)["files"][0]["path"] == trace
    said = replay(store, "agent:work", "--keep").stdout.splitlines()
    assert said[1].startswith("kept as the run ")


def test_a_replay_is_not_kept_where_nothing_can_be_written(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(PROGRAM)
    # Root may write everything, whatever the mode of a file says.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert replay(store).exit_code == 0
    assert "leave out --keep" in error_of(replay(store, "agent:work", "--keep"))


def test_a_copy_of_the_store_and_its_traces_will_do(store: Path, tmp_path: Path) -> None:
    write(PROGRAM)
    run_ok("backup", "copy.db", store=store)
    traces = store.with_name("observability").rename(tmp_path / "elsewhere")
    error_of(replay(tmp_path / "copy.db"))
    assert replay(tmp_path / "copy.db", "agent:work", "--traces", str(traces)).exit_code == 0


def test_a_run_of_a_server_can_be_replayed(tmp_path: Path) -> None:
    url, traces = database_url(tmp_path), tmp_path / "traces"
    record(url, traces=traces)
    write(PROGRAM)
    words = ("runs", "replay", "monday", "agent:work", "--store", url)
    assert "--traces" in error_of(run(*words))
    assert run(*words, "--traces", str(traces)).exit_code == 0
    kept = run(*words, "--traces", str(traces), "--keep", "--json")
    assert (traces / decode(kept.stdout)["kept"] / "trace.json").is_file()


# -- different -------------------------------------------------------------------------------------

SEARCH = 'found = event.call("search", search, query="keys")'
MAIL = 'event.call("mail", mail, to="ada")'


@pytest.mark.parametrize(
    ("old", "new", "recorded", "made"),
    [
        ('query="keys"', 'query="key"', 'tool search {"query":"keys"}', 'tool search {"query":"key"}'),
        ('to="ada"', 'to="eve"', 'tool mail {"to":"ada"}', 'tool mail {"to":"eve"}'),
        (MAIL, 'event.call("search", search, query="ada")', 'tool mail {"to":"ada"}',
         'tool search {"query":"ada"}'),
        (f"{SEARCH}\n        {MAIL}", f"{MAIL}\n        {SEARCH}", 'tool search {"query":"keys"}',
         'tool mail {"to":"ada"}'),
        ("where are", "who has", 'model large-1 {"prompt":"where are the keys?"}',
         'model large-1 {"prompt":"who has the keys?"}'),
        (MAIL, "pass", 'tool mail {"to":"ada"}', "the end of the run"),
        (f'{MAIL}\n    run.set("urn:answer"', 'run.set("urn:other"', 'tool mail {"to":"ada"}',
         "the end of the run"),
        (MAIL, f"{MAIL}; {MAIL}", "the end of the run", 'tool mail {"to":"ada"}'),
    ],
    ids=["arguments", "compared", "tool", "order", "prompt", "fewer", "other writes too", "more"],
)  # fmt: skip
def test_another_call_is_shown_with_the_recorded_one(
    store: Path, old: str, new: str, recorded: str, made: str
) -> None:
    write(changed(old, new))
    parted = answer_of(store)["parted"]
    assert (parted["by"], parted["recorded"], parted["made"]) == ("call", recorded, made)
    result = replay(store)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == [f"recorded\t{recorded}", f"now\t{made}"]


def test_the_line_that_makes_another_call_is_named(store: Path) -> None:
    program = changed('query="keys"', 'query="key"')
    write(program)
    line = next(n for n, text in enumerate(program.splitlines(), 1) if 'query="key"' in text)
    place = f"{Path('agent.py').absolute()}, line {line}"
    assert answer_of(store)["parted"]["at"] == place
    first = replay(store).stdout.splitlines()[0]
    assert first == f"different: it leaves the recording at {place}"


@pytest.mark.parametrize(
    "instead",
    [
        "try:\n            {}\n        except Exception:\n            found = None",
        "try:\n            {}\n        except Exception as e:\n            raise KeyError('x') from e",
        "try:\n            {}\n        except Exception:\n            raise KeyError('x')",
        "try:\n            {}\n        except Exception as e:\n            raise SystemExit from e",
    ],
    ids=["swallowed", "raised from", "raised in", "exit"],
)
def test_a_program_cannot_hide_that_it_made_another_call(store: Path, instead: str) -> None:
    write(changed(SEARCH, instead.format(SEARCH.replace("keys", "key"))))
    parted = answer_of(store)["parted"]
    assert (parted["by"], parted["made"]) == ("call", 'tool search {"query":"key"}')
    assert parted["at"] is not None


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise Lines('two\\nlines')", "Lines: two lines"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import sys; sys.exit()", "SystemExit"),
        ("run.set('no uri', 1)", "InvalidInput: 'no uri' is not an absolute URI"),
        ("event.call('mail', mail)", "InvalidInput: this event is not open"),
        ("raise Mute", "Mute"),
        ("run.output(NONE); run.output(NONE)", "InvalidInput: this run has its output already"),
        ("def f(): f()\n    f()", "RecursionError: maximum recursion depth"),
    ],
)
def test_a_program_that_raises_is_different(store: Path, new: str, message: str) -> None:
    extra = "NONE = {'type': 'none'}\nclass Lines(Exception): pass\n"
    extra += "class Mute(Exception):\n    def __str__(self): raise ValueError\n"
    at_the_end = 'run.output({"type": "text", "sections": ["answer"]})'
    write(extra + changed(at_the_end, new))
    parted = answer_of(store)["parted"]
    assert parted["by"] == "error"
    assert parted["message"].startswith(message)
    assert "agent.py, line " in parted["at"]
    result = replay(store)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"different: it raised {message}")


def test_a_program_may_leave_its_folder_for_good(store: Path) -> None:
    write(
        changed(
            "run.set(", "import os; os.mkdir('x'); os.chdir('x'); os.rmdir('../x'); 1 / 0; run.set("
        )
    )
    parted = answer_of(store)["parted"]
    assert parted["message"] == "ZeroDivisionError: division by zero"
    assert "agent.py, line " in parted["at"]


def test_a_tool_that_the_run_did_not_have_is_refused(store: Path) -> None:
    write(changed(MAIL, 'event.call("shop", mail, to="ada")'))
    assert "no profile of the tool 'shop'" in answer_of(store)["parted"]["message"]


@pytest.mark.parametrize(
    ("old", "new", "entities"),
    [
        ('"urn:answer", found', '"urn:answer", thought', {
            "urn:answer": (['set {"hits":["KEYS"]}'], ['set {"text":"Where Are The Keys?"}']),
        }),
        ("run.set(", "run.set('urn:more', 1); run.set(", {"urn:more": ([], ["set 1"])}),
        ('run.set("urn:answer", found)', "pass", {"urn:answer": (['set {"hits":["KEYS"]}'], [])}),
        ('"value": "answered"', '"value": "closed"', {
            "urn:ticket": (['patch [{"op":"replace","path":"/state","value":"answered"}]'],
                           ['patch [{"op":"replace","path":"/state","value":"closed"}]']),
        }),
        ('run.set("urn:answer", found)', 'run.delete("urn:ticket"); run.set("urn:answer", found)', {
            "urn:ticket": (['patch [{"op":"replace","path":"/state","value":"answered"}]'],
                           ["delete", "set 1"]),
        }),
    ],
    ids=["value", "more", "fewer", "patch", "sequence"],
)  # fmt: skip
def test_what_it_would_have_written_is_shown_where_it_differs(
    store: Path, old: str, new: str, entities: dict[str, tuple[list[str], list[str]]]
) -> None:
    program = changed(old, new)
    if "delete" in new:
        program = program[: program.index("    run.patch(")] + "    run.set('urn:ticket', 1)\n"
        program += '    run.output({"type": "text", "sections": ["answer"]})\n'
    write(program)
    parted = answer_of(store)["parted"]
    assert parted["by"] == "writes"
    found = {each["id"]: (each["recorded"], each["made"]) for each in parted["entities"]}
    assert found == entities
    first, *lines = replay(store).stdout.splitlines()
    assert first == "different: the calls are the same, and it would write something else"
    assert [line.split("\t")[0] for line in lines] == list(entities)


def test_records_that_would_be_written_otherwise_are_the_only_ones_shown(store: Path) -> None:
    write(changed('run.memory.append("ops", "log", "all", found)', "pass"))
    result = replay(store)
    assert result.exit_code == 1
    [entity, recorded, now] = result.stdout.splitlines()[1].split("\t")
    assert entity == "ops log all"
    assert recorded.startswith('patch [{"add":[],"index":0,"op":"splice",')
    assert now == "nothing"


def test_what_a_run_that_was_not_applied_wrote_is_not_known(store_path: Path) -> None:
    record(store_path, commit_policy=lambda _: False)
    write(changed('"urn:answer", found', '"urn:answer", 1'))
    [entity] = [
        each for each in answer_of(store_path)["parted"]["entities"] if each["id"] == "urn:answer"
    ]
    assert (entity["recorded"], entity["made"]) == (None, ["set 1"])
    assert "urn:answer\t(not known)\tset 1\n" in replay(store_path).stdout


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('role="planner"', 'role="critic"', "event_mismatch:1:role"),
        ("deploy keys", "deploy locks", "retrieval_mismatch:0:query_fingerprint"),
        ('"sections": ["answer"]', '"sections": []', "output_mismatch:output_shape_hash"),
        (MAIL, f"{MAIL}; event.guardrail('pii')", "guardrails_mismatch:1"),
    ],
)
def test_what_only_traces_show_is_a_difference(store: Path, old: str, new: str, code: str) -> None:
    write(changed(old, new))
    answer = answer_of(store)
    assert answer["parted"] == {"by": "trace"}
    assert code in [failure["code"] for failure in answer["report"]["failures"]]
    result = replay(store)
    assert result.exit_code == 1
    assert result.stdout.startswith("different: ")
    assert code in result.stdout


def test_what_is_printed_is_no_part_of_the_answer(store: Path) -> None:
    write("print('imported')\n" + changed("CALLED = []", "print('still'); CALLED = []")
          .replace("def work(run):", "def work(run):\n    print('working')"))  # fmt: skip
    result = replay(store, "agent:work", "--json")
    assert result.exit_code == 0
    assert decode(result.stdout)["status"] == "equal"
    assert result.stderr == "imported\nstill\nworking\n"


# -- cannot say ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("agent", "'agent' is no function; name a function as MODULE:FUNCTION"),
        ("agent:", "'agent:' is no function; name"),
        (":work", "':work' is no function; name"),
        ("", "'' is no function; name"),
        ("agent:work:more", "'agent:work:more' is no function; name"),
        ("a b:work", "'a b:work' is no function; name"),
        ("agent:work()", "'agent:work()' is no function; name"),
        (".agent:work", "'.agent:work' is no function; name"),
        ("../agent:work", "'../agent:work' is no function; name"),
        ("agent.py:work", "agent.py:work names a file; name a function as MODULE:FUNCTION"),
        ("nowhere:work", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'\n"),
        ("agent.inner:work", "cannot import agent.inner: ModuleNotFoundError"),
        ("broken:work", "cannot import broken: SyntaxError: "),
        ("failing:work", "cannot import failing: ZeroDivisionError: division by zero ("),
        ("leaving:work", "cannot import leaving: SystemExit: 4 ("),
        ("agent:play", "agent:play: there is no play; there are CALLED, mail, search, think, work"),
        ("agent:work.on", "agent:work.on: there is no on; there "),
        ("agent:CALLED.on", "agent:CALLED.on: there is no on; there are append, clear, copy, "),
        ("lazy:work", "cannot import lazy: OSError: not now ("),
        ("agent:CALLED", "agent:CALLED is a list and cannot be called; name"),
        ("odd:later", "odd:later does nothing when it is called alone; name a function"),
        ("odd:yielding", "odd:yielding does nothing when it is called alone; name a function"),
        ("odd:none", "odd:none is called with the run alone, and that does not fit it: too many"),
        ("odd:two", "odd:two is called with the run alone, and that does not fit it: missing"),
    ],
)
def test_a_function_that_cannot_be_called_is_told(store: Path, function: str, said: str) -> None:
    write(PROGRAM)
    write("def work(run)\n", "broken")
    write("1 / 0\n", "failing")
    write("import sys\nsys.exit(4)\n", "leaving")
    write("def __getattr__(name): raise OSError('not now')\n", "lazy")
    write("async def later(run): pass\ndef yielding(run): yield\ndef none(): pass\n"
          "def two(run, other): pass\n", "odd")  # fmt: skip
    assert error_of(replay(store, function)).startswith(f"error: {said}")


def test_the_place_of_a_syntax_error_is_told(store: Path) -> None:
    write("\n\ndef work(run)\n", "broken")
    assert "(broken.py, line 3)" in error_of(replay(store, "broken:work"))


def damaged(store: Path, path: str, change: Callable[[Path], object]) -> None:
    change(store.with_name("observability") / "monday" / path)


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("trace.json", Path.unlink, "the run monday has no trace.json in "),
        ("trace.json", lambda path: path.write_bytes(b"{"), "trace.json: not JSON at"),
        (
            "trace.json",
            lambda path: path.write_bytes(b"[]"),
            "does not say its model and its tools",
        ),
        ("recording.jsonl", Path.unlink, "name that of monday with --recording"),
        ("recording.jsonl", lambda path: path.write_bytes(b""), "is not the recording of monday"),
    ],
    ids=["no trace", "torn trace", "another trace", "no recording", "another recording"],
)
def test_without_its_files_nothing_can_be_said(
    store: Path, path: str, change: Callable[[Path], object], said: str
) -> None:
    write(PROGRAM)
    damaged(store, path, change)
    assert said in error_of(replay(store))


def test_a_recording_elsewhere_is_named(store_path: Path) -> None:
    record(store_path, record="first.jsonl")
    write(PROGRAM)
    assert "--recording" in error_of(replay(store_path))
    assert replay(store_path, "agent:work", "--recording", "first.jsonl").exit_code == 0
    Path("other.jsonl").write_bytes(Path("first.jsonl").read_bytes() + b"\n")
    said = error_of(replay(store_path, "agent:work", "--recording", "other.jsonl"))
    assert "other.jsonl is not the recording of monday: its SHA-256 is " in said


def test_runs_that_cannot_be_replayed_are_told(store: Path) -> None:
    write(PROGRAM)
    record(store, run_id="plain", record=None)
    record(store, "def work(run): pass\n", run_id="living", mode="live_read_write", record=None)
    assert "plain was not recorded; start runs with record=True" in error_of(
        replay(store, run_id="plain")
    )
    assert "live runs are not recorded" in error_of(replay(store, run_id="living"))
    assert "there is no run x" in error_of(replay(store, run_id="x"))
    record(store, run_id="monday-2")
    assert "2 runs begin with mo" in error_of(replay(store, run_id="mo"))
    error_of(run("runs", "replay", "x", "agent:work", store=store.with_name("none.db")))
    assert not store.with_name("none.db").exists()


def test_a_run_is_replayed_where_its_snapshot_is(store: Path) -> None:
    write(PROGRAM)
    run_ok("set", "urn:x", "1", store=store)
    said = error_of(replay(store, "agent:work", "--space", "default"))
    assert "which 'default' does not have; replay it in the space where it was recorded" in said
    said = error_of(replay(store, "agent:work", "--space", "nowhere"))
    assert "name one with --space" in said


def test_what_another_space_holds_is_not_taken_for_what_was_written(store_path: Path) -> None:
    """A run that began in an empty space can be replayed in every space."""
    program = "def work(run):\n    run.set('urn:a', 1)\n"
    with rote.open(store_path, modes=MODES) as opened:
        opened.space("other").set("urn:b", 2)
        with opened.space("team").run(**TERMS, record=True, run_id="monday") as first:
            first.set("urn:a", 1)
    write(program)
    assert replay(store_path, "agent:work", "--space", "other").exit_code == 0
    write(program.replace("1)", "3)"), "changed")
    [entity] = answer_of(store_path, "changed:work", "--space", "other")["parted"]["entities"]
    assert (entity["id"], entity["recorded"], entity["made"]) == ("urn:a", None, ["set 3"])


def test_what_was_compacted_away_cannot_be_said(store: Path) -> None:
    write(PROGRAM)
    run_ok("compact", "--before", "3", "--space", "team", "--yes", store=store)
    assert "error: " in error_of(replay(store))


def test_what_was_erased_since_cannot_be_said(store: Path) -> None:
    """The function is the recorded one; only what it retrieved is gone."""
    write(PROGRAM)
    words = ("erase", "long_term", "fact", "keys", "--reason", "asked", "--space", "team", "--yes")
    run_ok(*words, store=store)
    answer = answer_of(store, expected=2)
    assert (answer["status"], answer["erased"]["version"]) == ("cannot_say", 4)
    result = replay(store)
    assert result.exit_code == 2
    assert result.stdout.splitlines()[-1].startswith(
        "cannot say: long_term fact keys was erased since, in version 4; "
    )


def test_what_a_run_never_saw_may_be_erased(store: Path) -> None:
    run_ok("set", "urn:late", "1", "--space", "team", store=store)
    run_ok("erase", "urn:late", "--reason", "asked", "--space", "team", "--yes", store=store)
    write(PROGRAM)
    assert replay(store).exit_code == 0
    write(changed('query="keys"', 'query="key"'), "other")
    assert replay(store, "other:work").exit_code == 1


def test_errors_are_told_to_programs(store: Path) -> None:
    told = json_error_of(replay(store, "nowhere:work", "--json"))
    assert told["code"] == "invalid_input"


# -- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Handle interrupts: a process that is started in the background ignores them, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("where", ["work", "import"])
def test_an_interrupted_replay_leaves_nothing(store: Path, tmp_path: Path, where: str) -> None:
    wait = "import sys\nprint('ready', flush=True)\nimport signal\nsignal.pause()\n"
    body = "".join(f"    {line}\n" for line in wait.splitlines())
    write(wait if where == "import" else f"def work(run):\n{body}")
    before = everything(store)
    with subprocess.Popen(
        [ROTE, "runs", "replay", "monday", "agent:work", "--store", str(store)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, error) == (130, "", "error: interrupted\n")
    assert everything(store) == before
