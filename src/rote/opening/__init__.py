"""Opening a store: the only place that wires a kernel, an engine, the system clock and randomness."""

from rote.opening.engines import Location, locate
from rote.opening.opening import open, open_as_allowed

__all__ = ["Location", "locate", "open", "open_as_allowed"]
