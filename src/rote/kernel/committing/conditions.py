"""Conditions of a write beside its reads: the newest fact of an entity, and the version of the space."""

from rote.contract import OnlyIf
from rote.errors import Conflict, InvalidInput, ReadConflict
from rote.kernel.log.entries import Entry
from rote.values import check_branch_name, check_entity_id


def check_form(only_if: OnlyIf | None) -> None:
    """Raise InvalidInput for a condition that cannot be one."""
    if only_if is None:
        return
    if type(only_if) is not OnlyIf or type(only_if.version) is not int or only_if.version < 0:
        raise InvalidInput("only_if names a fact by id, version and branch", argument="only_if")
    check_entity_id(only_if.id)
    check_branch_name(only_if.branch)


def check_newest(only_if: OnlyIf, entry: Entry) -> None:
    """Raise Conflict unless the entry, the newest of its entity, is of the fact that is named."""
    if entry.version != only_if.version:
        conflict = ReadConflict.of_entity(
            only_if.id,
            branch=only_if.branch,
            expected_version=only_if.version,
            actual=(entry.version, None if entry.hash is None else entry.hash.hex()),
        )
        raise Conflict((conflict,))


def check_unchanged(since: int, *, version: int, branch: str) -> None:
    """Raise Conflict when the space has a version above `since`."""
    if version > since:
        conflict = ReadConflict.of_range(
            "", None, branch=branch, expected_version=since, actual=(version, None)
        )
        raise Conflict((conflict,))
