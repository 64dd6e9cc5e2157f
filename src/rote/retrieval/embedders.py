"""Embedders: programs that users bring to turn texts into vectors. All that they say is checked."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import isfinite
from numbers import Real
from typing import Any, Protocol

from rote.contract.vectors import dimension_of, vectors_name
from rote.errors import InvalidInput
from rote.retrieval.ranking.vectors import numbers_of, quantised
from rote.values.limits import VECTOR_DIMENSION_MAX

_CODE = "invalid_embedding"


class Embedder(Protocol):
    """Turns texts into vectors. Another model, or another setting of it, is another name or version.

    If it also has `embed_query(text)`, that gives the vector of a question.
    """

    name: str
    version: str
    dimension: int

    def embed(self, texts: Sequence[str], /) -> Iterable[Iterable[float]]:
        """Return a vector of `dimension` numbers for each text, in their order."""
        ...


class Embedding:
    """An embedder whose name, version and dimension are sound, with its answers quantised."""

    def __init__(self, embedder: Any) -> None:
        """Raise InvalidInput when it is no embedder."""
        name, version, dimension = (
            getattr(embedder, member, None) for member in ("name", "version", "dimension")
        )
        if type(name) is not str or type(version) is not str:
            raise _invalid("an embedder has a name and a version, which are texts")
        if type(dimension) is not int or not 1 <= dimension <= VECTOR_DIMENSION_MAX:
            raise _invalid(f"the dimension of an embedder is from 1 to {VECTOR_DIMENSION_MAX:,}")
        if not callable(getattr(embedder, "embed", None)):
            raise _invalid("an embedder has a method embed(texts)")
        self._embedder = embedder
        self.id = f"{name}@{version}"
        self.dimension = dimension
        self.count = 0  # of the texts that it has made vectors of
        self.vectors_name = vectors_name(name, version, dimension)
        self.shown = {"name": name, "version": version, "dimension": dimension}
        try:
            is_split = dimension_of(self.vectors_name) == dimension
        except InvalidInput:
            is_split = False
        if not is_split:
            raise _invalid(
                "the name and the version of an embedder are short texts without @ and white space"
            )

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text."""
        found = _listed(self._embedder.embed(list(texts)), len(texts))
        if found is None or len(found) != len(texts):
            raise _invalid(f"{self.id} must return {len(texts)} vectors for as many texts")
        made = [self._quantised(vector) for vector in found]
        self.count += len(made)
        return made

    def query_vector(self, text: str) -> bytes:
        """Return the vector of a question."""
        embed_query = getattr(self._embedder, "embed_query", None)
        return (
            self.vectors([text])[0] if embed_query is None else self._quantised(embed_query(text))
        )

    def _quantised(self, vector: Any) -> bytes:
        numbers = _listed(vector, self.dimension)
        if numbers is None or len(numbers) != self.dimension:
            raise _invalid(f"a vector of {self.id} must have {self.dimension} numbers")
        kinds: set[type] = {*map(type, numbers)}
        if bool in kinds or not all(issubclass(kind, Real) for kind in kinds):
            raise _invalid(f"a vector of {self.id} holds something that is no number")
        try:
            doubles = [float(number) for number in numbers]
        except OverflowError:
            doubles = [float("inf")]
        made = quantised(doubles) if all(map(isfinite, doubles)) else None
        if made is None:
            raise _invalid(
                f"a vector of {self.id} holds a number, or has a length, beyond all bounds"
            )
        return made


class KnownQuestion:
    """An embedder that is not there any more: it has the vector of one question, and makes no other."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.name: str = known["name"]
        self.version: str = known["version"]
        self.dimension: int = known["dimension"]
        self._numbers = bytes.fromhex(known["numbers"])

    @staticmethod
    def form(shown: Mapping[str, Any], query_vector: bytes) -> dict[str, Any]:
        """Return the plain data to make it of: the embedder as a package shows it, and the vector."""
        named = {name: shown[name] for name in ("name", "version", "dimension")}
        return {**named, "numbers": numbers_of(query_vector).hex()}

    def embed(self, texts: Sequence[str], /) -> Iterable[Iterable[float]]:
        raise InvalidInput(f"{len(texts)} texts have no vector yet; ask again", code=_CODE)

    def embed_query(self, text: str, /) -> Iterable[float]:
        """Return the numbers as they were quantised, which changes them no more."""
        return memoryview(self._numbers).cast("b")


def _listed(values: Any, count: int) -> list[Any] | None:
    """Return so many values and perhaps one more, also those of an array; None if they are no list."""
    to_list = getattr(values, "tolist", None)
    if callable(to_list):
        values = to_list()
    if isinstance(values, str | bytes | bytearray | Mapping) or not isinstance(values, Iterable):
        return None
    return list(islice(values, count + 1))


def _invalid(words: str) -> InvalidInput:
    return InvalidInput(f"{words}; mend the embedder", code=_CODE)
