"""What is known of an index: how far its rows reach, and what has changed since."""

from msgspec import UNSET, Struct, UnsetType

from rote.kernel.log.entries import Entry


class IndexChange(Struct, frozen=True, gc=False):
    """An entity after one commit, for the indexes."""

    version: int
    branch: int
    id: str
    entry: Entry
    # What the branch itself had of it before, None when nothing; UNSET where it was not looked up.
    before: Entry | UnsetType | None = UNSET


class Coverage(Struct, frozen=True, gc=False):
    noted: int  # its rows list everything up to this version, which stands in the store
    complete: int  # up to here it is known what has changed since
    pending: tuple[IndexChange, ...]  # that, as far as it concerns the index, oldest first
    erasures: int  # that this process had met by then; after another one all is looked up again


NOTHING = Coverage(0, 0, (), 0)
