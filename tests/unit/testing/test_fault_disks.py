"""Disks that fail leave nothing that harms the end of a process."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from rote.engines.sqlite import SqliteEngine
from rote.testing.faults import FaultDisk

class Ring:
    pass

folder = Path(sys.argv[1])
disk = FaultDisk(folder)
ring = Ring()
ring.itself, ring.engine = ring, SqliteEngine(folder / "store.db", vfs=disk.vfs_name)
ring.engine.reader()
sys.modules["ring"] = ring  # freed at the very end
"""


def test_a_connection_that_is_left_open_does_no_harm_at_the_end(tmp_path: Path) -> None:
    """The interpreter crashed when it freed one: apsw called a VFS whose class was gone."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
