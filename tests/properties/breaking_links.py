"""Links that break: they lose what is sent, what is received and answers to openings, and come back
elsewhere; what they have lost may still be decided, late.

The link below is any that does what contract.Link says.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random

from rote.contract import sync as wire
from rote.contract.links import Link, Linker, LinkRequest, Message, ended
from rote.errors import RoteError, Unavailable

FORMER = 4  # links that may still bring something
PUMPED = 6  # messages that a link brings which nobody hears


class BreakingLinker:
    """Implements contract.Linker on others, of which it takes any."""

    def __init__(self, linkers: Sequence[Linker], random: Random, counts: Counter[str]) -> None:
        self._linkers = linkers
        self._random = random
        self._counts = counts
        self._mutex = threading.Lock()
        self._is_calm = False
        self._open: list[BreakingLink] = []
        self._former: list[Link] = []

    def calm_down(self) -> None:
        """Break nothing any more."""
        self._is_calm = True

    def cut_one(self) -> None:
        """Cut a line while nobody looks."""
        with self._mutex:
            link = self._random.choice(self._open) if self._open else None
        if link is not None:
            link.cut()

    def bring_late(self) -> None:
        """Let lines that nobody holds go on: their servers have not learnt of it."""
        with self._mutex:
            former, self._former = self._former, []
        for link in former:
            with suppress(RoteError):
                for _ in range(PUMPED):
                    if link.receive(0.0) is not None:
                        self._counts["unheard"] += 1
            link.close()

    def close(self) -> None:
        self.bring_late()
        with self._mutex:
            links = list(self._open)
        for link in links:
            link.close()

    def connect(self, opening: wire.OpenSession) -> Link:
        if self.happens(0.05):
            raise ended("back", "no server is there")
        with self._mutex:
            linker = self._random.choice(self._linkers)
        link = linker.connect(opening)
        if opening.session is not None:
            self._counts["resumes"] += 1
        if self.happens(0.1):
            self._counts["lost openings"] += 1
            self.leave(link)
            raise ended("back", "the answer is lost")
        made = BreakingLink(self, link)
        with self._mutex:
            self._open.append(made)
        return made

    def happens(self, chance: float) -> bool:
        with self._mutex:
            return not self._is_calm and self._random.random() < chance

    def left(self, link: "BreakingLink", below: Link) -> None:
        self._counts["cuts"] += 1
        with self._mutex:
            if link in self._open:
                self._open.remove(link)
        self.leave(below)

    def leave(self, link: Link) -> None:
        """Keep a line that may go on without its client."""
        with self._mutex:
            self._former.append(link)
            gone = self._former.pop(0) if len(self._former) > FORMER else None
        if gone is not None:
            gone.close()

    def closed(self, link: "BreakingLink") -> None:
        with self._mutex:
            if link in self._open:
                self._open.remove(link)


class BreakingLink:
    """Implements contract.Link."""

    def __init__(self, linker: BreakingLinker, link: Link) -> None:
        self._linker = linker
        self._link = link
        self._end: Unavailable | None = None
        self._mutex = threading.Lock()

    @property
    def opened(self) -> wire.Opened:
        return self._link.opened

    def send(self, request: LinkRequest) -> int:
        self._check()
        if self._linker.happens(0.03):
            self.cut()  # it has not arrived
        self._check()
        with self._ending():
            id = self._link.send(request)
        if self._linker.happens(0.03):
            self.cut()  # it has arrived, or will
        self._check()
        return id

    def receive(self, timeout: float | None = None) -> Message | None:
        while True:
            self._check()
            with self._ending():
                message = self._link.receive(_LOOK_SECONDS if timeout is None else timeout)
            if message is not None and self._linker.happens(0.05):
                self.cut()  # it is lost
            self._check()
            if message is not None or timeout is not None:
                return message

    def cut(self) -> None:
        """End it for its client; the other side goes on."""
        with self._mutex:
            is_first, self._end = self._end is None, self._end or ended("back", "the line was cut")
        if is_first:
            self._linker.left(self, self._link)

    def close(self) -> None:
        with self._mutex:
            is_first, self._end = self._end is None, self._end or ended("stop", "it was closed")
        if is_first:
            self._linker.closed(self)
            self._link.close()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Raise what has ended this link, also when the one below ends after it."""
        try:
            yield
        except Unavailable:
            self._check()
            raise

    def _check(self) -> None:
        if self._end is not None:
            raise self._end


_LOOK_SECONDS = 0.005
