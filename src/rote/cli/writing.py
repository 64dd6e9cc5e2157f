"""Commands that change an entity: set, patch, delete.

What can be checked without a store is checked first, so that bad input creates no file.
"""

from typing import Annotated, Any

import typer

from rote.cli.input import decode_argument
from rote.cli.options import (
    BRANCH_DEFAULT,
    SPACE_DEFAULT,
    STORE_DEFAULT,
    BranchOption,
    IdArgument,
    JsonOption,
    KeyOption,
    SpaceOption,
    StoreOption,
    opened_space,
)
from rote.cli.outcome import no
from rote.cli.output import print_json, print_line, say, short
from rote.contract import Commit
from rote.errors import InvalidInput, NotFound
from rote.space import Space
from rote.values import check_entity_id, check_key


def set_entity(
    id: IdArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, @file, or - for stdin.")],
    *,
    key: KeyOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Replace an entity's value; makes the store and the space when they are new."""
    _check(id, key)
    decoded = decode_argument(value)
    with opened_space(store, space, branch, create=True) as opened:
        newest = newest_before(opened, key)
        _print_commit(opened.set(id, decoded, key=key), key, newest, as_json=as_json)


def patch_entity(
    id: IdArgument,
    ops: Annotated[
        str, typer.Argument(metavar="OPS", help="RFC 6902 operations: JSON, @file, or - for stdin.")
    ],
    *,
    key: KeyOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Change parts of an entity's value."""
    _check(id, key)
    operations: Any = decode_argument(ops)
    if not isinstance(operations, list):
        raise InvalidInput("a patch is a list of operations: put [ ] around it")
    with opened_space(store, space, branch) as opened:
        newest = newest_before(opened, key)
        _print_commit(opened.patch(id, operations, key=key), key, newest, as_json=as_json)


def delete_entity(
    id: IdArgument,
    *,
    key: KeyOption = None,
    store: StoreOption = STORE_DEFAULT,
    space: SpaceOption = SPACE_DEFAULT,
    branch: BranchOption = BRANCH_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Delete an entity; its history stays. Exit 1 when it does not exist."""
    _check(id, key)
    with opened_space(store, space, branch) as opened:
        newest = newest_before(opened, key)
        try:
            commit = opened.delete(id, key=key)
        except NotFound:
            say(f"{id} does not exist")
            raise no() from None
        _print_commit(commit, key, newest, as_json=as_json)


def _check(id: str, key: str | None) -> None:
    check_entity_id(id)
    if key is not None:
        check_key(key)


def newest_before(space: Space, key: str | None) -> int:
    """The version before a write; a key that gives an older one back was used before."""
    return 0 if key is None else space.version


def print_repeated(key: str | None, version: int) -> None:
    """What is said instead of what was done."""
    print_line(f"key {key} was used before, at version {version}; nothing was written")


def _print_commit(commit: Commit, key: str | None, newest: int, *, as_json: bool) -> None:
    if as_json:
        print_json(commit.to_dict())
        return
    if commit.version <= newest:
        print_repeated(key, commit.version)
        return
    for fact in commit.facts:
        print_line(f"{fact.op} {fact.id} at version {commit.version} ({short(commit.hash)})")
