"""Commands about queues: queue put, take, ack, nack, extend, peek, depth, revive, drop."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rote.cli.hosting import HostOptions
from rote.cli.input import decode_argument
from rote.cli.options import KeyOption, check_key_option, spread_options
from rote.cli.outcome import no
from rote.cli.output import compact, print_json, print_line, print_pairs, print_rows
from rote.values.limits import AWAIT_SECONDS_MAX, LEASE_SECONDS_MAX, PAGE_MAX

commands = typer.Typer(help="Messages that are put once, taken in order, and acknowledged once.")

_COUNTS = ("ready", "leased", "dead")
# A lease of no time is none.
_SECONDS_MIN = 0.001

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of a queue.")]
LeaseSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--lease-seconds",
        metavar="S",
        min=_SECONDS_MIN,
        max=LEASE_SECONDS_MAX,
        help="How long the message is held; 30, or as the settings say.",
    ),
]


@dataclass(frozen=True, slots=True)
class MessageArguments:
    """Arguments that name a message."""

    queue: QueueArgument
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of a message.")]

    @property
    def given(self) -> dict[str, Any]:
        return {"queue": self.queue, "id": self.id}


@dataclass(frozen=True, slots=True)
class LeasedArguments:
    """Arguments that name a message that was taken."""

    queue: QueueArgument
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of a message.")]
    lease: Annotated[str, typer.Argument(metavar="LEASE", help="As take printed it.")]

    @property
    def given(self) -> dict[str, Any]:
        return {"queue": self.queue, "id": self.id, "lease": self.lease}


@commands.command("put")
@spread_options
def put_message(
    queue: QueueArgument,
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="JSON, @file, or - for stdin.")],
    *,
    key: KeyOption = None,
    options: HostOptions,
) -> None:
    """Add a message and print its id; makes the store and the space when they are new."""
    check_key_option(key)
    args = {"queue": queue, "payload": decode_argument(payload), "key": key}
    id = options.operate("queue", "put", args, create=True)
    options.print_answer(id, lambda: print_line(id))


@commands.command("take")
@spread_options
def take_message(
    queue: QueueArgument,
    *,
    lease_seconds: LeaseSecondsOption = None,
    wait_seconds: Annotated[
        float,
        typer.Option(
            "--wait-seconds",
            metavar="S",
            min=0,
            max=AWAIT_SECONDS_MAX,
            help="Wait so long for a message.",
        ),
    ] = 0,
    options: HostOptions,
) -> None:
    """Lease the oldest message that is ready, and print it; exit 1 when there is none."""
    args = {"queue": queue, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds}
    answer = options.operate("queue", "take", args, waits=f"waiting for a message of {queue}")
    message = answer["message"]
    if message is None:
        raise _none(f"no message of {queue} is ready", answer, options)
    options.print_answer(answer, lambda: _print_message(message))


@commands.command("ack")
@spread_options
def ack_message(message: LeasedArguments, *, options: HostOptions) -> None:
    """Say that the work of a message is done: it is gone then."""
    answer = options.operate("queue", "ack", message.given)
    options.print_answer(answer, lambda: print_line(f"acknowledged {message.id}"))


@commands.command("nack")
@spread_options
def nack_message(
    message: LeasedArguments,
    *,
    delay_seconds: Annotated[
        float,
        typer.Option(
            "--delay-seconds",
            metavar="S",
            min=0,
            max=LEASE_SECONDS_MAX,
            help="Ready again after so long.",
        ),
    ] = 0,
    options: HostOptions,
) -> None:
    """Give a message back; it is dead when it has had its tries."""
    args = {**message.given, "delay_seconds": delay_seconds}
    answer = options.operate("queue", "nack", args)
    state = ", dead: it has had its tries" if answer["dead"] else ""
    options.print_answer(answer, lambda: print_line(f"given back {message.id}{state}"))


@commands.command("extend")
@spread_options
def extend_lease(
    message: LeasedArguments, *, lease_seconds: LeaseSecondsOption = None, options: HostOptions
) -> None:
    """Keep a message for longer."""
    args = {**message.given, "lease_seconds": lease_seconds}
    answer = options.operate("queue", "extend", args)
    options.print_answer(
        answer, lambda: print_line(f"{message.id} is leased until {answer['leased_until']}")
    )


@commands.command("peek")
@spread_options
def peek_messages(
    queue: QueueArgument,
    *,
    dead: Annotated[
        bool, typer.Option("--dead", help="The dead ones instead of the others.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=PAGE_MAX, help="At most so many.")
    ] = 1,
    options: HostOptions,
) -> None:
    """Show the next messages without taking them; exit 1 when there is none.

    Columns: id, time of the put, tries, end of the lease, payload.
    """
    answer = options.operate("queue", "peek", {"queue": queue, "limit": limit, "dead": dead})
    items = answer["items"]
    if not items:
        raise _none(f"{queue} has no {'dead ' if dead else ''}message", answer, options)
    columns = ("id", "put_at", "tries", "leased_until", "payload")
    options.print_answer(answer, lambda: print_rows(columns, map(_row, items)))


@commands.command("depth")
@spread_options
def show_depth(queue: QueueArgument, *, options: HostOptions) -> None:
    """Count the messages that are ready, leased or delayed, and dead."""
    answer = options.operate("queue", "depth", {"queue": queue})
    options.print_answer(answer, lambda: print_pairs([(name, answer[name]) for name in _COUNTS]))


@commands.command("revive")
@spread_options
def revive_message(message: MessageArguments, *, options: HostOptions) -> None:
    """Make a dead message ready again, with no tries; exit 1 when there is none of that id."""
    answer = options.operate("queue", "revive", message.given)
    options.print_answer(answer, lambda: print_line(f"{message.id} is ready again"))


@commands.command("drop")
@spread_options
def drop_message(message: MessageArguments, *, options: HostOptions) -> None:
    """Delete a dead message; exit 1 when there is none of that id."""
    answer = options.operate("queue", "drop", message.given)
    options.print_answer(answer, lambda: print_line(f"dropped {message.id}"))


def _none(words: str, answer: dict[str, Any], options: HostOptions) -> typer.Exit:
    """Return the exit to raise when there is no message; print or say so."""
    if options.as_json:
        print_json(answer)
        return no()
    return no(words)


def _print_message(message: dict[str, Any]) -> None:
    names = ("id", "payload", "put_at", "tries", "lease", "leased_until")
    shown = {**message, "payload": compact(message["payload"])}
    print_pairs([(name, shown[name]) for name in names])


def _row(item: dict[str, Any]) -> tuple[str | int, ...]:
    until = item["leased_until"] or ""
    return (item["id"], item["put_at"], item["tries"], until, compact(item["payload"]))
