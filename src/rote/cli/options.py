"""Options that commands share, and how they open what the options name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from rote.errors import InvalidInput
from rote.opening import open as open_store
from rote.space import Space, Store
from rote.values import check_space_name
from rote.values.limits import INTEGER_MAX

STORE_DEFAULT = "rote.db"
STORE_HELP = "A path, or postgresql://…[?schema=NAME]."
SPACE_DEFAULT = "default"

StoreOption = Annotated[
    str,
    typer.Option("--store", metavar="URL", envvar="ROTE_STORE", help=STORE_HELP),
]
SpaceOption = Annotated[str, typer.Option("--space", metavar="NAME", help="A space's name or did.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Idempotency key: the same write happens once."),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=0, max=INTEGER_MAX, help="At most so many."),
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="An entity: urn:entity:…")]


@contextmanager
def opened_store(url: str, *, create: bool = False) -> Iterator[Store]:
    """The store; NotFound when it is missing, unless it may be created."""
    if url.endswith(":memory:"):
        raise InvalidInput("a store in memory ends with the command; name a file")
    with open_store(url, create=create) as store:
        yield store


@contextmanager
def opened_space(url: str, name: str, *, create: bool = False) -> Iterator[Space]:
    """The space; made with its store when they are new and may be created."""
    if create and not name.startswith("did:"):
        check_space_name(name)
    with opened_store(url, create=create) as store:
        yield store.space(name)
