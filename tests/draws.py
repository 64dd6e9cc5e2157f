"""Values by plain random draws: no shrinking, and therefore a hundred times as many.

Hypothesis finds the smallest case; these draws find faults that appear only among very many. The
quick lane draws the same values every time, the slow lane others every time and says from which
seed.
"""

import random
import time
from collections.abc import Callable
from typing import Any

from rote.errors import PatchFailed
from rote.patch import apply, format_pointer
from rote.values.limits import INTEGER_MAX, INTEGER_MIN
from tests.lanes import SLOW

CHARACTERS = (
    'abc "\\[]{}:,.+-0123e\x00\x1f\x7f\u0301\u00e9\u05d3\u2028\ud7ff\ue000'
    "\uffff\ufb33\U00010000\U0001f600\U0010ffff\ufe0f"
)
WORDS = ("1.0", "1e-7", "-0.0", "x:1.0,", "2e+30]", '"5.0"', "\\1.0", "name", "tags", "")
EDGES = (2**53, 2**53 + 1, 2**60, 2**62, INTEGER_MAX, INTEGER_MIN, 0, -1)
FLOAT_EDGES = (1e-6, 9.99e-6, 1e-5, 1e-7, 1e15, 1e16, 1e17, 1e20, 1e21, 1e22, -0.0, 2.0**63)
KEYS = ("a", "b", "0", "1", "-", "", "~", "/", "a/b")


def check_drawn(count: int, draw: Callable[["Draws"], Any], check: Callable[[Any], object]) -> None:
    """Check so many values; a failure names its value and the seed."""
    seed = time.time_ns() if SLOW else 0
    draws = Draws(seed)
    for number in range(count):
        value = draw(draws)
        try:
            check(value)
        except BaseException as error:
            error.add_note(f"draw {number} of seed {seed}: {value!r}")
            raise


class Draws:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        if self._random.random() < 0.3:
            return self._random.choice(WORDS)
        return "".join(self._random.choices(CHARACTERS, k=self._random.randrange(8)))

    def embedded(self, *, rare: float) -> float:
        """Return a number as embeddings have it, now and then any other float."""
        return self.float() if self._random.random() < rare else self._random.gauss(0, 0.03)

    def float(self) -> float:
        choice = self._random.randrange(5)
        if choice == 0:
            return self._random.choice(FLOAT_EDGES)
        if choice == 1:
            return float(self._random.randrange(-(2**70), 2**70))
        if choice == 2:
            return self._random.uniform(1e-7, 1e-4)
        if choice == 3:
            return float(self._random.randrange(-100, 100))
        return self._random.uniform(-1, 1) * 10.0 ** self._random.randrange(-300, 300)

    def integer(self) -> int:
        choice = self._random.randrange(3)
        if choice == 0:
            return self._random.choice(EDGES)
        if choice == 1:
            return self._random.randrange(-10, 10)
        return self._random.randrange(INTEGER_MIN, INTEGER_MAX + 1)

    def value(self, depth: int = 0) -> Any:
        """Return any value of the value domain; tuples stand for arrays."""
        choice = self._random.randrange(8 if depth < 4 else 5)
        if choice == 0:
            return self._random.choice((None, True, False))
        if choice == 1:
            return self.integer()
        if choice == 2:
            return self.float()
        if choice in (3, 4):
            return self.text()
        size = self._random.randrange(4)
        if choice == 5:
            return [self.value(depth + 1) for _ in range(size)]
        if choice == 6:
            return tuple([self.value(depth + 1) for _ in range(size)])
        return {self.text(): self.value(depth + 1) for _ in range(size)}

    def small(self, depth: int = 0) -> Any:
        """Return a small value, like many others, so that patches apply to it."""
        choice = self._random.randrange(4 if depth < 3 else 2)
        if choice < 2:
            return self._random.choice((None, True, False, -1, 0, 1, 2, 0.5, 1.0, "x", ""))
        if choice == 2:
            return [self.small(depth + 1) for _ in range(self._random.randrange(4))]
        return {
            self._random.choice(KEYS): self.small(depth + 1)
            for _ in range(self._random.randrange(4))
        }

    def number(self, limit: int) -> int:
        return self._random.randrange(limit)

    def small_array(self, size: int) -> list[Any]:
        """Return many small values: some arrays have few different ones, others many."""
        kinds = [self.small(1) for _ in range(self._random.choice((2, 9, size)))]
        return [self._random.choice(kinds) for _ in range(self._random.randrange(size))]

    def edited(self, elements: list[Any], count: int) -> list[Any]:
        """Return the elements after so many insertions, deletions, replacements and moves."""
        made = list(elements)
        for _ in range(count):
            place = self._random.randrange(len(made) + 1)
            choice = self._random.randrange(4)
            if choice == 0 or place == len(made):
                made.insert(place, self.small())
            elif choice == 1:
                del made[place]
            elif choice == 2:
                made[place] = self.small(1)
            else:
                made.insert(self._random.randrange(len(made)), made.pop(place))
        return made

    def patch(self, names: tuple[str, ...], count: int) -> tuple[Any, list[Any]]:
        """Return a document and operations of which most apply, each drawn for the value it meets."""
        document = value = [self.small(), {"a": self.small()}, self.small()]
        chosen: list[Any] = []
        for _ in range(self._random.randrange(1, count + 1)):
            operation = self._operation(value, names)
            try:
                value = apply(value, [operation])
            except PatchFailed:
                if self._random.random() < 0.9:
                    continue  # a patch ends at its first failure
            chosen.append(operation)
        return document, chosen

    def _operation(self, value: Any, names: tuple[str, ...]) -> dict[str, Any]:
        name = self._random.choice(names)
        paths = [format_pointer(path) for path in places(value)]
        operation: dict[str, Any] = {"op": name, "path": self._random.choice(paths)}
        if name in ("add", "replace", "test"):
            operation["value"] = self.small()
        elif name in ("move", "copy"):
            operation["from"] = self._random.choice(paths)
        return operation


def places(value: Any) -> list[tuple[str, ...]]:
    """Return every path of a value, and paths just outside it."""
    found: list[tuple[str, ...]] = [()]
    pending: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, dict):
            children = [(key, child) for key, child in node.items()] + [("new", None)]
        elif isinstance(node, list):
            children = [(str(index), child) for index, child in enumerate(node)]
            children += [(str(len(node)), None), ("-", None), (str(len(node) + 1), None)]
        else:
            continue
        for token, child in children:
            found.append((*path, token))
            pending.append(((*path, token), child))
    return found
