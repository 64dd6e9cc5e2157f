"""The suite that every store must pass, embedded or remote: one file per noun of the contract."""

from rote.testing.space_suite.suite import SharedSpaceSuite, SpaceSuite

__all__ = ["SharedSpaceSuite", "SpaceSuite"]
