"""Retrieval: the same token-budgeted context package for the same question, with a hash over it."""

from rote.retrieval.approximate import Answer, ApproximateBackend, Filter, Hit
from rote.retrieval.embedders import Embedder
from rote.retrieval.package import receipt
from rote.retrieval.prompts import package_text
from rote.retrieval.ranking.excerpts import TokenCounter
from rote.retrieval.retrieving import explain, retrieve
from rote.retrieval.scoring import Reasons
from rote.retrieval.spaces import memory_line, memory_lines

__all__ = [
    "Answer",
    "ApproximateBackend",
    "Embedder",
    "Filter",
    "Hit",
    "Reasons",
    "TokenCounter",
    "explain",
    "memory_line",
    "memory_lines",
    "package_text",
    "receipt",
    "retrieve",
]
