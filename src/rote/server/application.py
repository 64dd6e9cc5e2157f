"""The application that uvicorn calls for each request, and all that its requests share."""

import sys
import time
from collections.abc import Callable

from rote.opening.sources import SystemClock, SystemIds
from rote.server.access_log import AccessLog, Entry
from rote.server.accounts import Accounts, Buffered
from rote.server.answering import Service
from rote.server.authentication import Authentication
from rote.server.exchange import Exchange, Receive, Scope, Send
from rote.server.origins import Origins
from rote.server.pool import Pool
from rote.server.protocol import Refusal
from rote.server.requests import DrawnIds
from rote.server.routes import Router
from rote.server.rows import ServerRow
from rote.server.sync.connection import Connection
from rote.server.sync.sessions import Sessions
from rote.values import format_time, micros_of
from rote.values.server_limits import SERVER_LONG_THREADS_SHARE


class Application:
    """An ASGI application. It lives on one event loop."""

    def __init__(
        self,
        service: Service,
        *,
        authentication: Authentication,
        origins: Origins,
        router: Router,
        log: AccessLog,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        settings = service.settings
        self.service = service
        self.authentication = authentication
        self.origins = origins
        self.router = router
        self.metrics = service.metrics
        self.log = log
        self.stacks = AccessLog(sys.stderr.buffer, dropped=lambda count: None)  # of server errors
        self.limits = settings.limits
        self.behind_proxy = settings.behind_proxy
        self.monotonic = monotonic
        self.clock = SystemClock()
        self.ids = DrawnIds(SystemIds())
        self.accounts = Accounts(self.limits, now=monotonic)
        self.buffered = Buffered(self.limits.buffered_bytes)
        self.sessions = Sessions(self)
        self._pool = Pool(settings.threads, waiting_max=self.limits.queue)
        # Work that takes minutes must not keep all threads from those who ask for a value.
        long_threads = max(settings.threads // SERVER_LONG_THREADS_SHARE, 1)
        self.long_pool = Pool(long_threads, waiting_max=self.limits.queue)
        service.is_overloaded = self.is_overloaded
        self.metrics.gauges |= {
            "rote_requests_in_flight": lambda: self._pool.running + self.long_pool.running,
            "rote_requests_waiting": lambda: self._pool.waiting + self.long_pool.waiting,
            "rote_sessions": lambda: self.sessions.count,
            "rote_buffered_bytes": lambda: self.buffered.size_bytes,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await Connection(self, scope, receive, send).run()
        else:
            await Exchange(self, scope, receive, send).run()

    def note_refusal(self, refusal: Refusal) -> None:
        """Take note of a request that was refused by its head alone."""
        self.metrics.answered("", refusal.status, 0, code=refusal.code)
        self.log.note(
            Entry(
                time=self.now(),
                request=refusal.request_id,
                peer=refusal.peer,
                principal=None,
                proofs=(),
                method="",
                command=None,
                space=None,
                status=refusal.status,
                code=refusal.code,
                ms=0,
                bytes_in=0,
                bytes_out=0,
            )
        )

    def now(self) -> str:
        return format_time(micros_of(self.clock.now()))

    def pool_of(self, row: ServerRow) -> Pool:
        return self.long_pool if row.is_long else self._pool

    @property
    def pool_of_sessions(self) -> Pool:
        """The threads on which sessions are opened."""
        return self._pool

    def is_overloaded(self) -> bool:
        return self._pool.waiting >= self.limits.queue

    def close(self) -> bool:
        """End threads and the log; return whether no command runs any more."""
        is_done = all([self._pool.close(), self.long_pool.close()])
        self.log.close()
        self.stacks.close()
        return is_done
