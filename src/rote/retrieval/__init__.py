"""Retrieval: the same token-budgeted context package for the same question, with a hash over it."""

from rote.retrieval.package import receipt
from rote.retrieval.retrieving import retrieve

__all__ = ["receipt", "retrieve"]
