"""Commands that change an entity: set, patch, delete.

Checks that need no store come first, so that bad input creates no file.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from rote.cli.input import decode_argument, decode_operations
from rote.cli.naming import IdWords, id_in, shown
from rote.cli.options import (
    BranchOptions,
    KeyOption,
    check_key_option,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import print_line, short
from rote.contract import Commit
from rote.errors import InvalidInput, NotFound
from rote.space import Space

# The id and what comes after it: an id may have three words, so typer cannot tell them apart.
_SetWords = Annotated[
    list[str],
    typer.Argument(
        metavar="ID VALUE", help="An entity, or a record in three words; then JSON, @file, or -."
    ),
]
_PatchWords = Annotated[
    list[str],
    typer.Argument(
        metavar="ID OPS",
        help="An entity, or a record in three words; then RFC 6902 operations: JSON, @file, or -.",
    ),
]


@spread_options
def set_entity(id: _SetWords, *, key: KeyOption = None, options: BranchOptions) -> None:
    """Replace an entity's value; makes the store and the space when they are new."""
    entity, value = _parted(id, "VALUE")
    check_key_option(key)
    decoded = decode_argument(value)
    _write(options, key, lambda space: space.set(entity, decoded, key=key), create=True)


@spread_options
def patch_entity(id: _PatchWords, *, key: KeyOption = None, options: BranchOptions) -> None:
    """Change parts of an entity's value."""
    entity, ops = _parted(id, "OPS")
    check_key_option(key)
    operations = decode_operations(ops)
    _write(options, key, lambda space: space.patch(entity, operations, key=key))


@spread_options
def delete_entity(id: IdWords, *, key: KeyOption = None, options: BranchOptions) -> None:
    """Delete an entity; its history stays. Exit 1 when it does not exist."""
    entity = id_in(id)
    check_key_option(key)

    def delete(space: Space) -> Commit:
        try:
            return space.delete(entity, key=key)
        except NotFound:
            raise no(f"{shown(entity)} does not exist") from None

    _write(options, key, delete)


def _parted(words: Sequence[str], name: str) -> tuple[str, str]:
    """Return the id that words name, and the word after it."""
    *id, last = words
    if not id:
        raise InvalidInput(f"{name} is missing after {last}")
    return id_in(id), last


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
        print_line(f"{fact.op} {shown(fact.id)} at version {commit.version} ({short(commit.hash)})")
