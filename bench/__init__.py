"""Benchmarks of Rote against the raw engine. Run `python -m bench`; see docs/benchmarks.md."""
