"""Keeping a store small and lawful: erasures, compactions, garbage collection, checkpoints."""
