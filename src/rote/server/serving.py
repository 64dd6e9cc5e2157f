"""A server from its socket to its end: binds, listens, and stops without losing a request."""

import asyncio
import socket
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from rote.contract.commands import FindSpace
from rote.errors import Unavailable
from rote.opening.sources import SystemIds
from rote.server.answering import Service
from rote.server.application import Application
from rote.server.authentication import Authentication
from rote.server.commands import command_routes
from rote.server.pool import Pool
from rote.server.protocol import GuardedProtocol, guarded
from rote.server.routes import Router
from rote.server.settings import Settings
from rote.server.table import ROUTES, ROWS, TABLE, check_table
from rote.space import Store

SERVER_SPACE = "rote.server"
# How often connections are looked at for those whose time is over.
_LOOK_SECONDS = 0.1


def bind(settings: Settings) -> socket.socket:
    """Return a socket that is bound to the address, and does not listen yet."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise Unavailable(
            f"the address {settings.host}:{settings.port} cannot be used: {error.strerror}"
        ) from None
    return bound


class Serving(uvicorn.Server):
    """A server of a store on a socket."""

    def __init__(self, store: Store, settings: Settings, bound: socket.socket) -> None:
        check_table()
        self._bound = bound
        self.settings = settings
        service = Service(store, settings)
        self.did = service.port.answer("", FindSpace(SERVER_SPACE, create=True)).did
        self.token = new_start_token() if settings.start_token else None
        self.app = Application(
            service,
            Authentication(settings, start_token=self.token),
            Router([*command_routes(ROWS), *ROUTES], TABLE),
            Pool(settings.threads, waiting_max=settings.limits.queue),
        )
        super().__init__(
            uvicorn.Config(
                self.app,  # type: ignore[arg-type]  # it sends plain dicts
                http=guarded(settings.limits),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=int(settings.limits.idle_seconds),
                timeout_graceful_shutdown=int(settings.grace_seconds),
            )
        )
        scheme = "https" if settings.tls_cert else "http"
        host, port = bound.getsockname()[:2]
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self.is_listening = threading.Event()

    def serve_until_stopped(self) -> None:
        """Listen, and return when the server was stopped."""
        try:
            super().run([self._bound])
        finally:
            self.app.pool.close()
            self._bound.close()

    async def main_loop(self) -> None:
        self.is_listening.set()
        looking = asyncio.create_task(self._look())
        try:
            await super().main_loop()
        finally:
            looking.cancel()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for connection in tuple(self.server_state.connections):
                assert isinstance(connection, GuardedProtocol)
                connection.look(loop.time())

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's would end the process by the signal again, and not with 0.
        yield

    def stop(self) -> None:
        """Begin to stop; may be called from any thread."""
        self.app.is_stopping = True
        self.should_exit = True


def new_start_token() -> str:
    """Return a new start token: its id is 12 digits, its secret 32 random bytes."""
    ids = SystemIds()
    secret = urlsafe_b64encode(ids.random_bytes(32)).rstrip(b"=").decode()
    return f"rote_{ids.random_bytes(6).hex()}_{secret}"
