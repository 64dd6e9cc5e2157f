"""What is said about blobs: how one is put, what is known of it, what a collection did."""

from typing import Protocol

from msgspec import Struct, to_builtins

from rote.values import Json


class ByteStream(Protocol):
    """Anything that bytes can be read from, like a file opened with "rb"."""

    def read(self, size: int, /) -> bytes: ...


class BlobInfo(Struct, frozen=True, gc=False):
    """What is known of a blob without reading it."""

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
    """A blob that there is, by name and size."""

    hash: str
    size: int


class GcReport(Struct, frozen=True):
    """What a garbage collection let go."""

    blobs: int  # payloads that nothing referred to
    uploads: int  # that were never finished
    size_bytes: int  # of both
    kept: int  # payloads that are there afterwards
    snapshots: int  # of small documents, that later ones have superseded
    erasures: int  # that could not be finished when they were made, and now are
    is_shrunk: bool = False  # whether the store's files were written anew, which makes them smaller

    def to_dict(self) -> dict[str, Json]:
        builtins: dict[str, Json] = to_builtins(self)
        return builtins
