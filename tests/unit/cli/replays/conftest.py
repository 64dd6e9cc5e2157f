import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from tests.unit.cli.replays.programs import record


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


@pytest.fixture(scope="session")
def recorded_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a recorded run, of which every test gets a copy."""
    path = tmp_path_factory.mktemp("recorded") / "memory.db"
    assert record(path)["CALLED"] == ["where are the keys?", "keys", "ada"]
    return path


@pytest.fixture
def store(recorded_store: Path, tmp_path: Path) -> Path:
    copytree(recorded_store.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / recorded_store.name
