"""Lanes, fixtures that every test may use, and the summary at the end of a run."""

import os
import re
import tempfile
from itertools import count
from pathlib import Path
from shutil import disk_usage

import pytest
from hypothesis import HealthCheck, settings

from tests import browser, vectors
from tests.lanes import SLOW

# The quick lane gives the same answer every time. The slow lane draws new cases, and a failure
# prints the command that repeats it. Neither has a deadline: machines are noisy.
settings.register_profile(
    "quick", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "slow", print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slow" if SLOW else "quick")

# Many tests start processes. Their compiled bytecode is kept, also where it must not be written
# beside its source. That leaves a third of their time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")


# Tests wait for disks longer than they work. In the quick lane their files are in memory: what a
# power cut leaves is tested on disks that are simulated.
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30
has_memory = MEMORY.is_dir() and disk_usage(MEMORY).free >= MEMORY_BYTES_MIN
if has_memory and not SLOW and "TMPDIR" not in os.environ:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

_NUMBERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of the test's own. pytest's own fixture looks through the folders of all tests
    before it, to find a free number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(_NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the home folder to the test's own, here and in processes started here: keys of stores
    without a folder go there."""
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Return a path where a store of this test alone may live; nothing is there yet."""
    return tmp_path / "memory.db"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SLOW:
        return
    left_out = [item for item in items if item.get_closest_marker("slow")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_report_header() -> str:
    return "lane: slow, the full counts" if SLOW else "lane: quick (make test-slow: full counts)"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not vectors.FOUND:
        terminalreporter.write_sep("!", "PUBLIC TEST VECTORS NOT FOUND", red=True, bold=True)
        terminalreporter.write_line(
            f"The public JCS and JSON Patch suites were NOT run: there is no {vectors.FOLDER}.\n"
            "Set ROTE_VECTORS to the folder that holds jcs/ and json-patch/.",
            red=True,
        )
    if not browser.FOUND:
        terminalreporter.write_sep("!", "NO BROWSER FOUND", red=True, bold=True)
        terminalreporter.write_line(
            "Pages were NOT tried in a browser: install Chromium (Debian: apt-get install chromium),\n"
            "or set ROTE_CHROMIUM to its program.",
            red=True,
        )
