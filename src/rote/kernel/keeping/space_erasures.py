"""Erasing a whole space: everything of it goes, and one row of the store tells that it was there.

    1  one transaction, under the lock: all rows of the space go; the store gets the row that tells of
       it, signed by the key of the space, and a note that files and key are still to be cleaned
    2  the key is discarded, `Engine.scrub` removes copies in the files, and the note is deleted

After a crash between the two, the next `erase_space` by did, or any `erase` or `gc`, does step 2.
Frozen: the row, docs/formats/chain.md.
"""

from collections.abc import Iterator
from typing import Any

from rote.contract import Caller, SpaceErasure
from rote.contract.commands import EraseSpace
from rote.engines import Abandoning, Reader
from rote.engines.rows import ERASED_SPACE, STORE, SideRecord
from rote.errors import Busy, Corrupt, InvalidInput, Unavailable
from rote.kernel.log.seals import SCRUB, side_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceWriter
from rote.kernel.state.spaces import Spaces
from rote.kernel.state.wiring import Wiring
from rote.values import Identity, canonical, check_reason, decode_canonical, format_time
from rote.values.limits import PAGE_MAX

KIND = "erased_space/1"
# The bytes before the statement that is signed.
_PREFIX = b"rote erased_space/1\0"


def erase_space(spaces: Spaces, command: EraseSpace, caller: Caller) -> SpaceErasure:
    """Erase a space, or finish what an earlier call began."""
    check_reason(command.reason)
    if type(command.confirm) is not str or command.confirm != command.space:
        raise InvalidInput(
            "confirm names the space once more, exactly as before: it is erased for good",
            argument="confirm",
        )
    wiring = spaces.wiring
    told = _left_over(wiring, command.space)
    if told is None:
        space = spaces.open(spaces.find(command.space, create=False).did)
        told = _drop(space, command.reason, caller)
        spaces.forget(space.did)
        wiring.open_store.forget(space.did)
    try:
        remaining = (*_discard_key(wiring, told["did"]), *_finish(wiring))
    except Unavailable as error:
        is_busy = isinstance(error, Busy)
        raise (Busy if is_busy else Unavailable)(
            f"the space {told['did']} is erased, but copies may be left in the store's files:"
            f" {error}; erase it by its did once more, or run `rote gc` on any space, to finish",
            space=told["did"],
        ) from error
    return SpaceErasure(told["did"], told["version"], told["head"], told["at"], remaining)


def _left_over(wiring: Wiring, did: Any) -> dict[str, Any] | None:
    """Return the row of a space that was erased and whose files or key were not cleaned yet."""
    if type(did) is not str or not did.startswith("did:"):
        return None
    reads = wiring.engine.reader()
    if reads.side(STORE, SCRUB, did) is None:
        return None
    row = reads.side(STORE, ERASED_SPACE, did)
    told: dict[str, Any] | None = None if row is None else decode_canonical(row.body)
    return told


def _drop(space: OpenSpace, reason: str, caller: Caller) -> dict[str, Any]:
    """Drop all rows of a space in one transaction; return the row that tells of it."""
    engine, now, identity = space.engine, space.wiring.now(), _signer(space.wiring, space.did)
    engine.check_usable()
    with Abandoning(engine), engine.writer(space.number) as rows:
        head = SpaceWriter(space, rows).sync()
        told: dict[str, Any] = {
            "kind": KIND,
            "did": space.did,
            "version": 0 if head is None else head.version,
            "head": None if head is None else head.hash.hex(),
            "at": format_time(now if head is None else max(now, head.at)),
            "author": caller.author,
            "reason": reason,
        }
        signature = None if identity is None else identity.sign(_PREFIX + canonical(told)).hex()
        told["signature"] = signature
        rows.drop_space(
            space.number,
            left=[
                # The number is not given to another space: processes may still hold it.
                side_record(space.did, ERASED_SPACE, space.did, space.number, canonical(told)),
                side_record(
                    space.did, SCRUB, space.did, 1, canonical({"version": told["version"]})
                ),
            ],
        )
    return told


def _signer(wiring: Wiring, did: str) -> Identity | None:
    try:
        return wiring.keys.load(did)
    except (Unavailable, Corrupt):
        return None  # it is reported when it cannot be discarded


def _discard_key(wiring: Wiring, did: str) -> tuple[str, ...]:
    """Remove the key of a space; return where it may be left."""
    keys = wiring.keys
    try:
        is_here = keys.load(did) is not None
    except (Unavailable, Corrupt):
        is_here = True
    if not is_here:
        return (f"the private key of {did}, which is not in {keys.place}",)
    try:
        keys.discard(did)
    except Unavailable as error:
        return (f"the private key of {did}: {error}",)
    return ()


def _finish(wiring: Wiring) -> tuple[str, ...]:
    notes = list(store_notes(wiring.engine.reader()))
    scrubbed = wiring.engine.scrub(payloads=True)
    if scrubbed.is_whole:
        drop_store_notes(wiring, notes)
    return scrubbed.remaining


def store_notes(reads: Reader) -> Iterator[SideRecord]:
    """Yield the notes that files or keys of erased spaces are still to be cleaned."""
    after = (SCRUB, "")
    while rows := reads.sides(STORE, SCRUB, after=after, limit=PAGE_MAX):
        yield from rows
        after = (SCRUB, rows[-1].key)


def drop_store_notes(wiring: Wiring, notes: list[SideRecord]) -> None:
    """Delete notes after a scrub, and with them the keys that a crash has left."""
    for note in notes:
        _discard_key(wiring, note.key)
        wiring.engine.drop_store_row(SCRUB, note.key)
