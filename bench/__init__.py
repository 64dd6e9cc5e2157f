"""Benchmarks: what Rote costs on top of the raw engine. Run `python -m bench`; see docs/benchmarks.md."""
