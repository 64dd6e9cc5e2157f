"""Every order of what can happen to two clients with two commits each, and one loss, keeps the invariants.

The model is searched through; its states are counted, so that nobody makes it smaller unawares.
"""

from itertools import product
from typing import Any

import pytest

from tests.properties.session_model import (
    Commit,
    Line,
    Lives,
    Model,
    Session,
    State,
    Violation,
)

# Whether the commits of each client read what they write.
LIVES: list[Lives] = list(product(product((False, True), repeat=2), repeat=2))
BOTH, ONE = (True, True), (True,)
# Lives, the number of losses, and the number of states.
SMALL: dict[str, tuple[Lives, int, int]] = {
    "one client, a loss": ((BOTH,), 1, 586),
    "one client, two losses": ((BOTH,), 2, 5_562),
    "two clients, a loss": ((ONE, ONE), 1, 4_412),
    "two clients, three commits": ((BOTH, ONE), 0, 4_404),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_order_of_a_few_commits_is_decided_rightly(name: str) -> None:
    lives, losses, states = SMALL[name]
    assert Model(lives, faults=losses).search() == states


@pytest.mark.slow
@pytest.mark.parametrize("lives", LIVES, ids=str)
def test_every_order_of_two_clients_with_two_commits_and_a_loss(lives: Lives) -> None:
    assert Model(lives, faults=1).search() > 700_000


# -- planted bugs ----------------------------------------------------------------------------------


class ForgettingClient(Model):
    """Leave out the newest own commit that was seen."""

    def _named(self, layers: tuple[int, ...]) -> tuple[int, ...]:
        return layers[:-1]


class ForgettingDesk(Model):
    """Forget what is said of own commits."""

    def _layers(self, commit: Commit) -> tuple[int, ...] | None:
        return None if commit.layers is None else ()


class LateVerdicts(Model):
    """Send steps without a look at verdicts."""

    def _urgent(self, state: State) -> State | None:
        return None

    def _may_step(self, state: State, session: Session, line: Line) -> bool:
        return self._is_due(state, line) and self._is_ours(session, line)


class ApplyingTwice(Model):
    """Decide what was decided."""

    def _is_known(self, session: Session, local: int) -> bool:
        return False


class LosingAcknowledgements(Model):
    """Forget what the client says that it keeps."""

    def _acknowledge(self, session: Session, local: int) -> Session:
        return session


class TakingStaleTokens(Model):
    """Open by any token that was ever given."""

    def _is_good(self, session: Session, token: int) -> bool:
        return True


class FormerHolders(Model):
    """Let a holder before go on."""

    def _is_ours(self, session: Session, line: Line) -> bool:
        return line.opening > 0


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        (ForgettingClient, "as the log says"),
        (ForgettingDesk, "as the log says"),
        (LateVerdicts, "before its verdict"),
        (ApplyingTwice, "verdict has changed"),
        (LosingAcknowledgements, "acknowledgement was lost"),
        (TakingStaleTokens, "stale token"),
        (FormerHolders, "holder before has decided"),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_the_search_finds_a_planted_bug(planted: Any, expected: str) -> None:
    with pytest.raises(Violation, match=expected):
        for lives, losses, _ in SMALL.values():
            planted(lives, faults=losses).search()
