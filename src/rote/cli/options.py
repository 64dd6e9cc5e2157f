"""Options that commands share, and the code that opens the store and the space they name.

A command takes a group of options by one parameter, whose type is a class of this file:

    @spread_options
    def get_entity(id: IdArgument, *, at: AtOption = None, options: BranchOptions) -> None:
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli.output import print_json, say
from rote.cli.seeds import seed_in
from rote.cli.times import time_in
from rote.client.address import is_remote
from rote.errors import InvalidInput, NotFound
from rote.opening import open as open_store
from rote.opening import open_as_allowed
from rote.records.keys import NAMESPACES, check_namespaces
from rote.records.listing import find_namespaces
from rote.records.memory import Memory
from rote.space import Space, Store
from rote.values import (
    Json,
    check_branch_name,
    check_key,
    check_space_name,
    format_time,
    micros_of,
)
from rote.values.limits import INTEGER_MAX
from rote.values.names import told

STORE_DEFAULT = "rote.db"
STORE_HELP = "A path, postgresql://…[?schema=NAME] or https://…"
SPACE_DEFAULT = "default"
BRANCH_DEFAULT = "main"
# 2**63 - 1 has 19 digits; a longer number is no version.
_VERSION_DIGITS_MAX = 19

Point = int | datetime  # a version, or a time with an offset

SpaceOption = Annotated[
    str,
    typer.Option("--space", metavar="NAME", envvar="ROTE_SPACE", help="A space's name or did."),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="VERSION|TIME",
        help="As it was then: 12, '2026-01-31 14:00', 'tuesday 14:00'.",
    ),
]
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
OnlyNamespaceOption = Annotated[
    list[str] | None,
    typer.Option("--namespace", metavar="NS", help="Only this one; may be given again."),
]
OnlyKindOption = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help="Only this one; may be given again."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="A new file to write it to."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of every command that prints data."""

    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False

    def print_answer(self, answer: Json, print_words: Callable[[], None]) -> None:
        """Print an answer as JSON for programs, or in words for people."""
        if self.as_json:
            print_json(answer)
        else:
            print_words()

    def view_at(self, space: Space, point: Point | None) -> Space:
        """Return the space as it was at a point, as it is now without one; tell people what a time
        was taken for."""
        if point is None:
            return space
        view = space.at(point)
        if isinstance(point, datetime) and not self.as_json:
            last = f"version {view.version}, of {format_time(micros_of(view.now))}"
            known = last if view.version else "nothing, the first version is later"
            say(f"at {point.isoformat(' ', 'seconds')} it had {known}")
        return view


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions(Options):
    """Options of a command on a store."""

    store: Annotated[
        str, typer.Option("--store", metavar="URL", envvar="ROTE_STORE", help=STORE_HELP)
    ] = STORE_DEFAULT

    def opened_store(self, *, recover: bool = True) -> AbstractContextManager[Store]:
        """Open the store; NotFound when it is missing."""
        return opened_store(self.store, recover=recover)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceOptions(StoreOptions):
    """Options of a command on a space."""

    space: SpaceOption = SPACE_DEFAULT

    def opened_space(self) -> AbstractContextManager[Space]:
        """Open the space; NotFound when it is missing."""
        return _opened_space(self.store, self.space, BRANCH_DEFAULT, create=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOptions(SpaceOptions):
    """Options of a command on a branch of a space."""

    branch: Annotated[
        str,
        typer.Option("--branch", metavar="NAME", envvar="ROTE_BRANCH", help="A branch's name."),
    ] = BRANCH_DEFAULT

    def opened_space(self, *, create: bool = False) -> AbstractContextManager[Space]:
        """Open the space on its branch; `create` makes a missing store and a missing space."""
        return _opened_space(self.store, self.space, self.branch, create=create)

    def is_there(self) -> bool:
        """Whether the store and the space exist; nothing is made."""
        try:
            with _opened_space(self.store, self.space, BRANCH_DEFAULT, create=False):
                return True
        except NotFound:
            return False


def spread_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command for typer: each field of an option group is a parameter of its own."""
    parameters = signature(command).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    taken: list[Parameter] = []
    for name, parameter in parameters.items():
        taken += signature(groups[name]).parameters.values() if name in groups else [parameter]
    # --json stands last in every help.
    taken.sort(key=lambda parameter: parameter.name == "as_json")
    run.__signature__ = Signature(taken)  # type: ignore[attr-defined]  # inspect reads it
    return run


@contextmanager
def opened_store(
    url: str,
    *,
    create: bool = False,
    recover: bool = True,
    read_only: bool = False,
    modes: Iterable[str] | None = None,
    traces: Path | None = None,
) -> Iterator[Store]:
    """Open a store, read only too where it cannot be written; NotFound when it is missing, unless it
    may be created."""
    if url.endswith(":memory:"):
        raise InvalidInput("a store in memory ends with the command; name a file")
    key_file = os.environ.get("ROTE_KEY_FILE")
    token = os.environ.get("ROTE_TOKEN") or None
    key = seed_in(Path(key_file)) if key_file and token is None and is_remote(url) else None
    # Behind a server the author is who calls.
    author = None if is_remote(url) else os.environ.get("ROTE_AUTHOR") or None
    try:
        opened = open_as_allowed(
            url,
            create=create,
            recover=recover,
            read_only=read_only,
            author=author,
            modes=modes,
            traces=traces,
            token=token,
            key=key,
        )
    except NotFound as error:
        error.args = (f"{error}; --store or ROTE_STORE names another",)
        raise
    with opened as store:
        yield store


@contextmanager
def _opened_space(url: str, name: str, branch: str, *, create: bool) -> Iterator[Space]:
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
        space = find_space(store, name)
        yield space if branch == BRANCH_DEFAULT else space.on(branch)


@contextmanager
def scratch_space() -> Iterator[Space]:
    """Open an empty space in memory, to try a write in."""
    with open_store(":memory:") as store:
        yield store.space("scratch")


def find_space(store: Store, name: str) -> Space:
    """Return the space of a name or did; NotFound tells which spaces there are."""
    try:
        return store.space(name)
    except NotFound as error:
        # Only here: a server must not tell a caller which other spaces it has.
        there = told(space.name for space in store.spaces())
        error.args = (f"{error}; {there}: name one with --space or ROTE_SPACE",)
        raise


class _CommandMemory(Memory):
    """A memory with every namespace that holds records: there is no other to be named."""

    _advice_on_namespaces = ""
    _is_sent = False  # its errors have other words


def memory_of(view: Space, namespaces: str | None = None) -> Memory:
    """Return the memory with the namespaces of the contract, those that hold records, and new ones."""
    return _CommandMemory(view, namespaces=[*find_namespaces(view), *namespaces_in(namespaces)])


def namespaces_in(text: str | None) -> tuple[str, ...]:
    """The namespaces of the contract, and those of an option."""
    named = [] if text is None else [name.strip() for name in text.split(",")]
    return check_namespaces([*NAMESPACES, *named])


def check_key_option(key: str | None) -> None:
    """Check the key of a write, if it has one."""
    if key is not None:
        check_key(key)


def point_of(text: str | None, *, is_start: bool = False) -> Point | None:
    """Return the version or the time that a text names; None without a text.

    is_start  whether a day stands for its start, and not for its end
    """
    if text is None:
        return None
    version = version_in(text)
    if version is not None:
        return version
    try:
        return time_of(text, is_start=is_start)
    except InvalidInput as error:
        raise InvalidInput(f"{error}; or name a version, an integer from 0 on") from None


def time_of(text: str, *, is_start: bool = False) -> datetime:
    """Return the time that a text names, seen from now."""
    return time_in(text, now=datetime.now().astimezone(), is_start=is_start)


def time_option(option: str, text: str | None, *, is_start: bool) -> datetime | None:
    """Return the time that an option names; the error about another text names the option."""
    try:
        return None if text is None else time_of(text, is_start=is_start)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error}", **error.details) from None


def version_in(text: str) -> int | None:
    """Return the version that a text names; None when it names none."""
    is_version = text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS_MAX
    return int(text) if is_version else None
