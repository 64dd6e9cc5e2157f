"""The texts of records that an embedder may have made vectors of."""

from collections.abc import Iterable

from rote.records.envelope import read_record
from rote.records.keys import PREFIX
from rote.retrieval.spaces import memories_of
from rote.values import Json


class RecordTexts:
    """Implements contract.TextRule: the texts of the memories that a record is to `hybrid-1`."""

    prefix = PREFIX

    def texts(self, id: str, value: Json) -> Iterable[str]:
        found = read_record(id, value)
        return () if found is None else [memory.text for memory, _ in memories_of(found[0])]
