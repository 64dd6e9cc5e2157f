"""Vectors of files' texts, kept beside their corpora in a directory that the caller names.

A file (kept_files.py) has one block: the SHA-256 of each text and its vector (contract/vectors.py). It
is named after the embedder and the path of the store.
"""

import os
from collections.abc import Iterator

from rote.contract.vectors import is_vector, join_rows, split_rows
from rote.errors import Corrupt
from rote.retrieval.kept_files import KeptFiles
from rote.retrieval.vector_cache import Vectors
from rote.values import sha256_hex
from rote.values.limits import SIDECARS_BYTES_MAX, SIDECARS_MAX

_MAGIC = b"rote-vectors-2\n"


class VectorFiles:
    """The vectors in a directory; the files that were used last are kept."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        size_bytes_max: int = SIDECARS_BYTES_MAX,
        count_max: int = SIDECARS_MAX,
    ) -> None:
        self._files = KeptFiles(
            folder,
            magic=_MAGIC,
            suffix=".vectors",
            size_bytes_max=size_bytes_max,
            count_max=count_max,
        )

    def get(self, key: str, dimension: int) -> Vectors:
        """Return the vectors under a key; none unless the file is sound."""

        def read(blocks: Iterator[bytes]) -> Vectors:
            found = dict(split_rows(b"".join(blocks), dimension))
            if not all(is_vector(each, dimension) for each in found.values()):
                raise Corrupt("the file holds what is no vector; delete the cache")
            return found

        return self._files.get(_name(key), read) or {}

    def keep(self, key: str, vectors: Vectors | None) -> None:
        """Keep vectors under a key, as those that were used last; None for those that are there."""
        if vectors is None:
            self._files.use(_name(key))
        else:
            self._files.put(_name(key), (join_rows(vectors),))


def _name(key: str) -> str:
    return sha256_hex(key.encode())
