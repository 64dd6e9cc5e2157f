"""The hashes of the contract, written from its text: dictionaries through rote.digest, no kernel."""

from hashlib import sha256

from rote.contract import Commit, Fact
from rote.values import canonical, digest


def empty_reference(id: str) -> str:
    return digest({"kind": "empty/1", "id": id})


def fact_hash(fact: Fact) -> str:
    body = None
    if fact.op != "delete":
        assert fact.salt is not None
        body = sha256(bytes.fromhex(fact.salt) + canonical(fact.body)).hexdigest()
    return digest(
        {"kind": "fact/1", "id": fact.id, "op": fact.op, "body": body, "parent": fact.parent}
    )


def commit_hash(did: str, commit: Commit) -> str:
    return digest(
        {
            "kind": "commit/1",
            "space": did,
            "version": commit.version,
            "branch": commit.branch,
            "previous": commit.previous,
            "facts": [fact.hash for fact in commit.facts],
            "at": commit.at,
            "author": commit.author,
            "key": commit.key,
            "meta": None if commit.meta is None else digest(commit.meta),
            "event": commit.event,
        }
    )


def check_chain(did: str, commits: list[Commit]) -> None:
    """Check every hash and link of a log that begins with version 1."""
    previous: Commit | None = None
    forks: dict[str, tuple[str, int]] = {}
    facts: dict[tuple[str, str], list[Fact]] = {}
    salts: dict[str, str | None] = {}
    erased: set[str | None] = set()  # salts that are not used again
    for commit in commits:
        if commit.event is not None and commit.event["type"] == "branch.create":
            forks[commit.branch] = (commit.event["parent"], commit.event["fork_version"])
        if commit.event is not None and commit.event["type"] == "erase":
            for id in commit.event.get("ids") or [commit.event["id"]]:
                erased.add(salts.pop(id))
        assert commit.version == (1 if previous is None else previous.version + 1)
        assert commit.previous == (None if previous is None else previous.hash)
        assert previous is None or previous.at <= commit.at
        for index, fact in enumerate(commit.facts):
            before = _before(forks, facts, commit.branch, fact.id)
            assert fact.index == index
            assert (fact.version, fact.commit) == (commit.version, commit.hash)
            assert fact.parent == (empty_reference(fact.id) if before is None else before.hash)
            assert fact.salt == salts.setdefault(fact.id, fact.salt)
            assert fact.salt not in erased
            assert fact.hash == fact_hash(fact)
            facts.setdefault((commit.branch, fact.id), []).append(fact)
        assert commit.hash == commit_hash(did, commit)
        previous = commit


def _before(
    forks: dict[str, tuple[str, int]],
    facts: dict[tuple[str, str], list[Fact]],
    branch: str,
    id: str,
) -> Fact | None:
    """Return the newest fact of an entity on a branch's line."""
    cap = None
    while True:
        for fact in reversed(facts.get((branch, id), [])):
            if cap is None or fact.version <= cap:
                return fact
        if branch not in forks:
            return None
        branch, fork_version = forks[branch]
        cap = fork_version if cap is None else min(cap, fork_version)
