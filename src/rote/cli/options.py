"""Options that commands share, and how they open what the options name."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Annotated

import typer

from rote.errors import InvalidInput, NotFound
from rote.opening import open as open_store
from rote.records import Memory
from rote.records.keys import NAMESPACES, check_namespaces
from rote.records.listing import find_namespaces
from rote.space import Space, Store
from rote.values import check_branch_name, check_space_name, datetime_of, parse_time
from rote.values.limits import INTEGER_MAX
from rote.values.names import told

STORE_DEFAULT = "rote.db"
STORE_HELP = "A path, or postgresql://…[?schema=NAME]."
SPACE_DEFAULT = "default"
BRANCH_DEFAULT = "main"
# 2**63 - 1 has 19 digits; a longer number is no version.
_VERSION_DIGITS_MAX = 19

StoreOption = Annotated[
    str,
    typer.Option("--store", metavar="URL", envvar="ROTE_STORE", help=STORE_HELP),
]
SpaceOption = Annotated[str, typer.Option("--space", metavar="NAME", help="A space's name or did.")]
BranchOption = Annotated[str, typer.Option("--branch", metavar="NAME", help="A branch's name.")]
AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION|TIME", help="As it was then: 12, or an RFC 3339 time."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Idempotency key: the same write happens once."),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=0, max=INTEGER_MAX, help="At most so many."),
]
NamespacesOption = Annotated[
    str | None,
    typer.Option("--namespaces", metavar="NS,NS", help="Namespaces of your own that are new."),
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="An entity: urn:entity:…")]


@contextmanager
def opened_store(url: str, *, create: bool = False, recover: bool = True) -> Iterator[Store]:
    """The store; NotFound when it is missing, unless it may be created."""
    if url.endswith(":memory:"):
        raise InvalidInput("a store in memory ends with the command; name a file")
    with open_store(url, create=create, recover=recover) as store:
        yield store


@contextmanager
def opened_space(
    url: str, name: str, branch: str = BRANCH_DEFAULT, *, create: bool = False
) -> Iterator[Space]:
    """The space on a branch; made with its store when they are new and may be created."""
    if create and not name.startswith("did:"):
        check_space_name(name)
    check_branch_name(branch)
    with ExitStack() as stack:
        try:
            opening = opened_store(url, create=create and branch == BRANCH_DEFAULT)
            store = stack.enter_context(opening)
        except NotFound as error:
            if create and branch != BRANCH_DEFAULT:
                words = f"a new store has only the branch {BRANCH_DEFAULT}, not {branch}"
                error.args = (f"{error}; {words}",)
            raise
        space = _space(store, name)
        yield space if branch == BRANCH_DEFAULT else space.on(branch)


def is_there(url: str, name: str) -> bool:
    """Whether a store has a space; nothing is made."""
    try:
        with opened_space(url, name):
            return True
    except NotFound:
        return False


@contextmanager
def scratch_space() -> Iterator[Space]:
    """An empty space to try things in."""
    with open_store(":memory:") as store:
        yield store.space("scratch")


def _space(store: Store, name: str) -> Space:
    try:
        return store.space(name)
    except NotFound as error:
        # Who has the store may know its spaces; who asks a server for one may not.
        error.args = (f"{error}; {told(space.name for space in store.spaces())}",)
        raise


def memory_of(
    space: Space, namespaces: str | None = None, *, at: int | datetime | None = None
) -> Memory:
    """The memory with the namespaces of the contract, those that hold records, and new ones."""
    found = find_namespaces(space if at is None else space.at(at))
    return Memory(space, namespaces=[*found, *namespaces_in(namespaces)])


def namespaces_in(text: str | None) -> tuple[str, ...]:
    """The namespaces of the contract, and those of an option."""
    named = [] if text is None else [name.strip() for name in text.split(",")]
    return check_namespaces([*NAMESPACES, *named])


def point_of(text: str) -> int | datetime:
    """A version or a time."""
    version = version_in(text)
    if version is not None:
        return version
    try:
        return datetime_of(parse_time(text))
    except InvalidInput as error:
        raise InvalidInput(f"{error}, or name a version, an integer from 0 on") from None


def version_in(text: str) -> int | None:
    """The version that a text is, if it is one."""
    is_version = text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS_MAX
    return int(text) if is_version else None
