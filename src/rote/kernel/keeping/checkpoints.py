"""Checkpoints: signed statements of a space's version and head, for people who keep them elsewhere.

Frozen: docs/formats/checkpoint.md.
"""

from typing import Any

from rote.contract import CHECKPOINT, UNDECIDED, Fault, KeyRing
from rote.contract.commands import MakeCheckpoint
from rote.engines import Abandoning
from rote.engines.rows import HeadRow
from rote.errors import Denied, InvalidInput
from rote.kernel.log.seals import side_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import Identity, canonical, format_time, verify_signature

KIND = "checkpoint/1"
SIDE = CHECKPOINT
_PREFIX = b"rote checkpoint/1\0"
_MEMBERS = frozenset({"kind", "space", "version", "head", "at", "state", "prior", "signature"})


def make_checkpoint(space: OpenSpace, _: MakeCheckpoint) -> dict[str, Any]:
    """Sign the head as it is now, and keep a copy beside the log."""
    now, identity = space.wiring.now(), signer(space, space.wiring.keys)
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        checkpoint = sign(space.did, identity, writes.sync(), now=now)
        key = f"{checkpoint['version']:020d}"
        earlier = writes.rows.side(writes.number, SIDE, key)
        fence = 1 if earlier is None else earlier.fence + 1
        row = side_record(space.did, SIDE, key, fence, canonical(checkpoint))
        writes.rows.put_side(writes.number, row)
    return checkpoint


def signer(space: OpenSpace, keys: KeyRing) -> Identity:
    identity = keys.load(space.did)
    if identity is None:
        space.reader().sync()  # NotFound when the space was erased, and its key with it
        raise Denied(
            f"the key of space {space.name!r} is not in {keys.place}; put its file there to sign",
            space=space.did,
        )
    return identity


def sign(
    did: str,
    identity: Identity,
    head: HeadRow | None,
    *,
    now: int,
    state: str | None = None,
    prior: str | None = None,
) -> dict[str, Any]:
    """Return a signed statement of a commit and, with `state`, of all that is left up to it."""
    body = {
        "kind": KIND,
        "space": did,
        "version": 0 if head is None else head.version,
        "head": None if head is None else head.hash.hex(),
        "at": format_time(now if head is None else max(now, head.at)),
        "state": state,
        "prior": prior,
    }
    return {**body, "signature": identity.sign(_PREFIX + canonical(body)).hex()}


def check_shape(checkpoint: Any) -> dict[str, Any]:
    """Return a checkpoint that came from outside; InvalidInput when it has not the form of one."""
    if type(checkpoint) is not dict or checkpoint.keys() != _MEMBERS:
        raise InvalidInput(
            "a checkpoint is the object that checkpoint() returned, with all its members"
        )
    if checkpoint["kind"] != KIND:
        raise InvalidInput(f"a checkpoint has the kind {KIND!r}")
    if type(checkpoint["version"]) is not int or checkpoint["version"] < 0:
        raise InvalidInput("a checkpoint's version is an integer from 0 on")
    canonical(checkpoint)
    return checkpoint


def faults_against(reads: SpaceReader, checkpoint: dict[str, Any], *, oldest: int) -> list[Fault]:
    """Return the faults of a log that does not extend the checkpoint; none when it does."""
    version = checkpoint["version"]

    def fault(message: str) -> list[Fault]:
        return [Fault("checkpoint", version, None, message)]

    if checkpoint["space"] != reads.space.did:
        return fault(f"it is of the space {checkpoint['space']}, not of {reads.space.did}")
    if not _is_signed(checkpoint):
        return fault("its signature is not of the space's key")
    if 0 < version < oldest - 1:
        # The commit at the horizon names the hash of the one before it; older hashes are gone.
        message = (
            f"cannot say whether the log extends it: history before version {oldest} was compacted"
        )
        return [Fault(UNDECIDED, version, None, message)]
    rows = reads.rows.commits(reads.number, after=version - 1, limit=1) if version else []
    if version and not rows:
        return fault("the log ends before it: commits were cut off")
    actual = rows[0].hash.hex() if rows and rows[0].version == version else None
    if checkpoint["head"] != actual:
        return fault("the log holds another commit there: history was rewritten")
    return []


def faults_of_horizon(
    reads: SpaceReader, checkpoint: dict[str, Any], *, before: int, state: str
) -> list[str]:
    """Return the faults of a compaction's checkpoint; `state` is the digest of what is left."""
    checkpoint = check_shape(checkpoint)
    rows = reads.rows.commits(reads.number, after=before - 1, limit=1)
    head = rows[0].hash.hex() if rows and rows[0].version == before else None
    found = []
    if checkpoint["space"] != reads.space.did or not _is_signed(checkpoint):
        found.append("its checkpoint is not signed by the space's key")
    if (checkpoint["version"], checkpoint["head"]) != (before, head):
        found.append("its checkpoint is not of the first commit that is left")
    if checkpoint["state"] != state:
        found.append("what is left is not what its checkpoint states")
    return found


def _is_signed(checkpoint: dict[str, Any]) -> bool:
    body = {name: member for name, member in checkpoint.items() if name != "signature"}
    try:
        signature = bytes.fromhex(checkpoint["signature"])
    except (TypeError, ValueError):
        return False
    return verify_signature(checkpoint["space"], _PREFIX + canonical(body), signature)
