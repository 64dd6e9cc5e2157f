"""Settings in the file rote.toml. Pure: the command line reads the file."""

from rote.settings.environments import Environment, read_environment
from rote.settings.hosts import HostSettings, read_host
from rote.settings.toml import FILE_NAME

__all__ = ["FILE_NAME", "Environment", "HostSettings", "read_environment", "read_host"]
