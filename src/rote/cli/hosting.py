"""Commands about the host of state tiers: host call, host capabilities; and the options of all commands
that call a tier."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli.input import decode_argument
from rote.cli.options import BranchOptions, scratch_space, spread_options
from rote.cli.outcome import no
from rote.cli.output import digits, print_line, print_rows, print_value, say
from rote.cli.progress import spinner
from rote.cli.settings import ConfigOption, no_settings, settings_path
from rote.errors import Denied, InvalidInput, NotFound
from rote.opening.hosts import Host
from rote.settings import HostSettings, read_host
from rote.space import Space
from rote.tiers.profiles import PROFILES, adapters_of, plain
from rote.values import Json

OPERATOR = "operator-controlled"
_NOT_CONFIGURED = "adapter_not_configured"
# Refusals that the settings decide.
_DECIDED = ("adapter_denied", "verb_denied", "grant_denied", _NOT_CONFIGURED)
_MISSES_NONE = ("frame", "cache", "sqlite", "fs")

commands = typer.Typer(help="State tiers, as the settings allow a workflow to use them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions(BranchOptions):
    """Options of a command that calls a tier."""

    config: ConfigOption = None

    @property
    def settings_path(self) -> Path | None:
        return settings_path(self.store, self.config)

    def settings(self) -> HostSettings | None:
        """Return the host of the settings; None when they have none."""
        path = self.settings_path
        if path is None or not path.is_file():
            if self.config is not None:
                raise no_settings(self.config)
            return None
        return read_host(path.read_bytes(), folder=path.absolute().parent, place=str(path))

    def made(self, settings: HostSettings, space: Space | None) -> Host:
        """Make a host; an error about an option names the file that has it."""
        try:
            return Host(settings.profile, space=space, **settings.options)
        except (InvalidInput, NotFound) as error:
            if self.settings() is not None:
                error.args = (f"{self.settings_path}: host: {error}",)
            raise

    def operate(
        self,
        adapter: str,
        verb: str,
        args: Mapping[str, Json],
        *,
        create: bool = False,
        waits: str = "",
    ) -> Any:
        """Call a verb as the operator, who may do everything; exit 1 when what it names is not there.

        create  make a missing store and a missing space
        waits   the words to show meanwhile
        """
        options = (self.settings() or HostSettings()).options.get(adapter, {})
        if create and not self.is_there():
            self._rehearse(adapter, verb, args, options)
        settings = HostSettings(OPERATOR, {adapter: options})
        with self.opened_space(create=create) as space, self.made(settings, space) as host:
            return answered(host, adapter, verb, args, waits=waits)

    def _rehearse(
        self, adapter: str, verb: str, args: Mapping[str, Json], options: Mapping[str, Any]
    ) -> None:
        """Try a call on an empty space and without files, so that a refused one makes no store."""
        with scratch_space() as scratch:
            self.made(HostSettings(OPERATOR, {adapter: options}), scratch).close()
            tried = {name: value for name, value in options.items() if name != "root"}
            with self.made(HostSettings(OPERATOR, {adapter: tried}), scratch) as host:
                host.call(adapter, verb, args)


def answered(host: Host, adapter: str, verb: str, args: Any, *, waits: str = "") -> Json:
    """Return the answer of a call; exit 1 when what it names is not there."""
    try:
        with spinner(waits or f"{adapter}.{verb}"):
            return host.call(adapter, verb, args)
    except NotFound as error:
        raise no(str(error), code=error.code) from None


@commands.command("call")
@spread_options
def call_adapter(
    adapter: Annotated[
        str,
        typer.Argument(metavar="ADAPTER", help="frame, cache, memory, store, sqlite, fs, …"),
    ],
    verb: Annotated[str, typer.Argument(metavar="VERB", help="As host capabilities lists them.")],
    args: Annotated[
        str,
        typer.Argument(
            metavar="[ARGS]",
            help="A JSON list, or an object by name; @file, or - for stdin.",
            show_default=False,
        ),
    ] = "[]",
    *,
    options: HostOptions,
) -> None:
    """Call a verb of an adapter and print its answer.

    Exit 1 when what it names is not there, 2 when it is refused.
    """
    given = decode_argument(args)
    if type(given) not in (list, dict):
        raise InvalidInput("arguments are a list or an object: put [ ] around them")
    with _opened_host(options) as (host, missing):
        try:
            answer = answered(host, adapter, verb, given)
        except Denied as error:
            if missing is not None and error.code == _NOT_CONFIGURED and _needs_space(adapter):
                raise missing from None
            if error.code in _DECIDED:
                error.args = (f"{error}; {_advice(options, adapter)}",)
            raise
    options.print_answer(answer, lambda: print_value(answer))
    if answer == {"message": None}:  # of a take
        raise no()


@commands.command("capabilities")
@spread_options
def show_capabilities(*, options: HostOptions) -> None:
    """List what may be called: adapter, verb, what it does, arguments; then the limits."""
    with _opened_host(options) as (host, missing):
        answer = host.capabilities()
    options.print_answer(answer, lambda: _print_capabilities(answer))
    if missing is not None and not options.as_json and len(answer["adapters"]) > 1:
        say(f"without memory, store, queue and agent: {missing}")


@contextmanager
def _opened_host(options: HostOptions) -> Iterator[tuple[Host, NotFound | None]]:
    """Make the host of the settings; without a space where there is none, and the reason for that."""
    settings = options.settings() or HostSettings()
    with ExitStack() as stack:
        space, missing = None, None
        try:
            space = stack.enter_context(options.opened_space())
        except NotFound as error:
            missing = error
        yield stack.enter_context(options.made(settings, space)), missing


def _needs_space(adapter: str) -> bool:
    return plain(adapter) not in _MISSES_NONE


def _advice(options: HostOptions, adapter: str) -> str:
    """Say where a refusal can be changed."""
    path = options.settings_path
    if options.settings() is not None:
        return f"[host] in {path} decides"
    least = next(each for each in PROFILES if plain(adapter) in adapters_of(each))
    wanted = f'[host] and profile = "{least}"'
    if path is None:
        return f"settings are not beside this store: name a file with {wanted} by --config"
    return f"write {wanted} to {path}"


def _print_capabilities(answer: Mapping[str, Any]) -> None:
    rows = (
        (adapter, verb, _effect(told), _arguments(told["input_schema"]))
        for adapter, verbs in answer["adapters"].items()
        for verb, told in verbs.items()
    )
    print_rows(("adapter", "verb", "effect", "arguments"), rows)
    limits = ", ".join(
        f"{name} {'none' if limit is None else digits(limit)}"
        for name, limit in answer["limits"].items()
    )
    print_line(f"profile {answer['profile']}; {limits}")


def _effect(told: Mapping[str, Any]) -> str:
    if told["destructive"]:
        return "replaces or removes"
    return "writes" if told["writes"] else "reads"


def _arguments(schema: Mapping[str, Any]) -> str:
    """Return the names of arguments, those in brackets that may be left out."""
    required = schema["required"]
    return " ".join(name if name in required else f"[{name}]" for name in schema["properties"])
