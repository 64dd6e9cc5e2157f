"""A replay that does something else: where it parts."""

import os
from pathlib import Path

import pytest

from rote.values import decode
from tests.unit.cli.replays.programs import answer_of, changed, record, replay, write

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


def test_the_same_writes_in_another_order_are_told_as_that(store_path: Path) -> None:
    lines = ["    run.set('urn:a', 1)\n", "    run.memory.put('ops', 'fact', 'x', {})\n"]
    record(store_path, "def work(run):\n" + "".join(lines))
    write("def work(run):\n" + "".join(reversed(lines)))
    result = replay(store_path)
    assert (result.exit_code, result.stdout.splitlines()) == (1, [
        "different: the calls are the same, and it would write the same in another order",
        "recorded\turn:a; ops fact x",
        "now\tops fact x; urn:a",
    ])  # fmt: skip
    parted = answer_of(store_path)["parted"]
    assert (parted["by"], parted["entities"]) == ("writes", [])
    assert parted["recorded"] == parted["made"][::-1]
    assert parted["recorded"][0] == "urn:a"


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


@pytest.mark.parametrize("end", ["", "\n    raise ValueError"])
def test_what_goes_past_python_to_stdout_is_no_part_of_the_answer(
    store: Path, capfd: pytest.CaptureFixture[str], end: str
) -> None:
    program = changed("def work(run):", "def work(run):\n    import os; os.write(1, b'raw ')"
                      f"; os.system('echo shell'){end}")  # fmt: skip
    write(program)
    assert replay(store, "agent:work", "--json").exit_code == (1 if end else 0)
    os.write(1, b"restored")
    assert capfd.readouterr() == ("restored", "raw shell\n")
