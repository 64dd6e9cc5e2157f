"""The cost of starting: processor time of an import, against that of the libraries below it."""

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
    return compare_times(effort, partial(_turn, _RAW, count), partial(_turn, work, count))


def _turn(work: str, count: int) -> Measure:
    program = [sys.executable, "-c", _PROGRAM.format(work=work)]
    outputs = [subprocess.check_output(program, text=True) for _ in range(count)]
    return Measure(count, sum(map(float, outputs)))


BENCHMARKS = [
    Benchmark("import/rote", "import rote", 3, 1, partial(imports, work="import rote"), "at most"),
    Benchmark(
        "import/open",
        "import rote and load what opens a store",
        6,
        4,
        partial(imports, work="import rote; rote.open"),
        "at most",
    ),
]
