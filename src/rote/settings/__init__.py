"""Settings that a file holds: rote.toml. Pure; who reads the file is the command line."""

from rote.settings.environments import FILE_NAME, Environment, read_environment

__all__ = ["FILE_NAME", "Environment", "read_environment"]
