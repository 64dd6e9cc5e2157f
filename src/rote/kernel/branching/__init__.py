"""Branches, their merges and their differences."""
