"""Check that no file names a package index or a path of one machine: clones work anywhere.

python -m tools.foreign_places .
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Each pattern is written in two halves, so that this file passes its own check.
ADDRESS = re.compile("index" + "-url|find" + "-links|pypi" + r"\.org|python" + "hosted")
PATH = re.compile(r"(?<![\w.~*-])/(?:wo" + "rk|ro" + "ot|home/[a-z]+)/")
LINK = re.compile("://")

NOT_OURS = re.compile(r"^(\.git|\.venv.*|\..*_cache|\.hypothesis|__pycache__|dist|build)$")


def main(folder: str) -> int:
    faults = [fault for path in files_under(Path(folder)) for fault in faults_in(path)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def files_under(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not NOT_OURS.match(name))
        yield from (Path(parent, name) for name in sorted(names) if name != ".git")


def faults_in(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    patterns = {"a package index": ADDRESS, "a path of one machine": PATH}
    if path.suffix == ".lock":
        patterns["an address"] = LINK
    for number, line in enumerate(text.splitlines(), start=1):
        for what, pattern in patterns.items():
            if pattern.search(line):
                yield f"{path}:{number}: names {what}: {line.strip()[:80]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
