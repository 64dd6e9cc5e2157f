"""`make check`: every rule that can be checked without running the code, one line each.

All steps run, also after a failure, so that one run shows every fault.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
TREES = [name for name in ("src", "tests", "bench", "tools", "examples") if (ROOT / name).is_dir()]


@dataclass(frozen=True, slots=True)
class Step:
    """One rule: the command that checks it, and the way to mend a fault."""

    name: str
    command: list[str]
    fix: str


STEPS = [
    Step("format", [str(BIN / "ruff"), "format", "--check", "--quiet", *TREES], "make format"),
    Step(
        "lint",
        [str(BIN / "ruff"), "check", "--quiet", *TREES],
        "make format mends what it can; a banned call's message says what to use",
    ),
    Step("types", [str(BIN / "mypy"), *TREES], "give the named lines the types they need"),
    Step(
        "imports",
        [str(BIN / "lint-imports"), "--no-cache"],
        "imports go down only: move the code to the layer that owns it (ARCHITECTURE.md)",
    ),
    Step(
        "sizes",
        [sys.executable, "-m", "tools.size_caps", *TREES],
        "split by noun: a file holds one, a function does one thing",
    ),
    Step(
        "language",
        [sys.executable, "-m", "tools.language", *TREES],
        "begin a docstring with a verb or the noun it returns; one whole sentence on each line of a page",
    ),
    Step(
        "places",
        [sys.executable, "-m", "tools.foreign_places", "."],
        "remove the address or path, or make it relative to the repository",
    ),
]


def main() -> int:
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = pool.map(run, STEPS)
        failed = sum(not report(*result) for result in results)
    return 1 if failed else 0


def run(step: Step) -> tuple[Step, int, str, float]:
    start = time.monotonic()
    process = subprocess.run(
        step.command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return step, process.returncode, process.stdout, time.monotonic() - start


def report(step: Step, code: int, output: str, seconds: float) -> bool:
    if code == 0:
        print(f"ok      {step.name:<8} {seconds:5.1f} s", flush=True)
        return True
    print(output.rstrip())
    print(f"FAILED  {step.name:<8} {seconds:5.1f} s  fix: {step.fix}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
