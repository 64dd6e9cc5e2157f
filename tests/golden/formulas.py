"""The hashes of docs/formats/chain.md, computed without Rote: rfc8785, hashlib and Ed25519 alone.

A story is the history of one space: the calls, their times, and the facts they made. `completed`
adds every salt, parent and hash, so a story in a golden file can be checked against the formulas
and a store against the story.
"""

from hashlib import sha256
from typing import Any

import rfc8785
from nacl.signing import SigningKey

Story = dict[str, Any]

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def completed(story: Story) -> Story:
    """Return the story with its did, hashes and checkpoint, from its inputs alone."""
    space = did_of(bytes.fromhex(story["seed"]))
    salts = iter(story["salts"])
    salt_of: dict[str, str] = {}
    newest: dict[str, str] = {}
    commits: list[dict[str, Any]] = []
    for version, told in enumerate(story["commits"], start=1):
        facts = []
        for fact in told["facts"]:
            id = fact["id"]
            salt = salt_of.get(id) or salt_of.setdefault(id, next(salts))
            parent = newest.get(id) or digest({"kind": "empty/1", "id": id})
            newest[id] = fact_hash(id, fact["op"], fact["body"], salt=salt, parent=parent)
            inputs = {"id": id, "op": fact["op"], "body": fact["body"]}
            facts.append({**inputs, "salt": salt, "parent": parent, "hash": newest[id]})
        hash = digest(
            {
                "kind": "commit/1",
                "space": space,
                "version": version,
                "branch": "main",
                "previous": commits[-1]["hash"] if commits else None,
                "facts": [fact["hash"] for fact in facts],
                "at": told["at"],
                "author": story["author"],
                "key": told["request"].get("key"),
                "meta": digest(told["request"]["meta"]) if "meta" in told["request"] else None,
                "event": None,
            }
        )
        commits.append({**told, "facts": facts, "hash": hash})
    assert next(salts, None) is None, "the story has more salts than new entities"
    checkpoint = signed_checkpoint(story, space, len(commits), commits[-1]["hash"])
    return {**story, "did": space, "commits": commits, "checkpoint": checkpoint}


def digest(value: Any) -> str:
    return sha256(rfc8785.dumps(value)).hexdigest()


def fact_hash(id: str, op: str, body: Any, *, salt: str, parent: str) -> str:
    salted = sha256(bytes.fromhex(salt) + rfc8785.dumps(body)).hexdigest()
    covered = None if op == "delete" else salted
    return digest({"kind": "fact/1", "id": id, "op": op, "body": covered, "parent": parent})


def signed_checkpoint(story: Story, space: str, version: int, head: str) -> dict[str, Any]:
    body = {
        "kind": "checkpoint/1",
        "space": space,
        "version": version,
        "head": head,
        "at": story["checkpoint_at"],
        "state": None,
        "prior": None,
    }
    key = SigningKey(bytes.fromhex(story["seed"]))
    signed = key.sign(b"rote checkpoint/1\0" + rfc8785.dumps(body))
    return {**body, "signature": signed.signature.hex()}


def did_of(seed: bytes) -> str:
    """Return did:key:z + base58 of 0xed 0x01 and the public key."""
    number = int.from_bytes(b"\xed\x01" + bytes(SigningKey(seed).verify_key), "big")
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = _BASE58[digit] + text
    return "did:key:z" + text
