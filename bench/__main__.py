"""python -m bench [ONLY] [--json] [--rounds N] [--quick]"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.status import Status

from bench import (
    branches,
    calls,
    commits,
    differences,
    erasing,
    history,
    imports,
    jsonl,
    loops,
    opening,
    postgres,
    postgres_spaces,
    queries,
    queues,
    reads,
    recall,
    records,
    retrieval,
    runs,
    sandboxes,
    search,
    server,
    sessions,
    tiers,
    traces,
    values,
)
from bench.harness import Benchmark, Effort, Row
from bench.table import report_of, table_of

BENCHMARKS = [
    *commits.BENCHMARKS,
    *reads.BENCHMARKS,
    *history.BENCHMARKS,
    *branches.BENCHMARKS,
    *records.BENCHMARKS,
    *erasing.BENCHMARKS,
    *retrieval.BENCHMARKS,
    *recall.BENCHMARKS,
    *search.BENCHMARKS,
    *queries.BENCHMARKS,
    *jsonl.BENCHMARKS,
    *runs.BENCHMARKS,
    *calls.BENCHMARKS,
    *loops.BENCHMARKS,
    *tiers.BENCHMARKS,
    *sandboxes.BENCHMARKS,
    *queues.BENCHMARKS,
    *traces.BENCHMARKS,
    *values.BENCHMARKS,
    *differences.BENCHMARKS,
    *imports.BENCHMARKS,
    *opening.BENCHMARKS,
    *postgres.BENCHMARKS,
    *postgres_spaces.BENCHMARKS,
    *server.BENCHMARKS,
    *sessions.BENCHMARKS,
]
ROUNDS = 9
ROUNDS_QUICK = 2
WIDTH_IN_FILES = 140


def main(
    only: Annotated[str, typer.Argument(help="how the names to run begin: commit, read/warm")] = "",
    json: Annotated[bool, typer.Option("--json", help="print the rows for programs")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, max=39, help="turns of each side")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="only see that it works")] = False,
) -> None:
    """Measure Rote against raw engine work; exits with 1 when a floor is missed."""
    chosen = [benchmark for benchmark in BENCHMARKS if benchmark.name.startswith(only)]
    if not chosen:
        names = ", ".join(benchmark.name for benchmark in BENCHMARKS)
        raise typer.BadParameter(f"no name begins with {only!r}; there are {names}")
    rounds = rounds or (ROUNDS_QUICK if quick else ROUNDS)
    progress = Console(stderr=True)
    with progress.status("") as status:
        rows = [_measure(benchmark, rounds, quick, status) for benchmark in chosen]
    if json:
        report = report_of(rows, rounds=rounds, quick=quick)
        print(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH_IN_FILES).print(table_of(rows))
    raise typer.Exit(0 if all(row.ok for row in rows) else 1)


def _measure(benchmark: Benchmark, rounds: int, quick: bool, status: Status) -> Row:
    def report(doing: str, left: int) -> None:
        status.update(f"{benchmark.name}: {doing}, {left} rounds to go")

    # The system's folder for temporary files must be on a real disk for the rows with fsync.
    with tempfile.TemporaryDirectory(prefix="rote-bench-") as folder:
        effort = Effort(Path(folder), rounds, quick, report)
        row = Row(benchmark, benchmark.run(effort))
    verdict = "ok" if row.ok else "MISS"
    status.console.print(f"{verdict:<5}{benchmark.name}: {row.result.ratio:.2f}")
    return row


if __name__ == "__main__":
    typer.run(main)
