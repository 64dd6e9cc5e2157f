"""The only place that wires: URL -> kernel and engine, system clock and randomness."""

from rote.opening.engines import Location, locate
from rote.opening.opening import open

__all__ = ["Location", "locate", "open"]
