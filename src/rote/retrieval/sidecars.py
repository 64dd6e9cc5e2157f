"""Sidecar files: corpora kept in a directory that the caller names, for the next process.

A block is JSON of some rows; or, in another file beside it, a segment of their terms in one language
(kept_files.py). A file is named after the hash of the content that its rows were made of, never after
a date.
"""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from operator import add
from typing import Annotated

import msgspec

from rote.contract import Packed
from rote.questions import NO_INSTANT
from rote.retrieval.corpus import Corpus
from rote.retrieval.details import Details
from rote.retrieval.kept_files import KeptFiles
from rote.retrieval.ranking.postings import Postings
from rote.retrieval.segments.files import packed_rows, unpacked
from rote.retrieval.words.analyser import ANALYSER
from rote.values import sha256_hex
from rote.values.limits import INTEGER_MAX, SIDECAR_BLOCK_BYTES, SIDECARS_BYTES_MAX, SIDECARS_MAX

_MAGIC = b"rote-corpus-3\n"
# Bytes that a row takes beside its texts.
_ROW_BYTES = 128


class _Block(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """Some rows of a corpus, column by column."""

    ids: list[str]
    hashes: list[Annotated[str, msgspec.Meta(min_length=64, max_length=64)]]
    instants: list[Annotated[int, msgspec.Meta(ge=NO_INSTANT, le=INTEGER_MAX)]]
    texts: list[str]
    tag_lists: list[tuple[str, ...]]  # each once
    tags: list[Annotated[int, msgspec.Meta(ge=0)]]  # the index of its tag list, for each row
    details: list[Details | None]
    invalid: list[tuple[str, str]]  # memory id, and hash of each text that is no record


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(_Block).decode
_encode_packed = msgspec.msgpack.encode
_decode_packed = msgspec.msgpack.Decoder(Packed).decode


class Sidecars:
    """The corpora in a directory; those that were used last are kept."""

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
            suffix=".corpus",
            size_bytes_max=size_bytes_max,
            count_max=count_max,
        )

    def get(self, key: str, path: str) -> Corpus | None:
        """Return the corpus under a key, its rows under the path of a store; None unless it is sound."""
        return self._files.get(_name(key), lambda blocks: _corpus_of(blocks, path))

    def keep(self, key: str, corpus: Corpus) -> None:
        """Keep a corpus under a key, as the one that was used last."""
        name = _name(key)
        if not self._files.use(name):
            self._files.put(name, map(_encode, _blocks(corpus)))

    def terms(self, key: str, corpus: Corpus, language: str) -> Postings:
        """Return the terms of the corpus under a key; they are kept, too."""
        name = _name(f"{ANALYSER} {language} {key}")
        count = corpus.row_count
        found = self._files.get(name, lambda blocks: unpacked(map(_decode_packed, blocks), count))
        if found is not None:
            self._files.use(name)
            return found
        packed = list(packed_rows(corpus, language))
        self._files.put(name, map(_encode_packed, packed))
        return unpacked(packed, count)


def _name(key: str) -> str:
    # Lower case is part of a record's hash, and depends on the version of Unicode.
    return sha256_hex(f"{unicodedata.unidata_version}\n{key}".encode())


def _corpus_of(blocks: Iterable[bytes], path: str) -> Corpus:
    corpus = Corpus()
    tag_lists: dict[tuple[str, ...], tuple[str, ...]] = {}
    for block in map(_decode, blocks):
        known = [tag_lists.setdefault(tags, tags) for tags in block.tag_lists]
        corpus.extend_columns(
            path,
            ids=block.ids,
            hashes=block.hashes,
            instants=block.instants,
            texts=block.texts,
            tags=[known[number] for number in block.tags],
            details=block.details,
        )
        corpus.invalid += [(path, id, digest) for id, digest in block.invalid]
    return corpus


def _blocks(corpus: Corpus) -> Iterator[_Block]:
    sizes = map(add, map(len, corpus.ids), map(len, corpus.texts))
    for rows in _slices(sizes):
        numbers: dict[tuple[str, ...], int] = {}
        tags = [numbers.setdefault(tags, len(numbers)) for tags in corpus.tags[rows]]
        yield _Block(
            ids=corpus.ids[rows],
            hashes=corpus.hashes[rows],
            instants=corpus.instants[rows].tolist(),
            texts=corpus.texts[rows],
            tag_lists=list(numbers),
            tags=tags,
            details=corpus.details[rows],
            invalid=[],
        )
    for rows in _slices(len(id) for _, id, _ in corpus.invalid):
        invalid = [(id, digest) for _, id, digest in corpus.invalid[rows]]
        yield _Block([], [], [], [], [], [], [], invalid)


def _slices(sizes: Iterable[int]) -> Iterator[slice]:
    """Yield the slices of rows that make up the blocks."""
    start = end = held = 0
    for end, size in enumerate(sizes, 1):
        held += size + _ROW_BYTES
        if held >= SIDECAR_BLOCK_BYTES:
            yield slice(start, end)
            start, held = end, 0
    if end > start:
        yield slice(start, end)
