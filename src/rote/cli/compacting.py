"""The command that lets go of history: compact."""

from typing import Annotated

import typer

from rote.cli.input import can_ask
from rote.cli.options import (
    KeyOption,
    SpaceOptions,
    YesOption,
    check_key_option,
    spread_options,
)
from rote.cli.outcome import confirm
from rote.cli.output import plural, print_line
from rote.cli.progress import bar
from rote.contract import Compaction
from rote.errors import InvalidInput
from rote.space import Space
from rote.values.limits import INTEGER_MAX


@spread_options
def compact(
    *,
    before: Annotated[
        int | None,
        typer.Option(
            "--before",
            metavar="VERSION",
            min=1,
            max=INTEGER_MAX,
            help="The version that history is to begin with.",
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            min=1,
            max=INTEGER_MAX,
            help="Keep the last N commits; compactions are not counted.",
        ),
    ] = None,
    yes: YesOption = False,
    key: KeyOption = None,
    options: SpaceOptions,
) -> None:
    """Let go of history below a version; what is readable from there on stays as it is."""
    if (before is None) == (keep is None):
        raise InvalidInput(
            "name the version with --before, or how many commits to --keep; not both"
        )
    check_key_option(key)
    with options.opened_space() as space:
        newest = space.version
        if not yes and can_ask():
            _ask(space, before, keep)
        with bar() as advance:
            made = space.compact(before=before, keep=keep, key=key, progress=advance)
    options.print_answer(made.to_dict(), lambda: _print(made, newest))


def _ask(space: Space, before: int | None, keep: int | None) -> None:
    with bar() as advance:
        foreseen = space.compact(before=before, keep=keep, dry_run=True, progress=advance)
    if foreseen.oldest > space.oldest:
        question = f"drop {_amount(foreseen)} below version {foreseen.oldest} of {space.name}"
        confirm(f"{question}, for good?", refusal="nothing was dropped")


def _print(made: Compaction, newest: int) -> None:
    begins = f"history begins with version {made.oldest}"
    if made.commit is None:
        print_line(f"nothing to do: {begins} already")
    elif made.commit.version <= newest:
        print_line(f"compacted before, by version {made.commit.version}; nothing was dropped now")
    else:
        print_line(f"{_amount(made)} dropped; {begins}")
    if not made.is_shrunk:
        print_line(
            "the store is not smaller yet: another program was using it; when it is done,"
            " run rote gc"
        )


def _amount(made: Compaction) -> str:
    return f"{plural(made.commits, 'commit')} and {plural(made.facts, 'fact')}"
