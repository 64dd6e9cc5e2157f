"""A server from its socket to its end: binds, listens, and stops without losing a request."""

import asyncio
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from types import FrameType

import uvicorn

from rote.errors import InvalidInput, RoteError, Unavailable
from rote.opening.sources import SystemIds
from rote.server.access_log import open_log
from rote.server.answering import Service
from rote.server.application import Application
from rote.server.authentication import Authentication
from rote.server.commands import command_routes
from rote.server.origins import Origins, shown_host
from rote.server.protocol import GuardedProtocol, guarded
from rote.server.routes import Router
from rote.server.settings import Settings
from rote.server.start_token import start_token
from rote.server.sync.socket import GuardedSocket, guarded_socket
from rote.server.table import ROUTES, ROWS, TABLE, check_table
from rote.space import Store
from rote.values.server_limits import (
    FILES_BESIDE_CONNECTIONS,
    READY_SECONDS,
    RECOVERY_SECONDS,
    SERVER_CONNECTION_LOOK_SECONDS,
    SERVER_TICK_SECONDS,
)
from rote.values.sync_limits import SYNC_PING_SECONDS, SYNC_PONG_SECONDS

_ENDED_AT_ONCE = 1


def bind(settings: Settings) -> socket.socket:
    """Return a socket that is bound to the address, and does not listen yet."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _unusable(settings, error) from None
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise _unusable(settings, error) from None
    return bound


def _unusable(settings: Settings, error: OSError) -> Unavailable:
    place = f"{shown_host(settings.host)}:{settings.port}"
    return Unavailable(f"the address {place} cannot be used: {error.strerror or error}")


def allow_files(settings: Settings) -> None:
    """Let the process have a file for each connection, as far as the system lets it.

    Many systems let a process have 1,024 files until it asks for more.
    """
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.limits.connections + FILES_BESIDE_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Serving(uvicorn.Server):
    """A server of a store on a socket."""

    def __init__(self, store: Store, settings: Settings, bound: socket.socket) -> None:
        check_table()
        self._bound = bound
        self.settings = settings
        scheme = "http" if settings.tls_cert is None else "https"
        host, port = bound.getsockname()[:2]
        self.url = f"{scheme}://{shown_host(host)}:{port}"
        service = self.service = Service(store, settings)
        self.did = service.home.did
        self.token = start_token(settings, SystemIds())
        self.app = Application(
            service,
            authentication=Authentication(
                settings, start_token=self.token, home=service.home, clock=service.clock
            ),
            origins=Origins(settings, host=host, port=port, scheme=scheme),
            router=Router([*command_routes(ROWS), *ROUTES], TABLE),
            log=open_log(
                settings.access_log,
                dropped=lambda count: service.metrics.count("rote_log_dropped_total", count),
            ),
        )
        self._loop: asyncio.AbstractEventLoop | None = None  # once it has started
        self._stopped = asyncio.Event()
        super().__init__(self._config())
        service.metrics.gauges |= {
            "rote_connections": lambda: len(self.server_state.connections),
            "rote_watches": lambda: service.watches.count,
            "rote_watch_frames_total": lambda: service.watches.frames,
        }
        _load(self.config)

    def _config(self) -> uvicorn.Config:
        settings = self.settings
        return uvicorn.Config(
            self.app,
            http=guarded(settings.limits, self.app.note_refusal),
            ws=guarded_socket(settings.limits, lambda: self.app.buffered),
            ws_max_size=settings.limits.commit_bytes,
            ws_ping_interval=SYNC_PING_SECONDS,
            ws_ping_timeout=SYNC_PONG_SECONDS,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            # Connections are looked at by this server.
            timeout_keep_alive=2**30,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )

    def serve_until_stopped(self, listening: Callable[[], None]) -> bool:
        """Listen, and return when the server was stopped: whether no command runs any more.

        listening  is called when requests are taken
        """
        self._listening = listening
        try:
            super().run([self._bound])
        finally:
            is_done = self.app.close()
            self.service.watches.close()
            self._bound.close()
        return is_done

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = self._loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state={}, _loop=loop
            )
            return made

        handshake = self.settings.limits.head_seconds if self.config.ssl else None
        self.servers = [
            await loop.create_server(
                protocol, sock=each, ssl=self.config.ssl, backlog=self.config.backlog,
                ssl_handshake_timeout=handshake,
            )
            for each in sockets or ()
        ]  # fmt: skip
        self._beside = [
            asyncio.create_task(self._look()),
            asyncio.create_task(self._recover()),
            asyncio.create_task(self._ask_store()),
            asyncio.create_task(self.app.sessions.watch_over()),
        ]
        self.started = True
        self._listening()

    async def main_loop(self) -> None:
        """Look after the server until it is to stop, which is noticed at once."""
        ticks = count()
        while not await self.on_tick(next(ticks)):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), SERVER_TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connections; let what has begun be answered, for a while."""
        self.service.watches.stop()
        for server in self.servers:
            server.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.grace_seconds):
                while self.server_state.connections or self.server_state.tasks:
                    await asyncio.sleep(SERVER_CONNECTION_LOOK_SECONDS / 10)
        for task in (*self._beside, *self.server_state.tasks):
            task.cancel()

    async def _look(self) -> None:
        """End connections whose time is over."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SERVER_CONNECTION_LOOK_SECONDS)
            for connection in tuple(self.server_state.connections):
                assert isinstance(connection, GuardedProtocol | GuardedSocket)
                connection.look(loop.time())

    async def _ask_store(self) -> None:
        """Ask the store every second whether it answers, for `/ready`."""
        service = self.service
        while True:
            asked = asyncio.ensure_future(self.app.long_pool.run(service.ask_store, is_begun=True))
            done, _ = await asyncio.wait((asked,), timeout=READY_SECONDS)
            if not done:
                service.store_fault = "timeout"
                await asyncio.wait((asked,))
            await asyncio.sleep(READY_SECONDS)

    async def _recover(self) -> None:
        """End the runs whose owners are gone, every now and then."""
        while True:
            await asyncio.sleep(RECOVERY_SECONDS)
            with suppress(RoteError):  # the next round tries again
                await self.app.long_pool.run(self.service.store.recover, is_begun=True)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again at the end, so that the process does not exit with 0.
        # The handlers stay until the process ends: a second signal may come while the store closes.
        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, self._on_signal)
        yield

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(_ENDED_AT_ONCE)
        self.stop()

    def stop(self) -> None:
        """Begin to stop; may be called from any thread."""
        self.service.is_stopping = True
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._stopped.set)


def _load(config: uvicorn.Config) -> None:
    """Load what the configuration names, before anybody connects."""
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"the files of --tls-cert and --tls-key cannot be used: {error.strerror or error}"
        ) from None
