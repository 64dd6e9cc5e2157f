"""Blobs of a space, their data, and the values that refer to them."""
