"""The spaces of a store: names, dids and keys. Also the handlers of commands to the whole store.

Names that begin with `rote.` are the library's own. A caller that is a part of the library sees these
spaces alone, and every other caller is refused them, by name and by did.
"""

import threading
from typing import Any

from rote.contract import Caller, SpaceInfo, SpacePage, Times
from rote.contract.commands import AdoptSpace, FindSpace, GetTimes, ListSpaces
from rote.engines import check_writable
from rote.engines.rows import ERASED_SPACE, STORE, SpaceRow
from rote.errors import Corrupt, Denied, InvalidInput, NotFound
from rote.kernel.log.branch_rows import main_row
from rote.kernel.log.page_sizes import page_size
from rote.kernel.log.seals import space_seal
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.wiring import Wiring
from rote.values import Identity, check_did, check_space_name, decode_canonical
from rote.values.limits import SPACE_PREFIX_RESERVED

SEED_BYTES = 32


class Spaces:
    """Find and make spaces; keep each open once it was asked for."""

    def __init__(self, wiring: Wiring, *, seed: bytes | None) -> None:
        self.wiring = wiring
        self._seed = seed  # for the next space that is made
        self.opened: dict[str, OpenSpace] = {}
        self.reserved: dict[str, OpenSpace] = {}  # those that are opened of the library's own
        self._mutex = threading.Lock()

    def find(self, name: str, *, create: bool, is_library: bool = False) -> SpaceInfo:
        by_did = str(name).startswith("did:")
        if by_did:
            check_did(name)
        else:
            check_space_name(name)
            _check_reserved(name, name, is_library)
        row = self.wiring.engine.space(name)
        if row is None:
            if by_did:
                self.check_not_erased(name)
            if by_did or not create:
                self._check_all(name)
                raise NotFound(f"there is no space {name!r} in this store", space=name)
            row = self._make(name)
        _check_reserved(row.name, name, is_library)
        return self._known(row)

    def _check_all(self, name: str) -> None:
        """Raise Corrupt when a space may be missing because its row, or the way to it, is damaged."""
        for row in self.wiring.engine.spaces():
            _check(row)
            if name in (row.name, row.did):
                raise Corrupt(f"the space {name!r} is not found where it is; run `rote verify`")

    def open(self, did: str, *, is_library: bool = False) -> OpenSpace:
        opened = self.reserved if is_library else self.opened
        space = opened.get(did)
        if space is None:
            space = opened[self.find(did, create=False, is_library=is_library).did]
        return space

    def adopt(self, did: str, name: str, seed: bytes | None) -> SpaceInfo:
        """Find or make the space of a did that another store has made; its key, if given, is kept first."""
        check_did(did)
        check_space_name(name)
        _check_reserved(name, name, False)
        check_writable(self.wiring.engine)
        self.check_not_erased(did)
        is_new_key = seed is not None and self.wiring.keys.load(did) is None
        if seed is not None and is_new_key:
            if Identity.from_seed(seed).did != did:
                raise InvalidInput("the given key is not that of the space")
            self.wiring.keys.save(did, seed)
        found = self.wiring.engine.space(did)
        if found is not None:
            _check_reserved(found.name, did, False)
            return self._known(found)
        row = self.wiring.engine.create_space(
            did=did, name=name, seal=space_seal(did, name), main=main_row(did)
        )
        if row.did != did:
            if is_new_key:
                self.wiring.keys.discard(did)
            raise InvalidInput(
                f"the store has another space named {name!r} ({row.did}); copy to another store",
                space=did,
                name=name,
            )
        return self._known(row)

    def check_not_erased(self, did: str) -> None:
        """Raise NotFound for a space that was erased here: it does not come back."""
        row = self.wiring.engine.reader().side(STORE, ERASED_SPACE, did)
        if row is not None:
            told: Any = decode_canonical(row.body)
            raise NotFound(
                f"the space {did} was erased at {told['at']}: {told['reason']}",
                space=did,
                erased=told,
            )

    def forget(self, did: str) -> None:
        """Let go of a space that was erased."""
        with self._mutex:
            self.opened.pop(did, None)

    def seed(self, did: str) -> bytes:
        identity = self.wiring.keys.load(did)
        if identity is None:
            raise Denied(
                f"the key of {did} is not in {self.wiring.keys.place}; put its file there, or copy"
                " without the key",
                space=did,
            )
        return identity.seed()

    def _known(self, row: SpaceRow) -> SpaceInfo:
        opened = self.reserved if _is_reserved(row.name) else self.opened
        with self._mutex:
            if row.did not in opened:
                if self.wiring.engine.read_only is not None:
                    _check(row)
                opened[row.did] = OpenSpace(row, self.wiring)
        return SpaceInfo(row.did, row.name)

    def _make(self, name: str) -> SpaceRow:
        """Make a space. Its key is kept before the space exists, so that no space is without one."""
        check_writable(self.wiring.engine)
        seed = self._seed if self._seed is not None else self.wiring.random_bytes(SEED_BYTES)
        did = Identity.from_seed(seed).did
        self.check_not_erased(did)
        is_new = self.wiring.keys.load(did) is None
        if is_new:
            self.wiring.keys.save(did, seed)
        row = self.wiring.engine.create_space(
            did=did, name=name, seal=space_seal(did, name), main=main_row(did)
        )
        # After an error the key stays, because the space may exist. Here another process has made
        # the space first, so the key is not needed.
        if is_new and row.did != did:
            self.wiring.keys.discard(did)
        if row.did == did and row.name != name:
            raise InvalidInput(f"the given key is already that of the space {row.name!r}")
        self._seed = None
        return row


def _is_reserved(name: str) -> bool:
    return name.startswith(SPACE_PREFIX_RESERVED)


def _check_reserved(name: str, asked: str, is_library: bool) -> None:
    """Raise Denied for a space that is not of the caller's kind; `asked` is how it was asked for."""
    if _is_reserved(name) != is_library:
        raise Denied(
            f"the space {asked!r} is not yours to open: names that begin with"
            f" {SPACE_PREFIX_RESERVED!r}, and no others, are Rote's own; take another name",
            code="reserved_name",
            space=asked,
        )


def _check(row: SpaceRow) -> None:
    if row.seal != space_seal(row.did, row.name):
        raise Corrupt(f"the row of the space {row.name!r} was changed; run `rote verify`")


def get_times(spaces: Spaces, command: GetTimes) -> Times:
    shared_now = spaces.wiring.shared_now() if command.shared else None
    return Times(spaces.wiring.now(), shared_now)


def list_spaces(spaces: Spaces, command: ListSpaces, caller: Caller) -> SpacePage:
    limit, after = page_size(command.limit), command.after
    engine = spaces.wiring.engine
    rows = engine.leased_spaces() if command.leased else engine.spaces()
    if engine.read_only is not None:
        for row in rows:
            _check(row)
    infos = [
        SpaceInfo(row.did, row.name)
        for row in rows
        if _is_reserved(row.name) == caller.is_library and (after is None or row.name > after)
    ]
    page = tuple(infos[:limit])
    return SpacePage(page, page[-1].name if len(infos) > limit else None)


def find_space(spaces: Spaces, command: FindSpace, caller: Caller) -> SpaceInfo:
    return spaces.find(command.name, create=command.create, is_library=caller.is_library)


def adopt_space(spaces: Spaces, command: AdoptSpace) -> SpaceInfo:
    return spaces.adopt(command.did, command.name, seed=None)
