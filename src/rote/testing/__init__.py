"""The parts that tests of Rote are made of; they ship so that users can test their own parts.

Suites, strategies and the machine are imported from their own modules, since they bring pytest and
hypothesis along: rote.testing.engine_suite, .space_suite, .strategies, .machine, .serial,
.faults, .trace_baselines.
"""

from rote.testing.clocks import FixedClock, SteppingClock
from rote.testing.encoded import Encoded
from rote.testing.sources import SeededIds
from rote.testing.stores import StoreSettings, open_on

__all__ = ["Encoded", "FixedClock", "SeededIds", "SteppingClock", "StoreSettings", "open_on"]
