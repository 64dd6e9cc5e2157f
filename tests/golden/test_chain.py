"""The hashes of a fixed history: formulas, golden file and stores agree byte for byte."""

from pathlib import Path

import pytest

import rote
from rote.testing.postgres import database_url
from tests.golden import stories
from tests.golden.formulas import Story, completed

STORIES = stories.load("chain-1.json")
ENGINES = ("sqlite", "postgres")
by_name = pytest.mark.parametrize("story", STORIES, ids=[story["name"] for story in STORIES])


def url_of(engine: str, folder: Path) -> str:
    return database_url(folder) if engine == "postgres" else str(folder / "memory.db")


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, tmp_path)


@by_name
def test_the_formulas_give_every_hash_of_the_golden_file(story: Story) -> None:
    assert completed(story) == story


@by_name
def test_the_store_reproduces_the_golden_file(story: Story, url: str) -> None:
    with stories.tell(story, url) as store:
        space = store.space(story["name"])
        commits = list(space.log())
        assert space.did == story["did"]
        assert space.head == story["commits"][-1]["hash"]
        assert [commit.hash for commit in commits] == [told["hash"] for told in story["commits"]]
        assert [commit.at for commit in commits] == [told["at"] for told in story["commits"]]
        for commit, told in zip(commits, story["commits"], strict=True):
            assert [_as_told(fact) for fact in commit.facts] == told["facts"]


@by_name
def test_the_store_gives_every_value_of_the_golden_file(story: Story, url: str) -> None:
    with stories.tell(story, url) as store:
        space = store.space(story["name"])
        for version, told in enumerate(story["commits"], start=1):
            for id, value in told["values"].items():
                assert space.at(version).get(id) == value


@by_name
def test_a_checkpoint_has_the_golden_signature(story: Story, url: str) -> None:
    with stories.tell(story, url) as store:
        space = store.space(story["name"])
        assert space.checkpoint() == story["checkpoint"]
        assert space.verify(against=story["checkpoint"]).ok


@by_name
@pytest.mark.parametrize("target", ENGINES)
def test_a_copy_has_the_golden_hashes(story: Story, url: str, target: str, tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    with stories.tell(story, url) as store, rote.open(url_of(target, folder)) as other:
        assert store.copy(story["name"], other).ok
        copied = other.space(story["did"])
        assert copied.head == story["commits"][-1]["hash"]
        assert [commit.to_dict() for commit in copied.log()] == [
            commit.to_dict() for commit in store.space(story["name"]).log()
        ]
        assert copied.verify(against=story["checkpoint"]).ok


def test_a_changed_input_changes_every_later_hash() -> None:
    story = STORIES[0]
    first, second, *later = story["commits"]
    other = {**second, "at": "2026-03-01T09:00:01.400000Z"}
    told = completed({**story, "commits": [first, other, *later]})
    same = [a["hash"] == b["hash"] for a, b in zip(told["commits"], story["commits"], strict=True)]
    assert same == [True] + [False] * (len(same) - 1)


def _as_told(fact: rote.Fact) -> dict[str, object]:
    members = ("id", "op", "body", "salt", "parent", "hash")
    return {name: getattr(fact, name) for name in members}
