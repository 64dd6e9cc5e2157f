"""The `rote` command: commands, progress, colours."""

from rote.cli.app import main

__all__ = ["main"]
