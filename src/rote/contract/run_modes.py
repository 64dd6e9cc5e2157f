"""Modes of runs, by name: a mode decides what a run may read and write."""

from typing import Literal

Mode = Literal["off", "read_only", "buffered_write", "live_read_write"]
LIVE: Mode = "live_read_write"  # the only one that is never deterministic
