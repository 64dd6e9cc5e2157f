"""Runs: what an agent does from one snapshot of its memory on, and how it is told and repeated."""
