"""Retrieval: the same token-budgeted context package for the same question, with a hash over it."""

from rote.retrieval.package import receipt
from rote.retrieval.retrieving import explain, retrieve
from rote.retrieval.scoring import Reasons

__all__ = ["Reasons", "explain", "receipt", "retrieve"]
