"""The command that serves a store over HTTP: serve."""

import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.options import StoreOptions, spread_options
from rote.cli.output import print_json, print_line, stderr
from rote.cli.running import EnvironmentOption, modes_of
from rote.cli.settings import ConfigOption
from rote.errors import NotFound
from rote.opening import open as open_store
from rote.space import Store

if TYPE_CHECKING:
    from rote.server.serving import Serving
    from rote.server.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(StoreOptions):
    """Options of a server."""

    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 7474
    auth: Annotated[
        str, typer.Option(metavar="WAYS", help="token, did, or both with a comma; or none.")
    ] = "token"
    author: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="ROTE_AUTHOR", help="Of commits by the start token."),
    ] = None
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the start token there.")
    ] = None
    no_start_token: Annotated[
        bool, typer.Option("--no-start-token", help="Make no start token.")
    ] = False
    operator: Annotated[
        list[str] | None,
        typer.Option(metavar="DID", help="An owner of every space; may be given again."),
    ] = None
    open_creation: Annotated[
        bool, typer.Option("--open-creation", help="Every did may make spaces.")
    ] = False
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate.")] = None
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")] = None
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy on this machine does TLS.")
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Answer to this name too; may be given again."),
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Pages from there may ask; may be given again."),
    ] = None
    retrieval_root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Retrieval may read files below it.")
    ] = None
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="For requests when it stops.")
    ] = 10
    threads: Annotated[int, typer.Option(min=1, max=1_000, help="That answer requests.")] = 16
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Change a limit; may be given again."),
    ] = None
    access_log: Annotated[
        str, typer.Option(metavar="FILE", help="A line for each request; - for stderr, or none.")
    ] = "-"
    durability: Annotated[str, typer.Option(metavar="HOW", help="fsync or os.")] = "fsync"
    config: ConfigOption = None
    environment: EnvironmentOption = None
    no_create: Annotated[bool, typer.Option("--no-create", help="The store must be there.")] = False

    def settings(self) -> "Settings":
        """Return the settings of the server."""
        from rote.server.settings import Settings, limits_of

        return Settings(
            host=self.host,
            port=self.port,
            auth=tuple(way.strip() for way in self.auth.split(",")),
            author=self.author,
            token_file=self.token_file,
            start_token=not self.no_start_token,
            operators=tuple(self.operator or ()),
            open_creation=self.open_creation,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            behind_proxy=self.behind_proxy,
            allow_hosts=tuple(self.allow_host or ()),
            allow_origins=tuple(self.allow_origin or ()),
            retrieval_root=self.retrieval_root,
            grace_seconds=self.grace,
            threads=self.threads,
            limits=limits_of(self.limit or ()),
            access_log=self.access_log,
        )

    def opened(self) -> Store:
        """Open the store, which must be one that can be written."""
        return open_store(
            self.store,
            durability=self.durability,
            author=self.author,
            modes=modes_of(self.store, self.config, self.environment),
            create=not self.no_create,
        )


@spread_options
def serve(*, options: ServeOptions) -> None:
    """Serve the store over HTTP, until SIGTERM or Ctrl-C."""
    try:
        from rote.server.serving import Serving, allow_files, bind
        from rote.server.settings import check_settings
    except ModuleNotFoundError as error:
        raise NotFound(f"there is no {error.name} here; pip install 'rote[server]'") from None
    settings = options.settings()
    check_settings(settings)
    if settings.auth == ("none",):
        stderr().print("everybody on this machine may read and write everything", style="red")
    allow_files(settings)
    with bind(settings) as bound, options.opened() as store:
        server = Serving(store, settings, bound)
        if not server.serve_until_stopped(lambda: _tell(server, settings, options)):
            # A command is in the middle of its work. It is applied wholly or not at all.
            sys.stdout.flush()
            os._exit(0)


def _tell(server: "Serving", settings: "Settings", options: StoreOptions) -> None:
    """Say where the server listens; nothing was said before."""
    store, token = server.service.store, server.token
    shown = None if settings.token_file is not None else token
    if options.as_json:
        print_json(
            {
                "url": server.url,
                "did": server.did,
                "token": shown,
                "store": store.url,
                "pid": os.getpid(),
                "version": version("rote"),
            }
        )
    else:
        print_line(f"rote {version('rote')} serves {store.url} at {server.url}")
        print_line(f"server {server.did}")
        if shown is not None:
            print_line(f"token {shown}")
    sys.stdout.flush()
