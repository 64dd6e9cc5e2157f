"""The stage of the story: panels and pauses on a terminal, plain lines elsewhere."""

from collections.abc import Callable

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

# About as fast as people read.
_SECONDS_PER_CHARACTER = 0.018
_SECONDS_MIN = 0.3
_SECONDS_MAX = 2.0
_INDENT = 2


class Stage:
    """A console with pauses. The story shows on it only what it has checked."""

    def __init__(self, console: Console, *, wait: Callable[[float], None], scenes: int) -> None:
        self._console = console
        self._wait = wait
        self._scenes = scenes
        self._scene = 0

    @property
    def is_live(self) -> bool:
        """Whether the console is a terminal."""
        return self._console.is_terminal

    def open_scene(self, title: str) -> None:
        self._scene += 1
        heading = f"{self._scene}/{self._scenes}  {title}"
        self._console.print()
        self._frame(Text(heading, style="bold"), "cyan")
        self._pause(title)

    def tell(self, text: str) -> None:
        """Print what happens next."""
        self._console.print(Text(text))
        self._pause(text)

    def show_code(self, code: str) -> None:
        """Print the code of a step."""
        self._print_indented(code, "cyan")
        self._pause(code)

    def show_answer(self, text: str) -> None:
        """Print the real result of a step."""
        self._print_indented(f"-> {text}", "bold")
        self._pause(text)

    def conclude(self, text: str) -> None:
        """Print what a scene has shown."""
        self._console.print(Text(f"ok: {text}", style="bold green"))
        self._pause(text)

    def end(self, text: str) -> None:
        self._console.print()
        self._frame(Text(text), "green")

    def _frame(self, text: Text, style: str) -> None:
        if self.is_live:
            self._console.print(Panel(text, border_style=style), soft_wrap=False)
        else:
            self._console.print(text)

    def _print_indented(self, text: str, style: str) -> None:
        for line in text.splitlines():
            self._console.print(Text(" " * _INDENT + line, style=style))

    def _pause(self, text: str) -> None:
        if self.is_live:
            seconds = len(text) * _SECONDS_PER_CHARACTER
            self._wait(min(max(seconds, _SECONDS_MIN), _SECONDS_MAX))
