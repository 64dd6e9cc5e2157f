"""The log: its stored and hashed rows, and the one way to append to it."""
