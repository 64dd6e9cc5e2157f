"""Many watchers, some of which stall: nothing is queued for them."""

import subprocess
import sys
from pathlib import Path

from rote.opening import open as open_store
from rote.values.limits import MIB
from tests.lanes import examples
from tests.scale.watchers import END, SPACE

ROOT = Path(__file__).parents[2]
WATCHERS, STALLED = examples(40, 200), examples(4, 20)
COMMITS = examples(200, 5_000)
ENTITIES = 50
TEXT = "x" * 10_000
SECONDS_MAX = 600


def test_a_writer_beside_watchers_that_stall_fills_no_memory_of_theirs(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    argv = [sys.executable, "-m", "tests.scale.watchers", str(path), str(WATCHERS), str(STALLED)]
    with open_store(path, durability="os") as store:
        space = store.space(SPACE)
        for number in range(ENTITIES):
            space.set(f"urn:e:{number}", TEXT)
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for number in range(COMMITS):
                space.set(f"urn:e:{number % ENTITIES}", f"{TEXT}{number}")
            space.set(END, True)
            output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    grown, *frames = map(int, output.split())
    # However long they stalled: one frame up to where others have looked, and one to the end.
    assert len(frames) == STALLED
    assert max(frames) <= 2
    # The memory that all of them hold at once; queues would hold STALLED * COMMITS texts.
    assert grown < 50 * MIB + WATCHERS * ENTITIES * len(TEXT) * 2
