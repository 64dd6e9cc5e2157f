"""The command that moves between stores: copy."""

from typing import Annotated

import typer

from rote.cli.options import (
    SPACE_DEFAULT,
    STORE_HELP,
    Options,
    SpaceOption,
    opened_store,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import plural, print_line
from rote.cli.progress import bar
from rote.cli.trust import print_report
from rote.contract import CopyReport


@spread_options
def copy(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help=f"The store to read. {STORE_HELP}")
    ],
    dest: Annotated[
        str,
        typer.Argument(
            metavar="DEST", help=f"The store to write; made when it is new. {STORE_HELP}"
        ),
    ],
    *,
    space: SpaceOption = SPACE_DEFAULT,
    with_key: Annotated[
        bool, typer.Option("--with-key", help="Copy the space's private key too.")
    ] = False,
    options: Options,
) -> None:
    """Copy a space with its whole history to another store; run it again to go on or catch up."""
    with opened_store(source) as opened:
        # A space that is not there must not leave an empty store behind.
        did = opened.space(space).did
        with opened_store(dest, create=True) as target, bar() as advance:
            report = opened.copy(did, target, with_key=with_key, progress=advance)
    options.print_answer(report.to_dict(), lambda: _print_report(report))
    if not report.ok:
        raise no()


def _print_report(report: CopyReport) -> None:
    words = f"{plural(report.commits, 'commit')} copied"
    if report.since:
        words += f", on top of version {report.since}"
    if report.blobs:
        words += f", {plural(report.blobs, 'blob')}"
    if report.with_key:
        words += ", with the private key"
    print_line(words)
    print_report(report.verified, report.name)
