"""rote.open: from a URL to a store. The only place that knows which parts make one."""

import os
from pathlib import Path

from rote.contract import Clock, IdSource, KeyRing
from rote.engines.sqlite import SqliteEngine
from rote.errors import InvalidInput, Unavailable
from rote.kernel import Kernel
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.opening.sources import SystemClock, SystemIds, SystemTokens
from rote.space import Store
from rote.space.arguments import check_path
from rote.values import Identity, check_author


def open(
    url: str | os.PathLike[str],
    *,
    durability: str = "fsync",
    author: str | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    create: bool = True,
    key: bytes | None = None,
) -> Store:
    """Open a store: a path, ":memory:" or "sqlite:///path".

    durability  "fsync": an answered commit survives a power cut. "os": it survives a crash of the
                process; a power cut may take the last moments, never more and never a part.
    author      noted in every commit
    clock, ids  where time and randomness come from; the system's when left out
    create      make the file and its spaces on first use; otherwise they must be there
    key         32 bytes: the seed of the next space that is made
    """
    url = str(check_path(url)) if isinstance(url, os.PathLike) else url
    path = _path(url)
    if clock is not None and not callable(getattr(clock, "now", None)):
        raise InvalidInput("a clock has a method now() that returns an aware datetime")
    if ids is not None and not callable(getattr(ids, "random_bytes", None)):
        raise InvalidInput("ids have a method random_bytes(size)")
    if key is not None:
        Identity.from_seed(key)
    if author is not None:
        check_author(author)
    engine = SqliteEngine(path, durability=durability, create=create)
    keys: KeyRing = (
        MemoryKeys() if path is None else FolderKeys(path.with_name(path.name + ".keys"))
    )
    kernel = Kernel(
        engine,
        clock=clock or SystemClock(),
        ids=ids or SystemIds(),
        tokens=SystemTokens(),
        keys=keys,
        author=author,
        seed=key,
    )
    return Store(kernel, url=url, create=create)


def _path(url: object) -> Path | None:
    """The file a URL names; None for memory."""
    if not isinstance(url, str) or not url:
        raise InvalidInput("name a store: a path, :memory:, or sqlite:///path")
    if url in (":memory:", "sqlite://:memory:", "sqlite:///:memory:"):
        return None
    scheme, separator, rest = url.partition("://")
    if not separator:
        return check_path(url).absolute()
    if scheme == "sqlite":
        # sqlite:///relative and sqlite:////absolute
        if not rest.startswith("/") or rest == "/":
            raise InvalidInput("a SQLite URL looks like sqlite:///folder/file.db")
        return check_path(rest[1:]).absolute()
    if scheme in ("http", "https", "postgresql", "postgres"):
        raise Unavailable(f"this Rote cannot open {scheme} stores yet; use a file", scheme=scheme)
    raise InvalidInput(f"unknown kind of store {scheme}://; use a path or sqlite:///path")
