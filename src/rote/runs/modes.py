"""Modes: the right of a run to read and write, and which modes are enabled.

off               reads refused             writes refused
read_only         at the start snapshot     refused
buffered_write    at the start snapshot     kept back, applied at the end
live_read_write   current                   at once; never deterministic
"""

from collections.abc import Iterable
from typing import Any, get_args

from rote.contract.run_modes import Mode
from rote.errors import Denied, InvalidInput

OFF: Mode = "off"
READ_ONLY: Mode = "read_only"
BUFFERED: Mode = "buffered_write"
MODES: tuple[Mode, ...] = get_args(Mode)
MODES_DEFAULT: tuple[Mode, ...] = (OFF, READ_ONLY)

# What must still hold when a run commits: the answers that it got, the entities that they showed,
# or of these only those that it also writes.
ANSWERS, ENTITIES, WRITES = VALIDATIONS = ("answers", "entities", "writes")


def check_modes(modes: Any) -> frozenset[str]:
    """The modes that are enabled."""
    if modes is None:
        return frozenset(MODES_DEFAULT)
    if isinstance(modes, str) or not isinstance(modes, Iterable):
        raise InvalidInput(f"modes are a list of {', '.join(MODES)}", argument="modes")
    named = list(modes)
    for mode in named:
        if mode not in MODES:
            raise InvalidInput(
                f"{mode!r:.80} is no mode of runs; there are {', '.join(MODES)}", argument="modes"
            )
    return frozenset(named)


def check_mode(mode: Any, enabled: frozenset[str]) -> Mode:
    if mode not in MODES:
        raise InvalidInput(
            f"{mode!r:.80} is no mode of runs; there are {', '.join(MODES)}", argument="mode"
        )
    if mode not in enabled:
        shown = ", ".join(name for name in MODES if name in enabled) or "none"
        raise Denied(
            f"runs in mode {mode} are not enabled here (enabled: {shown}); name it in the setting"
            " `modes` of rote.open (of rote.toml, where the command line or a server opens the store)",
            setting="modes",
            mode=mode,
        )
    checked: Mode = mode
    return checked


def check_validation(validate: Any) -> None:
    if validate not in VALIDATIONS:
        raise InvalidInput(f"validate is one of {', '.join(VALIDATIONS)}", argument="validate")
