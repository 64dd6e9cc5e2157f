"""Values about blobs: a stream to read one from, the facts known of one, the report of a collection."""

from typing import Protocol

from msgspec import Struct, to_builtins

from rote.values import Json


class ByteStream(Protocol):
    """Anything that bytes can be read from, like a file opened with "rb"."""

    def read(self, size: int, /) -> bytes: ...


class BlobInfo(Struct, frozen=True, gc=False):
    """Hash, size, type and labels of a blob, known without reading its data."""

    hash: str  # SHA-256 of its bytes, hex
    size: int  # in bytes
    content_type: str
    labels: tuple[str, ...]

    def to_dict(self) -> dict[str, Json]:
        return {
            "hash": self.hash,
            "size": self.size,
            "content_type": self.content_type,
            "labels": list(self.labels),
        }


class BlobPart(Struct, frozen=True, gc=False):
    """Hash and size of a blob that the space has."""

    hash: str
    size: int


class GcReport(Struct, frozen=True):
    """Counts of everything that a garbage collection deleted."""

    blobs: int  # that nothing referred to
    uploads: int  # that were never finished
    size_bytes: int  # of both
    kept: int  # blobs that are stored afterwards
    snapshots: int  # of small documents, superseded by later ones
    erasures: int  # that an earlier call could not finish, and this one did
    is_shrunk: bool = False  # whether the store's files were written anew, which makes them smaller

    def to_dict(self) -> dict[str, Json]:
        builtins: dict[str, Json] = to_builtins(self)
        return builtins
