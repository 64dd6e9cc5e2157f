"""Changes of documents: JSON pointers, patches and their effects. Pure functions."""

from rote.patch import threeway
from rote.patch.apply import apply, replay
from rote.patch.diff import diff
from rote.patch.operations import Operation, encode_operations, normalize
from rote.patch.overlap import overlaps, written_paths
from rote.patch.pointer import find, format_pointer, parse_pointer

__all__ = [
    "Operation",
    "apply",
    "diff",
    "encode_operations",
    "find",
    "format_pointer",
    "normalize",
    "overlaps",
    "parse_pointer",
    "replay",
    "threeway",
    "written_paths",
]
