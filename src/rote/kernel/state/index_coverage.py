"""The coverage of an index: the version up to which its rows are complete, and the changes since."""

from msgspec import UNSET, Struct, UnsetType

from rote.kernel.log.entries import Entry


class IndexChange(Struct, frozen=True, gc=False):
    """An entity after one commit, for the indexes."""

    version: int
    branch: int
    id: str
    entry: Entry
    # The entry that the branch itself had before, None when it had none; UNSET when not looked up.
    before: Entry | UnsetType | None = UNSET


class Coverage(Struct, frozen=True, gc=False):
    noted: int  # its rows are complete up to this version, as the store notes
    complete: int  # the changes above `noted` and up to this version are known
    pending: tuple[IndexChange, ...]  # those changes, under the prefix of the index, oldest first
    erasures: int  # that this process had met by then; after another one it is computed again


NOTHING = Coverage(0, 0, (), 0)
