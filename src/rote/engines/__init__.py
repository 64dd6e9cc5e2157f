"""Where bytes live. Only the kernel sees an engine."""

from rote.engines.abandoning import Abandoning
from rote.engines.protocol import Contended, Engine, OutcomeUnknown, Reader, Writer

__all__ = ["Abandoning", "Contended", "Engine", "OutcomeUnknown", "Reader", "Writer"]
