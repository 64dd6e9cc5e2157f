"""The passes of verify, which prove that a store still holds what was written."""
