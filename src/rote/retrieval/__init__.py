"""Retrieval: the same token-budgeted context package for the same question, with a hash over it."""

from rote.retrieval.package import receipt
from rote.retrieval.retrieving import explain, retrieve
from rote.retrieval.scoring import Reasons
from rote.retrieval.spaces import memory_line

__all__ = ["Reasons", "explain", "memory_line", "receipt", "retrieve"]
