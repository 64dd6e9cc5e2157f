"""The suites are mixed from classes: none may hide the tests of another."""

import inspect
from collections import Counter

import pytest

from rote.testing.engine_suite import SharedEngineSuite
from rote.testing.space_suite import SharedSpaceSuite


@pytest.mark.parametrize("suite", [SharedEngineSuite, SharedSpaceSuite])
def test_no_class_of_a_suite_hides_a_function_of_another(suite: type) -> None:
    names = Counter(
        name for part in suite.__mro__ for name, value in vars(part).items()
        if inspect.isfunction(value)
    )  # fmt: skip
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []
