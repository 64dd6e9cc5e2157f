"""Golden stories: reading them, and replaying one in a store."""

import json
from datetime import datetime
from pathlib import Path

import rote
from tests.golden.formulas import Story

FOLDER = Path(__file__).parent


def load(name: str) -> list[Story]:
    stories: list[Story] = json.loads((FOLDER / name).read_text(encoding="utf-8"))["stories"]
    return stories


class ToldClock:
    """A clock that shows the times of the story."""

    def __init__(self) -> None:
        self.moment = ""

    def now(self) -> datetime:
        return datetime.fromisoformat(self.moment)


class ToldSalts:
    """Gives out the story's salts, in order, and nothing else."""

    def __init__(self, salts: list[str]) -> None:
        self._left = list(salts)

    def random_bytes(self, size: int, /) -> bytes:
        salt = bytes.fromhex(self._left.pop(0))
        assert len(salt) == size
        return salt

    @property
    def left(self) -> int:
        return len(self._left)


def tell(story: Story, url: str | Path) -> rote.Store:
    """Return a store to which everything in the story has happened; the caller closes it."""
    clock, salts = ToldClock(), ToldSalts(story["salts"])
    store = rote.open(
        url, clock=clock, ids=salts, key=bytes.fromhex(story["seed"]), author=story["author"]
    )
    space = store.space(story["name"])
    for told in story["commits"]:
        clock.moment = told["now"]
        space.transact(**told["request"])
    assert salts.left == 0, "the store drew fewer salts than the story has new entities"
    clock.moment = story["checkpoint_at"]
    return store
