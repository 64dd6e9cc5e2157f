"""`rote canonical`: the one sequence of bytes that stands for a value."""

import sys
from typing import Annotated

import typer

from rote.cli.input import decode_stdin
from rote.values import canonical, json_v1


def canonicalise(
    *,
    v1: Annotated[
        bool, typer.Option("--v1", help="The form for comparing behaviour: json-v1.")
    ] = False,
) -> None:
    """Turn JSON on standard input into its canonical form (RFC 8785)."""
    value = decode_stdin()
    sys.stdout.buffer.write(json_v1(value) if v1 else canonical(value))
    if sys.stdout.isatty():
        # Only on a terminal: a program that hashes the output gets the exact bytes.
        sys.stdout.buffer.write(b"\n")
