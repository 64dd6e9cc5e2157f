"""Commands that are loaded when they are asked for: a command pays for the parts that it uses."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a command, or of a group of commands."""

    name: str
    place: str  # "module:name" of a function or of a Typer
    panel: str | None = None  # the part of the help that lists it

    def load(self) -> Any:
        """Return the command as the library runs it."""
        alone = typer.Typer()
        found = load(self.place)
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=self.name, rich_help_panel=self.panel)
        else:
            alone.command(self.name, rich_help_panel=self.panel)(found)
        return get_group(alone).commands[self.name]


class LoadingGroup(TyperGroup):
    """A group that has the commands of its Typer, and after them those of its places."""

    places: ClassVar[tuple[Place, ...]] = ()

    def __init__(self, *, commands: Mapping[str, Any], **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(commands, self.places)


class _Commands(MutableMapping[str, Any]):
    """Commands by name, each loaded when it is first looked up."""

    def __init__(self, made: Mapping[str, Any], places: tuple[Place, ...]) -> None:
        self._commands: dict[str, Any] = {**made, **{place.name: place for place in places}}

    def __getitem__(self, name: str) -> Any:
        found = self._commands[name]
        if isinstance(found, Place):
            found = self._commands[name] = found.load()
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._commands

    def __setitem__(self, name: str, command: Any) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


def load(place: str) -> Any:
    """Return what "module:name" names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
