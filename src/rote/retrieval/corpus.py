"""A corpus: the memories of one store in one state, as columns, ready to be scored and ordered."""

from hashlib import sha256
from typing import Any

from rote.errors import InvalidInput
from rote.retrieval.instants import read_instant, write_instant
from rote.retrieval.wording import normal_text
from rote.values import Json, canonical

# Later than every time that can be written, so that those without one come last.
_NO_INSTANT = 1 << 63


class Corpus:
    """Columns, one entry for each valid record in the order of reading."""

    def __init__(self, path: str) -> None:
        self.path = path  # as the package names it
        self.ids: list[str] = []
        self.hashes: list[str] = []
        self.instants: list[int | None] = []
        self.texts: list[str] = []
        self.normals: list[str] = []  # the texts as terms are looked for
        self.tags: list[tuple[str, ...]] = []
        self.invalid: list[tuple[str, str]] = []  # memory id and hash of what is no record
        self._order: list[int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def add(
        self, id: str, text: str, ts_utc: str | None, tags: list[str] | None, refs: list[Any] | None
    ) -> None:
        """A record whose shape is right."""
        instant = None if ts_utc is None else read_instant(ts_utc)
        normal_tags = sorted({tag.lower() for tag in tags}) if tags else []
        form: Json = {
            "memory_id": id,
            "refs": refs or [],
            "tags": normal_tags,
            "text": text,
            "ts_utc": None if instant is None else write_instant(instant),
        }
        self.hashes.append(sha256(canonical(form)).hexdigest())
        self.ids.append(id)
        self.instants.append(instant)
        self.texts.append(text)
        self.normals.append(normal_text(text))
        self.tags.append(tuple(normal_tags))

    @property
    def order(self) -> list[int]:
        """The rows as they rank when nothing else decides: newest first, then by id and hash."""
        if self._order is None:
            self._order = sorted(range(len(self.ids)), key=self.rank_key)
        return self._order

    def rank_key(self, row: int) -> tuple[int, str, str, str]:
        """How records of equal score rank, also beside those of other stores."""
        instant = self.instants[row]
        newest = _NO_INSTANT if instant is None else -instant
        return newest, self.path, self.ids[row], self.hashes[row]


def check_shape(value: Json) -> tuple[Any, ...]:
    """The fields of a record as `Corpus.add` takes them; InvalidInput when it has another shape."""
    if type(value) is not dict:
        raise InvalidInput("a record is an object")
    id, text = value.get("memory_id"), value.get("text")
    instant, tags, refs = value.get("ts_utc"), value.get("tags"), value.get("refs")
    if (
        type(id) is not str
        or not id.strip()
        or type(text) is not str
        or type(instant) not in (str, type(None))
        or not _is_list_of(tags, str)
        or not _is_list_of(refs, dict)
    ):
        raise InvalidInput("a record has a memory_id and a text")
    return id, text, instant, tags, refs


def _is_list_of(value: Json, kind: type) -> bool:
    if value is None:
        return True
    return type(value) is list and all(type(item) is kind for item in value)
