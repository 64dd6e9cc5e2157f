"""Other sessions of the rows about sessions: python -m bench.session_children PORT TOKEN SPACE READ STALLED

READ sessions take every step and acknowledge it; STALLED acknowledge none. A line N of the standard input
is answered when every reader has N steps more than at the line before: by the microseconds that each of
them took, from the commit, which wrote the time, to the session that has it.
"""

import os
import selectors
import sys
from time import perf_counter
from typing import Any

from bench.wires import RawLine

WATCHES: Any = {"all": {"select": {"urn:watched:*": {}}}}


class Sessions:
    """The other sessions, and the line from the standard input that is to be answered."""

    def __init__(self, lines: list[RawLine], read: int) -> None:
        self._readers = lines[:read]
        self._selector = selectors.DefaultSelector()
        for line in lines:
            self._selector.register(line.socket, selectors.EVENT_READ, line)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._steps = dict.fromkeys(self._readers, 0)  # since the last line
        self._micros: list[float] = []
        self._waiting: set[RawLine] | None = None  # readers of which steps are awaited
        self._wanted = 0

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    asked = sys.stdin.readline()
                    if not asked:
                        return
                    self._wanted = int(asked)
                    self._waiting = {
                        line for line, steps in self._steps.items() if steps < self._wanted
                    }
                else:
                    self._take_in(key.data)
            if self._waiting is not None and not self._waiting:
                say(" ".join(f"{each:.0f}" for each in self._micros))
                self._steps = dict.fromkeys(self._readers, 0)
                self._micros, self._waiting = [], None

    def _take_in(self, line: RawLine) -> None:
        line.take_in()
        while (message := line.message()) is not None:
            if line in self._steps and message.startswith(b'{"type":"sync"'):
                self._take_step(line, message)
        if self._waiting is not None and self._steps.get(line, 0) >= self._wanted:
            self._waiting.discard(line)

    def _take_step(self, line: RawLine, message: bytes) -> None:
        now = perf_counter()
        line.tell(type="ack", to=int(message.partition(b'"to":')[2].partition(b",")[0]))
        self._steps[line] += 1
        made = float(message.partition(b'"value":')[2].partition(b",")[0])
        self._micros.append((now - made) * 1_000_000)


def main(port: int, token: str, space: str, read: int, stalled: int) -> None:
    lines = []
    for _ in range(read + stalled):
        lines.append(RawLine(port))
        lines[-1].open(space, token, WATCHES)
        lines[-1].next()  # the first step
    for line in lines[:read]:
        line.tell(type="ack", to=1)
    say("ready")
    Sessions(lines, read).run()
    os._exit(0)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    port_text, token_text, space_name, *counts = sys.argv[1:]
    main(int(port_text), token_text, space_name, *map(int, counts))
