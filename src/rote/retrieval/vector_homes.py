"""Homes of vectors: where those of a store's texts are kept, so that no text is embedded twice."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from msgspec import Struct

from rote.errors import Denied
from rote.retrieval.corpus import Corpus
from rote.retrieval.embedders import Embedding
from rote.retrieval.ranking.vectors import numbers_of
from rote.retrieval.vector_cache import VECTORS, SpaceVectors, Vectors
from rote.retrieval.vector_files import VectorFiles
from rote.space import Space
from rote.values import sha256_hex
from rote.values.limits import EMBEDDED_AT_ONCE, VECTORS_AT_ONCE_MAX

Tell = Callable[[int, int], None]  # of texts: how many have their vector, and how many there are


class Home(Protocol):
    """Keeps the vectors of one embedder for one store. Hashes are the SHA-256 of texts."""

    def get(self, hashes: Iterable[bytes], /) -> dict[bytes, bytes]:
        """Return those vectors that are there."""
        ...

    def put(self, made: Vectors, /) -> Vectors:
        """Add vectors, and return those that count: one that is there already stays."""
        ...

    def keep(self, known: Vectors, held: Collection[bytes], /) -> None:
        """Keep vectors for the next question, and forget those of texts that the store does not hold."""
        ...


class Embedded(Struct, frozen=True):
    """An embedder, and the homes of its vectors by the names of stores."""

    embedding: Embedding
    homes: Mapping[str, Home]

    def shown(self, query_vector: bytes) -> dict[str, Any]:
        """Return the embedder as a package names it."""
        digest = sha256_hex(numbers_of(query_vector))
        return {**self.embedding.shown, "query_vector": digest}


def vectors_of(
    embedding: Embedding,
    home: Home,
    texts: Mapping[bytes, str],
    held: Collection[bytes],
    tell: Tell = lambda done, total: None,
) -> dict[bytes, bytes]:
    """Return the vectors of texts by their hashes; those that are missing are made, some at a time.

    `held` are the hashes of all texts in the store.
    """
    known = home.get(texts)
    try:
        missing = iter([hash for hash in texts if hash not in known])
        while batch := list(islice(missing, EMBEDDED_AT_ONCE)):
            tell(len(known), len(texts))
            made = embedding.vectors([texts[hash] for hash in batch])
            known.update(home.put(dict(zip(batch, made, strict=True))))
    finally:
        home.keep(known, held)  # also of the texts before the one at which an embedder failed
    tell(len(known), len(texts))
    return known


_HASHES: WeakKeyDictionary[Corpus, Sequence[bytes]] = WeakKeyDictionary()


def hashes_of(corpus: Corpus) -> Sequence[bytes]:
    """Return the hash of each row's text; they are remembered as long as the corpus is."""
    found = _HASHES.get(corpus)
    if found is None:
        texts = islice(corpus.texts, corpus.row_count)
        found = _HASHES[corpus] = [hash_of(text) for text in texts]
    return found


def hash_of(text: str) -> bytes:
    return sha256(text.encode()).digest()


class ProcessHome:
    """The home for texts whose vectors only the process keeps."""

    def __init__(self, place: Hashable, embedding: Embedding) -> None:
        """Name the vectors of a file or a space, which are the same in all its states."""
        self._place = place
        self._dimension = embedding.dimension

    def get(self, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        vectors = self._kept()
        return {hash: vectors[hash] for hash in hashes if hash in vectors}

    def put(self, made: Vectors) -> Vectors:
        return made

    def keep(self, known: Vectors, held: Collection[bytes]) -> None:
        self._keep(known, frozenset(held))

    def _kept(self) -> Vectors:
        return VECTORS.get(self._place)

    def _keep(self, known: Vectors, held: frozenset[bytes]) -> Vectors | None:
        """Return the vectors that are kept now; None when nothing is different."""
        before = self._kept()
        if before.keys() <= held and known.keys() <= before.keys():
            return None
        after = {hash: each for hash, each in {**before, **known}.items() if hash in held}
        VECTORS.put(self._place, after, self._is_right)
        return after

    def _is_right(self) -> bool:
        """Whether nothing was erased since the texts were read."""
        return True


class SpaceHome(ProcessHome):
    """The home for the texts of a space: the space itself, and the process before it."""

    def __init__(self, space: Space, embedding: Embedding) -> None:
        """Make it before the texts are read: what is erased from now on keeps no vector."""
        store, did = space.open_store, space.did
        super().__init__(SpaceVectors(store, did, embedding.vectors_name), embedding)
        store.register(VECTORS.forget)
        self._count = store.count(did)
        self._space = space
        self._name = embedding.vectors_name
        self._since = space.newest_version

    def get(self, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        wanted = list(hashes)
        found = super().get(wanted)
        missing = iter([hash for hash in wanted if hash not in found])
        while some := list(islice(missing, VECTORS_AT_ONCE_MAX)):
            found |= self._space.get_vectors(self._name, some)
        return found

    def put(self, made: Vectors) -> Vectors:
        try:
            return {**made, **self._put(made)}
        except Denied as error:
            if "read_only" not in error.details:
                raise
            return made  # nothing can be stored here

    def _is_right(self) -> bool:
        return self._space.open_store.count(self._space.did) == self._count

    def store(self, known: Vectors) -> bool:
        """Store all of these that are not stored yet; return False if an erasure came between."""
        rest = iter(known)
        while some := list(islice(rest, VECTORS_AT_ONCE_MAX)):
            stored = self._space.get_vectors(self._name, some)
            missing = {hash: known[hash] for hash in some if hash not in stored}
            if missing and len(self._put(missing)) < len(missing):
                return False
        return True

    def _put(self, made: Vectors) -> Vectors:
        """Return those that are stored afterwards.

        Another process may have stored its own first, and all have to use the same.
        """
        self._space.put_vectors(self._name, made, since=self._since)
        return self._space.get_vectors(self._name, list(made))


class FileHome(ProcessHome):
    """The home for the texts of a file: the process, and a directory that the caller names."""

    def __init__(self, path: str, embedding: Embedding, files: VectorFiles) -> None:
        super().__init__((path, embedding.vectors_name), embedding)
        self._key = f"{embedding.vectors_name}\n{path}"
        self._files = files

    def keep(self, known: Vectors, held: Collection[bytes]) -> None:
        self._files.keep(self._key, self._keep(known, frozenset(held)))

    def _kept(self) -> Vectors:
        kept = super()._kept()
        if not kept:
            kept = self._files.get(self._key, self._dimension)
            VECTORS.put(self._place, kept)
        return kept
