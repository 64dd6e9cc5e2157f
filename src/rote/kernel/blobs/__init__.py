"""Bytes of a space, and what refers to them."""
