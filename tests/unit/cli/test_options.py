from dataclasses import dataclass
from inspect import signature

from rote.cli.options import BranchOptions, SpaceOptions, spread_options


def test_a_group_stands_for_its_options_in_its_place_and_json_is_last() -> None:
    @spread_options
    def command(id: str, *, options: SpaceOptions, extra: str = "") -> None:
        raise NotImplementedError

    assert list(signature(command).parameters) == ["id", "store", "space", "extra", "as_json"]


def test_a_command_gets_its_groups_and_its_own_parameters() -> None:
    @dataclass(frozen=True)
    class Pair:
        left: str
        right: str

    taken: list[object] = []

    @spread_options
    def command(pair: Pair, *, limit: int, options: BranchOptions) -> None:
        """Do it."""
        taken.extend((pair, limit, options))

    command(
        left="a", right="b", limit=3, store="s.db", space="notes", branch="topic", as_json=True
    )  # fmt: skip
    options = BranchOptions(store="s.db", space="notes", branch="topic", as_json=True)
    assert taken == [Pair("a", "b"), 3, options]
    assert (command.__name__, command.__doc__) == ("command", "Do it.")
