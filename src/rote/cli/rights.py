"""Commands about the ACL of a space: acl show, grant, withdraw, revoke, rotate."""

from collections.abc import Callable
from typing import Annotated

import typer

from rote.cli.input import decode_argument
from rote.cli.options import SpaceOptions, spread_options
from rote.cli.output import print_json, print_line, print_rows, say, short
from rote.contract import Commit, all_sides
from rote.space import Space
from rote.space.sources import port_of
from rote.values import Json

commands = typer.Typer(help="Who may do what in a space through a server.")

DidArgument = Annotated[str, typer.Argument(metavar="DID", help="did:key:z…, or * for any.")]


@commands.command("show")
@spread_options
def show_acl(
    *,
    delegations: Annotated[
        bool, typer.Option("--delegations", help="Also who let authors write.")
    ] = False,
    options: SpaceOptions,
) -> None:
    """Show who may do what in a space; columns: did, right."""
    with options.opened_space() as space:
        acl = space.acl()
        rows = all_sides(port_of(space), space.did, "delegation") if delegations else ()
        kept: list[Json] = [row.body for row in rows]
    if options.as_json:
        print_json({"acl": acl, "delegations": kept} if delegations else acl)
        return
    if acl is None:
        say("nothing was granted: only operators and the key of the space have rights")
    else:
        _print_acl(acl)
    for delegation in kept:
        assert isinstance(delegation, dict)
        lent = [str(delegation[name]) for name in ("iss", "aud", "right", "nbf", "exp")]
        print_line("lent by {} to {}: {}, from {} to {}".format(*lent))


def _print_acl(acl: dict[str, Json]) -> None:
    grants, revoked = acl.get("grants"), acl.get("revoked")
    if isinstance(grants, dict):
        print_rows(("did", "right"), [(did, str(right)) for did, right in sorted(grants.items())])
    if acl.get("root") == "none":
        print_line("the key of the space has no right of its own")
    for id, time in sorted(revoked.items()) if isinstance(revoked, dict) else ():
        print_line(f"revoked {id} until {time}")


@commands.command("grant")
@spread_options
def grant_right(
    did: DidArgument,
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="read, write or owner.")],
    *,
    options: SpaceOptions,
) -> None:
    """Give a did a right in a space, in place of the one that it has."""
    _change(options, lambda space: space.grant(did, right), f"{did} may {_verb(right)}")


@commands.command("withdraw")
@spread_options
def withdraw_right(did: DidArgument, *, options: SpaceOptions) -> None:
    """Take the right of a did away; what it has lent goes with it."""
    _change(options, lambda space: space.withdraw(did), f"{did} has no right of its own")


@commands.command("revoke")
@spread_options
def revoke_delegation(
    delegation: Annotated[
        str, typer.Argument(metavar="DELEGATION", help="JSON, @file, -, or the id alone.")
    ],
    *,
    options: SpaceOptions,
) -> None:
    """Make a delegation void, and every chain that it is in."""
    is_id = len(delegation) == 64 and not delegation.startswith(("{", "@"))
    given: Json = delegation if is_id else decode_argument(delegation)
    _change(options, lambda space: space.revoke(given), "the delegation is void")


@commands.command("rotate")
@spread_options
def rotate_right(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The did that loses its right.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The did that gets it.")],
    *,
    options: SpaceOptions,
) -> None:
    """Move the right of a did to another one."""
    _change(options, lambda space: space.rotate(old, new), f"{new} has the right of {old}")


def _change(options: SpaceOptions, change: Callable[[Space], Commit], words: str) -> None:
    with options.opened_space() as space:
        commit = change(space)
    at = f"at version {commit.version} ({short(commit.hash)})"
    options.print_answer(commit.to_dict(), lambda: print_line(f"{words}, {at}"))


def _verb(right: str) -> str:
    return {"read": "read", "write": "read and write"}.get(right, "do everything")
