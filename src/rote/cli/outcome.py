"""The end of a command: its exit code, and the one line that says why.

      0  the answer is yes, or it is done
      1  the answer is no: an absent entity, a fault, a problem
      2  there is no answer: bad input, a missing store, any RoteError
    130  interrupted
    141  the reader of the output went away

Frozen: scripts branch on these. Only a bug in Rote shows a traceback.
"""

import re
import sys
import traceback
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from rote.cli.output import answering, discard_output, printable, say
from rote.errors import RoteError


class Outcome(IntEnum):
    YES = 0
    NO = 1
    CANNOT_SAY = 2
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


class Commands(TyperGroup):
    """The group of all commands, where every error becomes an outcome."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        if sys.stdout is None:
            # This comes before any change, because nobody could be told of the change.
            say("error: standard output is closed; send it to /dev/null if nobody is to see it")
            sys.exit(Outcome.CANNOT_SAY)
        try:
            code = super().main(*args, **kwargs)
        except typer.TyperException as error:
            say(f"error: {_usage(error)}")
            code = Outcome.CANNOT_SAY
        sys.exit(code or Outcome.YES)

    def invoke(self, ctx: Any) -> Any:
        try:
            super().invoke(ctx)
            with answering():
                sys.stdout.flush()
        except (typer.TyperException, typer.Exit):
            raise
        except BaseException as error:
            raise typer.Exit(_settle(error)) from error


def no() -> typer.Exit:
    """Return the exit to raise when the answer is no."""
    return typer.Exit(Outcome.NO)


def confirm(question: str, *, refusal: str) -> None:
    """Ask for consent: a no ends the command with no, no answer ends it like Ctrl-C."""
    try:
        is_wanted = typer.confirm(printable(question), err=True)
    except typer.Abort:
        say("")  # ends the line of the question
        raise KeyboardInterrupt from None
    if not is_wanted:
        say(refusal)
        raise no()


def cannot_say() -> typer.Exit:
    """Return the exit to raise when the data that would give the answer is gone."""
    return typer.Exit(Outcome.CANNOT_SAY)


def _settle(error: BaseException) -> Outcome:
    """Tell the user about an error; return the exit code for it."""
    match error:
        case KeyboardInterrupt():
            say("error: interrupted")
            return Outcome.INTERRUPTED
        case BrokenPipeError():
            discard_output()
            return Outcome.OUTPUT_CLOSED
        case RoteError():
            say(f"error: {error}")
        case OSError():
            place = "" if error.filename is None else f"{error.filename}: "
            say(f"error: {place}{error.strerror or error}")
        case Exception():
            traceback.print_exception(error)
        case _:
            raise error
    return Outcome.CANNOT_SAY


def _usage(error: typer.TyperException) -> str:
    """Return what is wrong with the command line, and the command that shows help."""
    message = error.format_message().rstrip(".")
    if re.search(r"No such option: -\.?\d", message):
        message += ", and a value that begins with a dash comes after --"
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message}; see {context.command_path} --help"
