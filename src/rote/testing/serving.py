"""A server on loopback in the process of a test. Needs the extra `server`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rote.server.serving import Serving, bind
from rote.server.settings import Limits, Settings
from rote.space import Store

START_SECONDS_MAX = 30


@contextmanager
def serving(store: Store, **options: Any) -> Iterator[Serving]:
    """Serve a store until the block ends; `.url`, `.token` and `.did` say how to reach it.

    options  members of Settings; members of Limits stand beside them. The port is any free one
    """
    limits = Limits(
        **{name: options.pop(name) for name in Limits.__struct_fields__ if name in options}
    )
    settings = Settings(**{"port": 0, "limits": limits, "access_log": "none", **options})
    is_listening = threading.Event()
    with bind(settings) as bound:
        server = Serving(store, settings, bound)
        thread = threading.Thread(
            target=server.serve_until_stopped, args=[is_listening.set], name="rote-serving"
        )
        thread.start()
        try:
            assert is_listening.wait(START_SECONDS_MAX), "the server did not start"
            yield server
        finally:
            server.stop()
            thread.join()
