"""The cost of starting: processor time of an import, against that of the libraries below it.

Both sides load compiled bytecode, as installed programs do.
"""

import os
import subprocess
import sys
from functools import partial

from bench.harness import Benchmark, Effort, Measure, Result, compare_times

_RAW = "import apsw, orjson, msgspec, nacl"
# The time is taken inside, so that starting the interpreter itself counts on neither side.
_PROGRAM = """
import time
start = time.process_time()
{work}
print(time.process_time() - start)
"""


def imports(effort: Effort, *, work: str) -> Result:
    count = effort.count(5, 1)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(effort.folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    turns = [partial(_turn, program, environment) for program in (_RAW, work)]
    for turn in turns:
        turn(1)  # writes the bytecode
    return compare_times(effort, *(partial(turn, count) for turn in turns))


def _turn(work: str, environment: dict[str, str], count: int) -> Measure:
    program = [sys.executable, "-c", _PROGRAM.format(work=work)]
    outputs = [subprocess.check_output(program, text=True, env=environment) for _ in range(count)]
    return Measure(count, sum(map(float, outputs)))


BENCHMARKS = [
    Benchmark(
        "import/rote", "import rote", 0.5, 0.25, partial(imports, work="import rote"), "at most"
    ),
    Benchmark(
        "import/open",
        "import rote and load what opens a store",
        3,
        2,
        partial(imports, work="import rote; rote.open"),
        "at most",
    ),
]
