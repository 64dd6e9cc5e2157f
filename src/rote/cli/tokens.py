"""Commands about tokens of a server: token create, list, revoke. They open the store itself."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from rote.access.paths import check_path
from rote.access.rights import check_right
from rote.access.tokens import TokenRecord, TokenRight, check_token_name
from rote.cli.options import StoreOptions, find_space, opened_store, spread_options
from rote.cli.outcome import no
from rote.cli.output import print_json, print_line, print_rows
from rote.errors import InvalidInput, NotFound
from rote.opening.sources import SystemClock, SystemIds
from rote.space import Store
from rote.space.sources import port_of_store
from rote.values import Json, micros_of

if TYPE_CHECKING:
    from rote.server.server_space import ServerSpace

commands = typer.Typer(help="Tokens for people and services that ask a server.")

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_duration = re.compile(r"([1-9][0-9]{0,7})([smhdw])").fullmatch

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="1 to 64 of a-z 0-9 . _ -")]
PathOption = Annotated[
    str | None,
    typer.Option("--path", metavar="PATH", help="Only this entity, or ids below urn:notes:"),
]


def seconds_in(text: str) -> int:
    """Return the seconds of a duration such as 90d."""
    match = _duration(text)
    if match is None:
        raise InvalidInput(f"{text!r:.40} is no duration; write it like 30m, 12h, 90d or 2w")
    return int(match[1]) * _SECONDS[match[2]]


@commands.command("create")
@spread_options
def create_token(
    name: NameArgument,
    *,
    right: Annotated[
        str | None, typer.Option(metavar="RIGHT", help="read, write or owner; else read.")
    ] = None,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="Only this space; else all.")
    ] = None,
    path: PathOption = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as 90d; else never.")
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="For everything, and to make spaces.")
    ] = False,
    options: StoreOptions,
) -> None:
    """Make a token and print it; keep it, for only a hash of it is stored.

    A server on the store takes it at once. Without --space it is for all spaces, also later ones.
    """
    check_token_name(name)
    if right is not None:
        check_right(right)
    if path is not None:
        check_path(path)
    if operator and (right, space, path) != (None, None, None):
        raise InvalidInput(
            "an operator may do everything everywhere; leave out --right, --space and --path"
        )
    seconds = None if expires is None else seconds_in(expires)
    # A space that is not there must not be made.
    with opened_store(options.store, create=space is None) as store:
        did = None if space is None else find_space(store, space).did
        now = micros_of(SystemClock().now())
        held = "operator" if operator else right or "read"
        bound = TokenRight(held, did, path)  # type: ignore[arg-type]
        text, record = _home(store, create=True).create_token(
            name,
            bound,
            now=now,
            expires=None if seconds is None else now + seconds * 1_000_000,
            ids=SystemIds(),
        )
    told: dict[str, Json] = {"token": text, "name": name, **_shown(record)}
    options.print_answer(told, lambda: print_line(text))


@commands.command("list")
@spread_options
def list_tokens(*, options: StoreOptions) -> None:
    """List tokens by name, without their secrets."""
    with options.opened_store() as store:
        try:
            records = _home(store, create=False).tokens()
        except NotFound:
            records = []  # no token was ever made
        names = {space.did: space.name for space in store.spaces()}
    if options.as_json:
        print_json(
            [{"name": each.name, **_shown(each), "revoked": each.revoked} for each in records]
        )
        return
    columns = ("name", "right", "space", "path", "created", "expires", "revoked")
    print_rows(columns, (_row(each, names) for each in records))


@commands.command("revoke")
@spread_options
def revoke_token(name: NameArgument, *, options: StoreOptions) -> None:
    """End a token, at the next call of a running server. Exit 1 when there is none."""
    with options.opened_store() as store:
        try:
            _home(store, create=False).revoke_token(name)
        except NotFound:
            raise no(f"there is no token {name}") from None
    options.print_answer({"revoked": name}, lambda: print_line(f"token {name} revoked"))


def _home(store: Store, *, create: bool) -> "ServerSpace":
    from rote.server.server_space import open_server_space

    return open_server_space(port_of_store(store), create=create)


def _shown(record: TokenRecord) -> dict[str, Json]:
    bound = record.bound
    return {
        "id": record.id,
        "right": bound.right,
        "space": bound.space,
        "path": bound.path,
        "expires": record.expires,
    }


def _row(record: TokenRecord, names: Mapping[str, str]) -> tuple[str, ...]:
    bound = record.bound
    space = "all" if bound.space is None else names.get(bound.space, bound.space)
    return (
        record.name, bound.right, space, bound.path or "", record.created,
        record.expires or "never", "revoked" if record.revoked else "",
    )  # fmt: skip
