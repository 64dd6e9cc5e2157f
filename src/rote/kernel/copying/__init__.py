"""Copying a space from one store to another."""
