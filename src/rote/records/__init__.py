"""The memory contract on top of a space: records with metadata, filters and retention."""

from rote.records.index import RECORDS
from rote.records.memory import Memory

__all__ = ["RECORDS", "Memory"]
