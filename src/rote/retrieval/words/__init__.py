"""The words of a text, as terms. Frozen as `words-1`: scores and packages depend on it."""
