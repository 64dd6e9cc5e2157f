"""Tools that break a store on purpose: disks that fail, processes that are killed, connections cut.

They ship to users because a promise about crashes is worth as much as its test, and because the
author of an engine has to keep the same promise. kill -9 alone cannot test durability, since the
page cache outlives the process. `FaultDisk` shows what a disk holds after a power cut.
"""

from rote.testing.faults.child import ChildProcess, run_until_killed
from rote.testing.faults.disk import FaultDisk
from rote.testing.faults.platter import Keep
from rote.testing.faults.proxy import Cut, Proxy
from rote.testing.faults.trigger import FAULT_KINDS, Fault, FaultKind, Operation, every_fault

__all__ = [
    "FAULT_KINDS",
    "ChildProcess",
    "Cut",
    "Fault",
    "FaultDisk",
    "FaultKind",
    "Keep",
    "Operation",
    "Proxy",
    "every_fault",
    "run_until_killed",
]
