"""Lower limits, so that little data shows what only much data does otherwise."""

import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import rote.kernel
import rote.retrieval

# Packed indexes take in changes by twos and threes, and have large segments of a few rows.
SMALL_SEGMENTS = {
    "PACKED_PENDING_MAX": 3, "PACKED_PENDING_BYTES_MAX": 2_000, "SEGMENT_SMALL_ROWS": 8,
    "SEGMENT_MERGE_ROWS": 16, "SEGMENT_SMALL_MAX": 4,
}  # fmt: skip
# Every change is a segment of its own, and every other one is merged.
TINY_SEGMENTS = {
    "PACKED_PENDING_MAX": 1, "PACKED_PENDING_BYTES_MAX": 1, "SEGMENT_SMALL_ROWS": 3,
    "SEGMENT_MERGE_ROWS": 4, "SEGMENT_SMALL_MAX": 2, "SEGMENT_ANSWER_BYTES_MAX": 500,
    "SEGMENTS_READ_AT_ONCE": 1,
}  # fmt: skip


def lower_limits(patch: pytest.MonkeyPatch, limits: dict[str, int]) -> None:
    """Set limits in every module of the library that has taken them in."""
    # A module that is imported later would keep a lowered limit for good.
    for package in (rote.kernel, rote.retrieval):
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(found.name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "rote":
            for limit, value in limits.items():
                if hasattr(module, limit):
                    patch.setattr(module, limit, value)
