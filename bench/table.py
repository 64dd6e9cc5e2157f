"""The rows of a run, for people and for programs."""

import platform
from collections.abc import Sequence
from typing import Any

import apsw
from rich.table import Table

from bench.harness import Row


def table_of(rows: Sequence[Row]) -> Table:
    table = Table(title="Rote against the raw engine", title_justify="left")
    table.add_column("operation", min_width=24)
    for name in ("raw", "rote", "ratio", "lowest, highest", "floor", "aim"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        benchmark, result = row.benchmark, row.result
        bound = "<=" if benchmark.direction == "at most" else ">="
        table.add_row(
            benchmark.operation,
            f"{result.raw:,.{result.decimals}f} {result.unit}",
            f"{result.rote:,.{result.decimals}f} {result.unit}",
            f"{result.ratio:.2f}",
            f"{result.low:.2f} {result.high:.2f}",
            f"{bound} {benchmark.floor:g}",
            f"{benchmark.aim:g}",
            "[green]ok[/]" if row.ok else "[bold red]MISS[/]",
        )
    return table


def report_of(rows: Sequence[Row], *, rounds: int, quick: bool) -> dict[str, Any]:
    """Return the report that --json prints."""
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "rounds": rounds,
        "quick": quick,
        "ok": all(row.ok for row in rows),
        "rows": [_row(row) for row in rows],
    }


def _row(row: Row) -> dict[str, Any]:
    benchmark, result = row.benchmark, row.result
    return {
        "name": benchmark.name,
        "operation": benchmark.operation,
        "unit": result.unit,
        "raw": result.raw,
        "rote": result.rote,
        "ratio": result.ratio,
        "ratio_low": result.low,
        "ratio_high": result.high,
        "direction": benchmark.direction,
        "floor": benchmark.floor,
        "aim": benchmark.aim,
        "ok": row.ok,
    }
