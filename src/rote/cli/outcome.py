"""The end of a command: its exit code, and the one line that says why.

      0  the answer is yes, or it is done
      1  the answer is no: an absent entity, a fault, a problem
      2  there is no answer: bad input, a missing store, any RoteError
    130  interrupted
    141  the reader of the output went away

Frozen: scripts branch on these. Only a bug in Rote shows a traceback.
"""

import errno
import re
import sys
import traceback
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import typer

from rote.cli.loading import LoadingGroup
from rote.cli.naming import told
from rote.cli.output import answering, discard_output, printable, say, say_json
from rote.errors import InvalidInput, RoteError, Unavailable
from rote.values import Json


class Outcome(IntEnum):
    YES = 0
    NO = 1
    CANNOT_SAY = 2
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


class Commands(LoadingGroup):
    """The group of all commands, where every error becomes an outcome."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if sys.stdout is None:
            # This comes before any change, because nobody could be told of the change.
            say("error: standard output is closed; send it to /dev/null if nobody is to see it")
            sys.exit(Outcome.CANNOT_SAY)
        given = kwargs.get("args") or (args[0] if args else None) or sys.argv[1:]
        _wishes.as_json = "--json" in list(given)
        sys.exit(self._outcome(*args, **{**kwargs, "standalone_mode": False}))

    def _outcome(self, *args: Any, **kwargs: Any) -> Outcome:
        try:
            with answering():  # help is written outside of `invoke`
                code = super().main(*args, **kwargs)
                sys.stdout.flush()
            return Outcome(code or Outcome.YES)
        except typer.TyperException as error:
            return tell_error(InvalidInput(_usage(error)))
        except SystemExit:
            # So the libraries that write help leave when its reader has gone away.
            discard_output()
            return Outcome.OUTPUT_CLOSED
        except Exception as error:
            return _settle(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            super().invoke(ctx)
            with answering():
                sys.stdout.flush()
        except (typer.TyperException, typer.Exit):
            raise
        except BaseException as error:
            raise typer.Exit(_settle(error)) from error


@dataclass
class _Wishes:
    """The form in which the command that runs tells of errors."""

    as_json: bool = False


_wishes = _Wishes()


def no(words: str | None = None, *, code: str = "not_found") -> typer.Exit:
    """Return the exit to raise when the answer is no; say why, if the answer has not said it."""
    if words is not None:
        _tell({"code": code, "message": words, "details": {}}, words)
    return typer.Exit(Outcome.NO)


def confirm(question: str, *, refusal: str) -> None:
    """Ask for consent: a no ends the command with no, no answer ends it like Ctrl-C."""
    try:
        is_wanted = typer.confirm(printable(question), err=True)
    except typer.Abort:
        say("")  # ends the line of the question
        raise KeyboardInterrupt from None
    if not is_wanted:
        raise no(refusal, code="declined")


def cannot_say() -> typer.Exit:
    """Return the exit to raise when the data that would give the answer is gone."""
    return typer.Exit(Outcome.CANNOT_SAY)


def _settle(error: BaseException) -> Outcome:
    """Tell the user about an error; return the exit code for it."""
    match error:
        case KeyboardInterrupt():
            return tell_error(RoteError("interrupted", code="interrupted"), Outcome.INTERRUPTED)
        case BrokenPipeError():
            discard_output()
            return Outcome.OUTPUT_CLOSED
        case RoteError():
            return tell_error(error)
        case OSError():
            return tell_error(_translated(error))
        case Exception():
            traceback.print_exception(error)
            return Outcome.CANNOT_SAY
        case _:
            raise error


def _translated(error: OSError) -> RoteError:
    try:
        with answering():
            sys.stdout.flush()
            if error.errno == errno.ENOSPC and error.filename is None:
                raise error  # help was being written: a store or a file is named in its error
    except Unavailable as unwritten:
        return unwritten
    place = "" if error.filename is None else f"{error.filename}: "
    return Unavailable(f"{place}{error.strerror or error}", code="system")


def tell_error(error: RoteError, outcome: Outcome = Outcome.CANNOT_SAY) -> Outcome:
    """Tell of an error in one line: in words, or with --json as an object with code, message and
    details; return the outcome."""
    _tell(error.to_dict(), f"error: {told(str(error))}")
    return outcome


def _tell(answer: Json, words: str) -> None:
    if _wishes.as_json:
        say_json(answer)
    else:
        say(words)


def _usage(error: typer.TyperException) -> str:
    """Return what is wrong with the command line, and the command that shows help."""
    message = error.format_message().rstrip(".")
    if re.search(r"No such option: -\.?\d", message):
        message += ", and a value that begins with a dash comes after --"
    context = getattr(error, "ctx", None)
    if context is not None and context.command_path.endswith(" host call") and "extra" in message:
        message += """; ARGS is one JSON list, such as '["a", 1]', or one object by name"""
    if (unknown := re.fullmatch(r"No such command '([\w-]+)'.*", message)) and context is not None:
        message += _elsewhere(unknown[1], context)
    return message if context is None else f"{message}; see {context.command_path} --help"


def _elsewhere(name: str, context: Any) -> str:
    """Return the commands of this name in the groups below."""
    groups = context.command.commands.items()
    there = [group for group, commands in groups if name in getattr(commands, "commands", {})]
    named = " and ".join(f"{context.command_path} {group} {name}" for group in there)
    return named and f", but there is {named}"
