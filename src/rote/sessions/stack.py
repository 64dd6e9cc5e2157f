"""The stack: own commits over the confirmed state, and what verdicts and steps do to them.

    made ──> waiting ──> accepted ──> integrated        a step shows it: it leaves the stack
                 └────> rejected                         it leaves with all that have seen it, at once

A commit that has seen a rejected one is dead before the store says so. It keeps its local, which has to
be decided: what was not sent goes as `abandon`. Nothing here waits or asks; the caller holds a lock.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from rote.contract import Head, View
from rote.contract.verdicts import Verdict
from rote.errors import (
    DependencyRejected,
    InternalError,
    LimitExceeded,
    RoteError,
    Unavailable,
    Withdrawn,
)
from rote.sessions.events import Events
from rote.sessions.layers import Fetch, Fold, Layer
from rote.sessions.pending import Fate, Pending
from rote.values.session_limits import SESSION_PENDING_BYTES_MAX, SESSION_PENDING_MAX


class Laid(Struct, frozen=True):
    """A commit in its place."""

    layer: Layer
    fate: Fate  # it may be that of another commit later, when this one is rejected

    @property
    def branch(self) -> str:
        return self.layer.sent.branch


class Stack:
    """The own commits of a session that are not integrated."""

    def __init__(self, head: Head, *, events: Events, fetch: Callable[[View], Fetch]) -> None:
        """head   the confirmed state
        fetch  returns what reads the entities of a view
        """
        self.head = head
        self.made = 0  # the last local
        self.decided = 0  # the last local that has a verdict
        self._events = events
        self._fetch = fetch
        self._waiting: dict[int, Laid] = {}  # for a verdict, dead ones too
        self._accepted: dict[int, tuple[Laid, int]] = {}  # with their versions
        self._size_bytes = 0  # of those that wait
        # Versions of verdicts that the desk keeps, as far as a commit may have to name them.
        self._window: deque[int] = deque()
        self._rejected: list[Fate] = []
        self._newly_dead: list[int] = []
        self._folds: dict[str, Fold] = {}  # by branch

    def restore(
        self,
        head: Head,
        decided: int,
        window: list[int],
        fates: list[tuple[Fate, int | None]],
    ) -> None:
        """Begin with commits from before, each with its version if it was accepted.

        window  versions of verdicts that may have to be named
        """
        self.head, self.decided, self.made = head, decided, decided
        self._window.extend(window)
        for fate, version in fates:
            laid = Laid(fate.layer, fate)
            local = laid.layer.local
            if version is not None:
                fate.accept(version, None)
                self._accepted[local] = laid, version
                continue
            self.made = local
            self._waiting[local] = laid
            self._size_bytes += laid.layer.size_bytes
            if laid.layer.is_dead:
                fate.reject(Withdrawn("it was rejected before this session was opened again"))

    # -- looking -----------------------------------------------------------------------------------

    def fold(self, branch: str) -> Fold:
        """Return the layers of a branch over the confirmed state."""
        fold = self._folds.get(branch)
        if fold is None:
            layers = [laid.layer for laid in self._laid() if laid.branch == branch]
            fetch = self._fetch(View(branch, self.head.version))
            fold = self._folds[branch] = Fold(fetch, layers)
        return fold

    def _laid(self) -> list[Laid]:
        """Return the commits that are laid over the confirmed state, in local order."""
        return [*(laid for laid, _ in self._accepted.values()), *self._undecided()]

    def _undecided(self) -> list[Laid]:
        return [laid for laid in self._waiting.values() if not laid.layer.is_dead]

    def pending(self) -> tuple[Pending, ...]:
        return tuple([laid.fate.pending for laid in self._laid()])

    def waiting(self, local: int) -> Laid | None:
        """Return a commit without a verdict, dead or not."""
        return self._waiting.get(local)

    def is_settled(self, until: int) -> bool:
        """Whether all commits up to a local are decided, and integrated if they were accepted; also those
        that were made for them again."""
        laid = (*self._waiting.values(), *(laid for laid, _ in self._accepted.values()))
        return all(each.fate.first > until for each in laid)

    def basis(self) -> int:
        """Return the lowest version that a commit to be sent has seen."""
        return min((laid.layer.sent.basis for laid in self._undecided()), default=self.head.version)

    # -- writing -----------------------------------------------------------------------------------

    def check_room(self, size_bytes: int, basis: int) -> None:
        """Raise LimitExceeded when there is no room for one more commit.

        Commits that are decided count as long as one to come may name them: the desk keeps so many
        verdicts, and would decide nothing while it has no room.

        basis  the lowest version that a later commit may have seen
        """
        while self._window and self._window[0] < basis:
            self._window.popleft()
        commits = len(self._waiting) + len(self._window) + 1
        for what, size, limit in (
            ("the number of undecided commits", commits, SESSION_PENDING_MAX),
            (
                "the size of undecided commits in bytes",
                self._size_bytes + size_bytes,
                SESSION_PENDING_BYTES_MAX,
            ),
        ):
            if size > limit:
                raise LimitExceeded(
                    what,
                    size=size,
                    limit=limit,
                    advice="wait until some are decided, and end open transactions",
                )

    def push(self, fate: Fate) -> None:
        """Lay a commit over all others."""
        laid = Laid(fate.layer, fate)
        self.made = laid.layer.local
        self._waiting[self.made] = laid
        self._size_bytes += laid.layer.size_bytes
        if laid.branch in self._folds:
            self._folds[laid.branch].add(laid.layer)

    # -- what the store says -----------------------------------------------------------------------

    def decide(self, verdict: Verdict) -> Laid | None:
        """Take over the verdict on the next commit, and return it; None for one that is known already."""
        local = verdict.local
        if local <= self.decided:
            return None
        laid = self._waiting.get(local)
        if local != self.decided + 1 or laid is None:
            raise Unavailable(f"the verdict on commit {local} is not the one that was awaited")
        if verdict.accepted and laid.layer.is_dead:
            raise InternalError(f"commit {local} was accepted, though it had seen a rejected one")
        self.decided = local
        self._window.append(verdict.version)
        if not verdict.accepted:
            self.reject(local, _error_of(verdict), verdict.version)
        del self._waiting[local]
        self._size_bytes -= laid.layer.size_bytes
        if verdict.accepted:
            laid.fate.accept(verdict.version, verdict.commit)
            self._accepted[local] = laid, verdict.version
            self._events.add("committed", local=local, version=verdict.version)
            self._integrate()
        return laid

    def step(self, head: Head) -> None:
        """Move the confirmed state; own commits in it leave the stack in the same instant."""
        self.head = head
        self._folds = {}
        self._integrate()

    def _integrate(self) -> None:
        """Take the accepted commits off the stack that the confirmed state shows."""
        for local, (laid, version) in list(self._accepted.items()):
            if version <= self.head.version:
                del self._accepted[local]
                laid.fate.status = "integrated"
                self._folds.pop(laid.branch, None)
                self._events.add("integrated", local=local, version=version)

    def reject(self, local: int, error: BaseException, version: int) -> None:
        """Take a commit off the stack, and all that have seen it, also through others.

        version  of the space when it was decided
        """
        if self._waiting[local].layer.is_dead:
            return
        dead: dict[int, BaseException] = {local: error}
        for later, laid in self._waiting.items():
            seen = [name for name in laid.layer.names if name in dead]
            if seen and not laid.layer.is_dead:
                dead[later] = DependencyRejected(min(seen))
        for each, reason in dead.items():
            laid = self._waiting[each]
            laid.layer.is_dead = True
            self._newly_dead.append(each)
            laid.fate.reject(reason)
            if laid.fate.status == "rejected":
                self._rejected.append(laid.fate)
            self._folds.pop(laid.branch, None)
            self._events.add("reverted", local=each, version=version, error=reason)

    def take_dead(self) -> list[int]:
        """Return the commits that have died since the last call."""
        taken, self._newly_dead = self._newly_dead, []
        return taken

    def take_rejected(self) -> list[Fate]:
        """Return the commits that were rejected for good since the last call."""
        taken, self._rejected = self._rejected, []
        return taken

    def lose(self, error: BaseException) -> bool:
        """Give up the commits without a verdict: nobody here will know what becomes of them. Return whether
        there are any."""
        lost = self._undecided()
        for laid in lost:
            laid.fate.lose(error)
        self._waiting, self._folds = {}, {}
        self._size_bytes = 0
        return bool(lost)


def _error_of(verdict: Verdict) -> RoteError:
    return RoteError.from_dict(verdict.error or {})
