"""Which words does a text hold? Frozen as `words-1`: scores and packages depend on it."""
