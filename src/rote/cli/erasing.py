"""The command that takes content away for good: erase."""

import sys
from typing import Annotated

import typer

from rote.cli.options import (
    SPACE_DEFAULT,
    STORE_DEFAULT,
    IdArgument,
    JsonOption,
    KeyOption,
    SpaceOption,
    StoreOption,
    opened_space,
)
from rote.cli.outcome import no
from rote.cli.output import plural, print_json, print_line, printable, short
from rote.cli.progress import spinner
from rote.contract import Erasure
from rote.values import check_entity_id, check_key, check_reason


def erase(
    id: IdArgument,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept for ever, in clear.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    key: KeyOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Remove an entity's values for good, on all branches and at all versions; hashes stay."""
    check_entity_id(id)
    check_reason(reason)
    if key is not None:
        check_key(key)
    with opened_space(store, space) as opened:
        if not yes and sys.stdin.isatty() and not _is_wanted(id, opened.name):
            raise no()
        with spinner("erasing"):
            erasure = opened.erase(id, reason=reason, key=key)
    if as_json:
        print_json(erasure.to_dict())
    else:
        _print(id, erasure)


def _is_wanted(id: str, space: str) -> bool:
    question = f"erase all values of {id} in {space}, on every branch, for good?"
    return typer.confirm(printable(question), err=True)


def _print(id: str, erasure: Erasure) -> None:
    commit = erasure.commit
    place = f"version {commit.version} ({short(commit.hash)})"
    if erasure.facts:
        print_line(f"erase {id} at {place}: {plural(erasure.facts, 'fact')} without content now")
    else:
        print_line(f"{id} was erased before, at {place}; nothing of what it was then is left here")
    for remaining in erasure.remaining:
        print_line(f"not reached: {remaining}")
