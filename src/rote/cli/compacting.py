"""The command that lets go of history: compact."""

from typing import Annotated

import typer

from rote.cli.input import can_ask
from rote.cli.options import (
    SPACE_DEFAULT,
    STORE_DEFAULT,
    JsonOption,
    KeyOption,
    SpaceOption,
    StoreOption,
    opened_space,
)
from rote.cli.outcome import confirm
from rote.cli.output import plural, print_json, print_line
from rote.cli.progress import bar
from rote.contract import Compaction
from rote.errors import InvalidInput
from rote.space import Space
from rote.values import check_key
from rote.values.limits import INTEGER_MAX


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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    key: KeyOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Let go of history below a version; what is readable from there on stays as it is."""
    if (before is None) == (keep is None):
        raise InvalidInput(
            "name the version with --before, or how many commits to --keep; not both"
        )
    if key is not None:
        check_key(key)
    with opened_space(store, space) as opened:
        newest = opened.version
        if not yes and can_ask():
            _ask(opened, before, keep)
        with bar() as advance:
            made = opened.compact(before=before, keep=keep, key=key, progress=advance)
    if as_json:
        print_json(made.to_dict())
    else:
        _print(made, is_repeated=made.commit is not None and made.commit.version <= newest)


def _ask(space: Space, before: int | None, keep: int | None) -> None:
    with bar() as advance:
        foreseen = space.compact(before=before, keep=keep, dry_run=True, progress=advance)
    if foreseen.oldest > space.oldest:
        question = f"drop {_amount(foreseen)} below version {foreseen.oldest} of {space.name}"
        confirm(f"{question}, for good?", refusal="nothing was dropped")


def _print(made: Compaction, *, is_repeated: bool) -> None:
    begins = f"history begins with version {made.oldest}"
    if made.commit is None:
        print_line(f"nothing to do: {begins} already")
    elif is_repeated:
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
