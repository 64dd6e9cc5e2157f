"""Runs: what an agent does from one snapshot of its memory on, and how it is told and repeated."""

from rote.runs.calls import Effects
from rote.runs.ledger import RunRecord
from rote.runs.run import Run
from rote.runs.store_runs import StoreRuns

__all__ = ["Effects", "Run", "RunRecord", "StoreRuns"]
