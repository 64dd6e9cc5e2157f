"""Profiles: the adapters that a workflow may use. Each profile has all of the one before."""

from typing import Any

from rote.errors import InvalidInput
from rote.values.names import told

_LEVELS = {
    "minimal": ("frame",),
    "compute-and-store": ("cache", "memory", "store", "sqlite", "fs"),
    "network-restricted": ("queue",),
    "operator-controlled": ("agent",),
}
ADAPTERS = tuple(name for names in _LEVELS.values() for name in names)
PROFILES = tuple(_LEVELS)


def adapters_of(profile: str) -> tuple[str, ...]:
    """Return the adapters of a profile."""
    levels = PROFILES[: PROFILES.index(profile) + 1]
    return tuple(name for level in levels for name in _LEVELS[level])


def check_profile(profile: object) -> str:
    """Return the profile of that name."""
    name = plain(profile)
    if name not in PROFILES:
        raise InvalidInput(
            f"there is no profile {profile!r:.80}; {told(PROFILES)}", code="unknown_profile"
        )
    return name


def plain(name: Any) -> str:
    """Return the name of a profile, an adapter or a verb as it is compared; "" for what is no text."""
    return name.strip().lower() if isinstance(name, str) else ""
