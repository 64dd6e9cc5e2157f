"""The processes of the tests of branches.

`python -m tests.faults.branch_children work <url> <worker>`. A call is a JSON list: the kind of
call, its key, its branch, and another branch. The last part of a key is the kind of call, so that a
test can follow the log.
"""

import itertools
import json
import sys
from random import Random

import rote
from rote.errors import InvalidInput
from tests.faults.children import NAME, say

IDS = tuple(f"urn:entity:{number}" for number in range(4))
STRATEGIES = ("ours", "theirs", "latest", "paths", "fail")
# The kinds of calls; each is made as often as it is named.
WHATS = ("write",) * 6 + ("create",) * 2 + ("delete",) + STRATEGIES
BRANCHES_MAX = 6

Call = tuple[str, str, str, str]  # what, key, branch, other


def choose(space: rote.Space, random: Random, place: str) -> Call:
    """Return a call that fits the branches that exist now."""
    branches = space.branches()
    alive = [branch.name for branch in branches if not branch.deleted]
    what = random.choice(WHATS)
    if what == "create" and len(alive) >= BRANCHES_MAX:
        what = "delete"
    target, other = random.choice(alive), random.choice(branches).name
    if what == "delete" and target == "main":
        what = "write"
    if what == "create":
        target, other = other, place.replace("/", "-")
    return what, f"{place}/{what}", target, other


def perform(space: rote.Space, call: Call) -> int:
    """Make the call; return the version of its commit, 0 when it made none."""
    what, key, branch, other = call
    on = space.on(branch)
    try:
        if what == "write":
            return on.transact(operations(key), key=key).version
        if what == "delete":
            return space.delete_branch(branch, key=key).version
        if what == "create":
            on.create_branch(other, key=key)
            return next(b.created_version for b in space.branches() if b.name == other)
        commit = on.merge(other, on_conflict=what, key=key).commit
        return 0 if commit is None else commit.version
    except InvalidInput as error:
        # Another worker was faster.
        assert "was deleted" in str(error), error
        return 0


def operations(key: str) -> list[dict[str, object]]:
    """Return a few values of a few entities, always the same, so that merges have something to decide."""
    random = Random(key)
    return [
        {"op": "set", "id": id, "value": {name: random.randrange(3) for name in ("x", "y")}}
        for id in random.sample(IDS, 2)
    ]


def work(url: str, worker: str) -> None:
    """Make calls for ever; print a line before each with the call, and one after it with the answer."""
    space, random = rote.open(url).space(NAME), Random(worker)
    for number in itertools.count(1):
        call = choose(space, random, f"{worker}/{number}")
        say("call", json.dumps(call))
        say("made", perform(space, call), call[1])


if __name__ == "__main__":
    work(*sys.argv[2:])
