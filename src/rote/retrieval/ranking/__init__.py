"""Ranking: the memories that answer best, by words. Frozen as `lexical-1`."""
