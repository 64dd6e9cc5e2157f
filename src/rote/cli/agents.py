"""Commands about the mailbox of agents: agent send, post, tasks, task, result, bridge."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli.hosting import OPERATOR, HostOptions, answered
from rote.cli.input import decode_file, decode_stdin
from rote.cli.options import spread_options
from rote.cli.output import plural, print_line, print_rows, print_value, say
from rote.errors import InvalidInput
from rote.opening.hosts import Host
from rote.settings import HostSettings
from rote.values import Json
from rote.values.limits import PAGE_MAX

commands = typer.Typer(help="Tasks that agents send to each other, and their results.")

EnvelopeArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The envelope, a file of JSON; or - for stdin.")
]
TaskArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of a task.")]


@commands.command("send")
@spread_options
def send_task(file: EnvelopeArgument, *, options: HostOptions) -> None:
    """Send a task and print its id; makes the store and the space when they are new."""
    id = options.operate("agent", "send_task", {"envelope": _envelope(file)}, create=True)
    options.print_answer(id, lambda: print_line(id))


@commands.command("post")
@spread_options
def post_result(file: EnvelopeArgument, *, options: HostOptions) -> None:
    """Post the result of a task; exit 1 when there is no such task."""
    envelope = _envelope(file)
    answer = options.operate("agent", "post_result", {"envelope": envelope})
    words = "posted" if answer["created"] else "was posted before; nothing was written"
    options.print_answer(answer, lambda: print_line(f"the result of {_id_in(envelope)} {words}"))


@commands.command("tasks")
@spread_options
def list_tasks(
    *,
    target_agent: Annotated[
        str | None, typer.Option("--target-agent", metavar="NAME", help="Only those for this one.")
    ] = None,
    status: Annotated[
        str, typer.Option("--status", metavar="open|done|all", help="done: those with a result.")
    ] = "open",
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Only those with greater ids.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=PAGE_MAX, help="At most so many.")
    ] = 100,
    options: HostOptions,
) -> None:
    """List tasks by id: task, from whom, for whom, type, state, description."""
    args = {"target_agent": target_agent, "status": status, "after": after, "limit": limit}
    answer = options.operate("agent", "tasks", args)
    options.print_answer(answer, lambda: _print_tasks(answer))


@commands.command("task")
@spread_options
def show_task(id: TaskArgument, *, options: HostOptions) -> None:
    """Print a task as it was sent; exit 1 when there is none."""
    answer = options.operate("agent", "read_task", {"task_id": id})
    options.print_answer(answer, lambda: print_value(answer))


@commands.command("result")
@spread_options
def show_result(id: TaskArgument, *, options: HostOptions) -> None:
    """Print the result of a task; exit 1 when there is none yet."""
    answer = options.operate("agent", "read_result", {"task_id": id})
    options.print_answer(answer, lambda: print_value(answer))


@commands.command("bridge")
@spread_options
def bridge_files(
    root: Annotated[
        Path | None,
        typer.Argument(
            metavar="[ROOT]",
            help="The folder of tasks/*.jsonl and results/*.json; else root of [host.agent].",
            show_default=False,
        ),
    ] = None,
    *,
    options: HostOptions,
) -> None:
    """Bring the space and the files of a mailbox level; again changes nothing."""
    files = _files(options) if root is None else {"root": str(root)}
    Host(OPERATOR, agent=files).close()  # a wrong ROOT makes no store
    with (
        options.opened_space(create=True) as space,
        Host(OPERATOR, space=space, agent=files) as host,
    ):
        answer: Any = answered(host, "agent", "bridge", {}, waits="comparing with the files")
    options.print_answer(answer, lambda: _print_bridged(answer))


def _files(options: HostOptions) -> dict[str, Any]:
    """Return the mailbox of the settings."""
    files: dict[str, Any] = (options.settings() or HostSettings()).options.get("agent", {})
    if "root" not in files:
        raise InvalidInput("name the folder ROOT, or set root in [host.agent] of the settings")
    return files


def _envelope(file: str) -> Json:
    if file.lstrip().startswith("{"):
        raise InvalidInput("FILE is the name of a file; give - for FILE, and the JSON on stdin")
    return decode_stdin() if file == "-" else decode_file(Path(file))


def _id_in(envelope: Any) -> str:
    return str(envelope["task_id"])


def _print_tasks(answer: dict[str, Any]) -> None:
    columns = ("task", "from", "for", "type", "state", "description")
    print_rows(columns, map(_row, answer["items"]))
    if answer["next"] is not None:
        say(f"more follow: --after {answer['next']}")


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    task = item["task"]
    return (
        task["task_id"],
        task["requester_id"],
        task["target_agent"],
        task["task_type"],
        "done" if item["done"] else "open",
        task.get("description") or "",
    )


def _print_bridged(answer: dict[str, Any]) -> None:
    for noun in ("task", "result"):
        taken, given = answer[f"{noun}s_in"], answer[f"{noun}s_out"]
        print_line(f"{plural(taken, noun)} from the files, {plural(given, noun)} to them")
    for each in answer["rejected"]:
        place = each["file"] if each["line"] is None else f"{each['file']}:{each['line']}"
        say(f"not taken: {place}: {each['reason']}")
