"""Where bytes live. Only the kernel sees an engine."""

from rote.engines.protocol import Contended, Engine, OutcomeUnknown, Reader, Writer

__all__ = ["Contended", "Engine", "OutcomeUnknown", "Reader", "Writer"]
