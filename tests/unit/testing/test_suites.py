"""The suites are whole: nothing in them is hidden by inheritance, and no method is left out."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import rote.testing
from rote.contract import Port
from rote.engines import Engine, Reader, Writer
from rote.kernel.kernel import TABLE
from rote.testing.engine_suite import SharedEngineSuite
from rote.testing.space_suite import SharedSpaceSuite

FOLDER = Path(rote.testing.__file__).parent


@pytest.mark.parametrize("suite", [SharedEngineSuite, SharedSpaceSuite])
def test_no_two_parts_of_a_suite_have_a_name_in_common(suite: type) -> None:
    """Parts are mixed into one class: the same name twice would silence the first."""
    parts = [part for part in suite.__mro__ if part.__module__.startswith("rote.testing")]
    names = Counter(name for part in parts for name in vars(part) if not name.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("protocol", [Engine, Reader, Writer])
def test_the_engine_suite_calls_every_method_of_the_protocols(protocol: type) -> None:
    source = "".join(path.read_text() for path in (FOLDER / "engine_suite").glob("*.py"))
    assert _methods(protocol) - set(re.findall(r"\.(\w+)\(", source)) == set()


def test_the_space_suite_calls_every_method_of_the_port() -> None:
    source = "".join(path.read_text() for path in (FOLDER / "space_suite").glob("*.py"))
    assert _methods(Port) - set(re.findall(r"\.(\w+)\(", source)) == set()


def test_the_space_suite_sends_every_command() -> None:
    """By the calls of a space, by copies, or by itself."""
    folders = (FOLDER / "space_suite", FOLDER.parent / "space", FOLDER.parent / "runs")
    source = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
    names = {command.__name__ for command in TABLE.rows}
    assert names - set(re.findall(r"\b(\w+)\(", source)) == set()


def _methods(protocol: type) -> set[str]:
    return {
        name
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_")
    }
