"""The suite that every engine must pass: one file per noun of the Engine protocol."""

from rote.testing.engine_suite.suite import EngineSuite, SharedEngineSuite

__all__ = ["EngineSuite", "SharedEngineSuite"]
