"""Is it still what was written? The passes of verify."""
