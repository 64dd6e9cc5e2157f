"""The kernel: the log of each space, its rules and its proofs. It implements contract.Port on an engine."""

from rote.kernel.kernel import Kernel

__all__ = ["Kernel"]
