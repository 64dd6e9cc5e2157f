"""The state of an open space that is held in memory between calls."""
