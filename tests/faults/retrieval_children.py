"""Retrievals in processes of their own: `python -m tests.faults.retrieval_children <what> …`.

Each prints one JSON document.
"""

import locale
import os
import sys
from pathlib import Path
from typing import Any

import rote
from rote.retrieval.cache import CORPORA
from rote.values import canonical, decode

# A path that does not exist, so that a trace of system calls shows where the work begins and ends.
BEGIN, END = "/begin-of-retrieval", "/end-of-retrieval"


def answer(folder: str, cache: str) -> Any:
    """Return the digest of the package of each case in a folder, in the order of their names."""
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        pass  # a locale that this machine does not have
    digests = []
    for root in sorted(Path(folder).iterdir()):
        request: Any = decode((root / "request.json").read_bytes())
        digests.append(rote.digest(dict(rote.retrieve(request, root=root, cache=cache or None))))
    return digests


def watch(root: str, cache: str) -> Any:
    """Return what the process asks of the system while it retrieves: cold, and from the sidecar."""
    request: Any = decode((Path(root) / "request.json").read_bytes())
    rote.retrieve(request, root=root, cache=Path(cache) / "before")  # imports what it needs
    CORPORA.forget(lambda place: True)
    events: list[list[str]] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching:
            events.append([event, *(os.fsdecode(a) for a in arguments if type(a) in (str, bytes))])

    sys.addaudithook(hook)
    Path(BEGIN).exists()
    rote.retrieve(request, root=root, cache=Path(cache) / "watched")
    CORPORA.forget(lambda place: True)
    rote.retrieve(request, root=root, cache=Path(cache) / "watched")
    Path(END).exists()
    watching = False
    return events


def tell(root: str, store: str) -> Any:
    """Return a package, whose receipt goes to the ledger of a store."""
    request: Any = decode((Path(root) / "request.json").read_bytes())
    with rote.open(store) as opened:
        return dict(rote.retrieve(request, root=root, store=opened))


def grow(root: str) -> Any:
    """Return the number of bytes by which this process grows at most, and the hash of the package."""
    request: Any = decode((Path(root) / "request.json").read_bytes())
    before = peak_bytes()
    package = rote.retrieve(request, root=root)
    return {"bytes": peak_bytes() - before, "package_hash": package["package_hash"]}


def append(path: str) -> Any:
    """Append each line of the standard input to a file, in one write."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with Path(path).open("ab", buffering=0) as file:
        for line in sys.stdin.buffer:
            file.write(line)
    return None


def peak_bytes() -> int:
    """Return the most memory that this process has held."""
    fields = Path("/proc/self/status").read_text().splitlines()
    (line,) = [field for field in fields if field.startswith("VmHWM:")]
    return int(line.split()[1]) * 1_024


if __name__ == "__main__":
    work = {each.__name__: each for each in (answer, watch, tell, grow, append)}[sys.argv[1]]
    sys.stdout.buffer.write(canonical(work(*sys.argv[2:])))
