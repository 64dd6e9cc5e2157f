"""Small and lawful: erasures, compactions, garbage collection, checkpoints."""
