"""Commands that change an entity: set, patch, delete.

Checks that need no store come first, so that bad input creates no file.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from rote.cli.input import decode_argument, decode_operations
from rote.cli.options import (
    BranchOptions,
    IdArgument,
    KeyOption,
    check_key_option,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import print_line, say, short
from rote.contract import Commit
from rote.errors import NotFound
from rote.space import Space
from rote.values import check_entity_id


@spread_options
def set_entity(
    id: IdArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, @file, or - for stdin.")],
    *,
    key: KeyOption = None,
    options: BranchOptions,
) -> None:
    """Replace an entity's value; makes the store and the space when they are new."""
    _check(id, key)
    decoded = decode_argument(value)
    _write(options, key, lambda space: space.set(id, decoded, key=key), create=True)


@spread_options
def patch_entity(
    id: IdArgument,
    ops: Annotated[
        str, typer.Argument(metavar="OPS", help="RFC 6902 operations: JSON, @file, or - for stdin.")
    ],
    *,
    key: KeyOption = None,
    options: BranchOptions,
) -> None:
    """Change parts of an entity's value."""
    _check(id, key)
    operations = decode_operations(ops)
    _write(options, key, lambda space: space.patch(id, operations, key=key))


@spread_options
def delete_entity(
    id: IdArgument,
    *,
    key: KeyOption = None,
    options: BranchOptions,
) -> None:
    """Delete an entity; its history stays. Exit 1 when it does not exist."""
    _check(id, key)

    def delete(space: Space) -> Commit:
        try:
            return space.delete(id, key=key)
        except NotFound:
            say(f"{id} does not exist")
            raise no() from None

    _write(options, key, delete)


def _check(id: str, key: str | None) -> None:
    check_entity_id(id)
    check_key_option(key)


def _write(
    options: BranchOptions,
    key: str | None,
    write: Callable[[Space], Commit],
    *,
    create: bool = False,
) -> None:
    """Commit a write and print what it did."""
    with options.opened_space(create=create) as space:
        newest = newest_before(space, key)
        commit = write(space)
        options.print_answer(commit.to_dict(), lambda: _print_commit(commit, key, newest))


def newest_before(space: Space, key: str | None) -> int:
    """Return the newest version before a write with a key; a result that is not newer is a repeat."""
    return 0 if key is None else space.version


def words_if_repeated(key: str | None, version: int, newest: int) -> str | None:
    """Return the words for a key that was used before; None when the version is new."""
    if version > newest:
        return None
    return f"key {key} was used before, at version {version}; nothing was written"


def _print_commit(commit: Commit, key: str | None, newest: int) -> None:
    if repeated := words_if_repeated(key, commit.version, newest):
        print_line(repeated)
        return
    for fact in commit.facts:
        print_line(f"{fact.op} {fact.id} at version {commit.version} ({short(commit.hash)})")
