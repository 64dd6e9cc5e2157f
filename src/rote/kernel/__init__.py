"""What happened: the log, its rules and its proofs. Implements contract.Port on an engine."""

from rote.kernel.kernel import Kernel

__all__ = ["Kernel"]
