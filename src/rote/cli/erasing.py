"""The command that takes content away for good: erase."""

from typing import Annotated

import typer

from rote.cli.input import can_ask
from rote.cli.naming import IdWords, id_in, shown
from rote.cli.options import (
    KeyOption,
    SpaceOptions,
    YesOption,
    check_key_option,
    spread_options,
)
from rote.cli.outcome import confirm
from rote.cli.output import plural, print_line, short
from rote.cli.progress import spinner
from rote.contract import Erasure
from rote.errors import InvalidInput
from rote.space import Space
from rote.values import check_reason
from rote.values.blobs import meta_id


@spread_options
def erase(
    id: IdWords,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept for ever, in clear.")
    ],
    yes: YesOption = False,
    key: KeyOption = None,
    branch: Annotated[str | None, typer.Option("--branch", hidden=True)] = None,
    options: SpaceOptions,
) -> None:
    """Remove an entity's values for good, on all branches and at all versions; hashes stay."""
    if branch is not None:
        raise InvalidInput("an erasure covers all branches; leave --branch out")
    entity = id_in(id)
    check_reason(reason)
    check_key_option(key)
    with options.opened_space() as space:
        if not yes and can_ask() and _was_written(space, entity):
            confirm(
                f"erase all values of {shown(entity)} in {space.name}, on every branch, for good?",
                refusal="nothing was erased",
            )
        with spinner("erasing"):
            erasure = space.erase(entity, reason=reason, key=key)
    options.print_answer(erasure.to_dict(), lambda: _print(entity, erasure))


def _was_written(space: Space, id: str) -> bool:
    """Whether an entity was ever written on some branch; only then is there something to ask."""
    return any(space.on(branch.name).read(id).version for branch in space.branches())


def _print(id: str, erasure: Erasure) -> None:
    commit = erasure.commit
    place = f"version {commit.version} ({short(commit.hash)})"
    if erasure.facts:
        print_line(
            f"erase {shown(id)} at {place}: {plural(erasure.facts, 'fact')} without content now"
        )
    else:
        print_line(f"{shown(id)} was erased before, at {place}; nothing was erased now")
    for hash in erasure.blobs:
        print_line(f"still stored: the blob {hash}; {_advice(id, hash)}")
    for remaining in erasure.remaining:
        print_line(f"not reached: {remaining}")
    print_line("not reached: older backups and copies, which still hold it")


def _advice(id: str, hash: str) -> str:
    collect = "rote gc --grace 0"
    return f"run {collect}" if id == meta_id(hash) else f"erase {meta_id(hash)}, then {collect}"
