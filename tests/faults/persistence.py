"""Writers on PostgreSQL that go on whatever happens to the server, and checks of what they wrote."""

import contextlib
from pathlib import Path

import rote
from rote.testing.faults import ChildProcess
from tests.faults.children import LEFT, NAME, RIGHT, key_of, open_store, operations
from tests.faults.postgres_rig import ROOT, check_chain, child_argv

Made = tuple[str, int]  # a writer and its number


def place_of(url: str, folder: Path, *, schema: str = "rote", durability: str = "fsync") -> str:
    """Return the text that names a store to a child process."""
    return f"{url} {schema} {folder / 'keys'} {durability}"


class Writers:
    """Processes that write to one space for ever."""

    def __init__(self, place: str, count: int, children: contextlib.ExitStack) -> None:
        self._place = place
        # The space is made first, so that all of them find the same one.
        with open_store(place) as store:
            store.space(NAME)
        self._children = {
            name: children.enter_context(
                ChildProcess(child_argv("persist", place, name), cwd=ROOT, timeout_seconds=500)
            )
            for name in (f"writer-{number}" for number in range(1, count + 1))
        }

    def go_on(self, commits: int) -> None:
        """Wait until each writer has made so many commits more."""
        with open_store(self._place) as store:
            version = store.space(NAME).version
        for child in self._children.values():
            while made_above(version, child.acknowledged) < commits:
                child.read_until(len(child.acknowledged) + 1)

    def read_for(self, seconds: float) -> None:
        next(iter(self._children.values())).read_for(seconds)

    def end(self) -> dict[str, dict[Made, int]]:
        """Kill all writers; return the answer for each number, by the kind of the answer."""
        answers: dict[str, dict[Made, int]] = {"made": {}, "refused": {}, "unknown": {}}
        for name, child in self._children.items():
            for line in child.kill():
                kind, number, *version = line.split()
                answers[kind][name, int(number)] = int(version[0]) if version else 0
        return answers


def made_above(version: int, lines: list[str]) -> int:
    answers = [line.split() for line in lines if line.startswith("made")]
    return sum(int(answer[2]) > version for answer in answers)


def check_answers(place: str, answers: dict[str, dict[Made, int]]) -> None:
    """Check that no commit is lost, in part, twice, or there though refused, and that the chain is whole."""
    with open_store(place) as store:
        space = store.space(NAME)
        made: dict[Made, int] = {}
        for commit in space.log():
            body = commit.facts[0].body
            writer, number = body["writer"], body["number"]
            assert (writer, number) not in made, f"twice: {commit}"
            made[writer, number] = commit.version
            check_whole(commit, writer, number)
        for what, version in answers["made"].items():
            assert made.get(what) == version, f"lost: {what}"
        assert not answers["refused"].keys() & made.keys(), "refused, and yet written"
        assert space.get(LEFT) == space.get(RIGHT), "in part"
        check_chain(space)


def check_whole(commit: rote.Commit, writer: str, number: int) -> None:
    sent = operations(writer, number)
    assert [fact.id for fact in commit.facts] == [operation["id"] for operation in sent], "in part"
    assert commit.facts[0].body == commit.facts[1].body == sent[0]["value"], "in part"
    assert commit.key == (key_of(writer, number) if number % 2 else None)
