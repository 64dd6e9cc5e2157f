import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from rote.cli.demo import story
from rote.cli.demo.stage import Stage
from rote.errors import InternalError
from rote.opening import open as open_store
from tests.unit.cli.command import run_process


def silent_stage() -> Stage:
    return Stage(Console(file=io.StringIO()), wait=refuse_to_wait, scenes=len(story.SCENES))


def refuse_to_wait(seconds: float) -> None:
    raise AssertionError(f"waited {seconds} s although nobody watches")


def test_the_demo_tells_eight_scenes_without_a_terminal_and_leaves_nothing(tmp_path: Path) -> None:
    start = time.monotonic()
    ended = run_process("demo", cwd=tmp_path, TMPDIR=str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert time.monotonic() - start < 20
    assert [f"{n}/8  " in ended.stdout for n in range(1, 9)] == [True] * 8
    assert ended.stdout.count("\nok: ") == 8
    assert "urn:entity:ada (read at 2, written at 3)" in ended.stdout
    assert "fact urn:entity:ada at version 3: its content does not match" in ended.stdout
    assert "\x1b" not in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_the_demo_takes_twenty_to_forty_seconds_of_pauses(store_path: Path) -> None:
    pauses: list[float] = []
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    story.tell(Stage(console, wait=pauses.append, scenes=len(story.SCENES)), store_path)
    assert 20 < sum(pauses) < 40


def test_the_story_fails_when_the_past_was_changed(store_path: Path) -> None:
    with open_store(store_path) as store:
        store.space("default").set(story.ADA, {"somebody": "else"})
    with pytest.raises(InternalError, match="the past has changed"):
        story.travel_in_time(silent_stage(), store_path)


def test_the_story_fails_when_its_first_commit_is_not_the_first(store_path: Path) -> None:
    story.write_memory(silent_stage(), store_path)
    with pytest.raises(InternalError, match="not version 1"):
        story.write_memory(silent_stage(), store_path)


def test_the_story_fails_when_there_is_nothing_to_tamper_with(store_path: Path) -> None:
    story.write_memory(silent_stage(), store_path)
    with pytest.raises(InternalError, match="not in the file"):
        story.find_tampering(silent_stage(), store_path)
