"""The lock of a session: threads wait until something has changed, and a bell rings for a task."""

import threading
from collections.abc import Callable

Check = Callable[[], bool]
Ring = Callable[[], None]


class Changed(threading.Condition):
    """A condition that also tells those who wait on no thread."""

    def __init__(self) -> None:
        super().__init__()
        self._bells: dict[object, tuple[Check, Ring]] = {}

    def listen(self, is_true: Check, ring: Ring) -> Callable[[], None]:
        """Have a function called once, when something becomes true from now on; return what ends that.

        Both are called on any thread, which holds this condition: they wait for nothing. Neither does
        this, nor what it returns: no lock is taken, so that an event loop may call them.
        """
        bell = object()
        self._bells[bell] = is_true, ring

        def leave() -> None:
            self._bells.pop(bell, None)

        return leave

    def notify_all(self) -> None:
        super().notify_all()
        for bell, (is_true, ring) in self._bells.copy().items():
            if is_true() and self._bells.pop(bell, None) is not None:
                ring()
