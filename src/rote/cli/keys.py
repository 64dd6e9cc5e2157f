"""Commands about keys: key new, key did, and delegate, which lends a right of a key."""

import os
from pathlib import Path
from typing import Annotated

import typer

from rote.cli.options import Options, SpaceOptions, spread_options
from rote.cli.output import print_json, print_line
from rote.cli.seeds import seed_in
from rote.cli.tokens import PathOption
from rote.errors import InvalidInput
from rote.opening.delegating import delegate
from rote.opening.sources import SystemIds
from rote.values import Identity
from rote.values.identity import SEED_BYTES
from rote.values.server_limits import DELEGATION_SECONDS_DEFAULT

commands = typer.Typer(help="Keys that sign for you.")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="32 bytes as hex digits.")]
KeyFileOption = Annotated[
    Path,
    typer.Option("--key", metavar="FILE", envvar="ROTE_KEY_FILE", help="The file of your key."),
]


@commands.command("new")
@spread_options
def make_key(file: FileArgument, *, options: Options) -> None:
    """Write a new key to a new file that only you can read; print its did."""
    seed = SystemIds().random_bytes(SEED_BYTES)
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise InvalidInput(f"{file} is there already; a key is never overwritten") from None
    with os.fdopen(opened, "wb") as target:
        target.write(seed.hex().encode() + b"\n")
        target.flush()
        os.fsync(target.fileno())
    _print_did(options, Identity.from_seed(seed).did)


@commands.command("did")
@spread_options
def show_did(file: FileArgument, *, options: Options) -> None:
    """Print the did of a key, which is no secret."""
    _print_did(options, Identity.from_seed(seed_in(file)).did)


@spread_options
def delegate_right(
    *,
    key: KeyFileOption,
    to: Annotated[str, typer.Option(metavar="DID", help="Who gets the right.")],
    right: Annotated[str, typer.Option(metavar="RIGHT", help="read, write or owner.")] = "read",
    path: PathOption = None,
    seconds: Annotated[
        int, typer.Option(metavar="N", help="How long it holds, at most 366 days.")
    ] = DELEGATION_SECONDS_DEFAULT,
    options: SpaceOptions,
) -> None:
    """Lend a right that you have in a space, and print the delegation as JSON.

    A space that is named by its did needs no store.
    """
    seed, did = seed_in(key), options.space
    if not did.startswith("did:"):
        with options.opened_space() as space:
            did = space.did
    print_json(delegate(seed, to=to, space=did, right=right, path=path, seconds=seconds))


def _print_did(options: Options, did: str) -> None:
    options.print_answer({"did": did}, lambda: print_line(did))
