"""Memories of one clock beside a folder of files, for tests of exports and imports."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import rote
from rote.bridges import write_export
from rote.testing.clocks import FixedClock


class Ground:
    """Memories of one clock, and a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = FixedClock()
        self._stores: list[rote.Store] = []
        self.memory = self.empty()

    def empty(self, **more: Any) -> rote.Memory:
        store = rote.open(":memory:", clock=self.clock)
        self._stores.append(store)
        return rote.Memory(store.space("x"), **more)

    def write(self, texts: Mapping[str, str | bytes]) -> None:
        for name, text in texts.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def close(self) -> None:
        for store in self._stores:
            store.close()


def exported(memory: rote.Memory) -> bytes:
    stream = BytesIO()
    write_export(memory, stream)
    return stream.getvalue()
