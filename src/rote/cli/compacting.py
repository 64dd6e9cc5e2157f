"""The command that lets go of history: compact."""

from typing import Annotated

import typer

from rote.cli.options import (
    SPACE_DEFAULT,
    STORE_DEFAULT,
    JsonOption,
    KeyOption,
    SpaceOption,
    StoreOption,
    opened_space,
)
from rote.cli.output import plural, print_json, print_line
from rote.cli.progress import bar
from rote.errors import InvalidInput
from rote.values.limits import INTEGER_MAX


def compact(
    *,
    before: Annotated[
        int | None,
        typer.Option(
            "--before", metavar="VERSION", min=1, max=INTEGER_MAX, help="Of what is below."
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="N", min=1, max=INTEGER_MAX, help="All but the last N commits."
        ),
    ] = None,
    key: KeyOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Let go of history below a version; what is readable from there on stays as it is."""
    if (before is None) == (keep is None):
        raise InvalidInput("name the version with --before, or how many commits to --keep")
    with opened_space(store, space) as opened, bar() as advance:
        if before is None:
            assert keep is not None
            before = max(opened.version - keep + 1, 1)
        try:
            made = opened.compact(before=before, key=key, progress=advance)
        except InvalidInput as error:
            if keep is None or "oldest" not in error.details:
                raise
            # There are fewer than so many already.
            before = int(error.details["oldest"])
            made = opened.compact(before=before)
    if as_json:
        print_json(made.to_dict())
    elif made.commit is None:
        print_line(f"nothing to do: history begins with version {before} already")
    else:
        gone = f"{plural(made.commits, 'commit')} and {plural(made.facts, 'fact')} dropped"
        print_line(f"{gone}; history begins with version {before}")
