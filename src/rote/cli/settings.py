"""The file of settings that a command reads: rote.toml beside the store, or the one of --config."""

from pathlib import Path
from typing import Annotated

import typer

from rote.errors import NotFound
from rote.opening.engines import locate
from rote.settings import FILE_NAME

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help=f"Settings; {FILE_NAME} beside the store."),
]


def settings_path(store: str, config: Path | None) -> Path | None:
    """Return the place of the settings, whether they are there or not; None where no file is beside
    the store."""
    if config is not None:
        return config
    path = locate(store).path
    return None if path is None else path.with_name(FILE_NAME)


def no_settings(path: Path) -> NotFound:
    return NotFound(f"there are no settings at {path}; make the file, or name another")
