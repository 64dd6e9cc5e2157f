"""The `rote` command: commands, progress, colours."""

from rote.cli.entry import main

__all__ = ["main"]
