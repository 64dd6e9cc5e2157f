"""Settings in the file rote.toml. Pure: the command line reads the file."""

from rote.settings.environments import FILE_NAME, Environment, read_environment

__all__ = ["FILE_NAME", "Environment", "read_environment"]
