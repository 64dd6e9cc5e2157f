"""Marks for the parts of a suite, which are mixed into one class and must not affect each other."""

from collections.abc import Callable
from typing import TypeVar

import pytest

_Part = TypeVar("_Part", bound=type)


def each_test_uses(fixture: str) -> Callable[[_Part], _Part]:
    """Make every test of this part use the fixture, and no test of another part.

    A mark on the class itself, or an autouse fixture in it, would be inherited by the whole suite.
    """
    mark = pytest.mark.usefixtures(fixture)

    def decorate(part: _Part) -> _Part:
        for name, test in list(vars(part).items()):
            if name.startswith("test_"):
                setattr(part, name, mark(test))
        return part

    return decorate
