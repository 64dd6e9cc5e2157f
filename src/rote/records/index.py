"""The index of records: the terms that a record is listed under.

    tag <namespace> <tag>            tag and source as the beginning of their digest, so that terms
    source <namespace> <source>      stay short; a search compares the record itself too
    created <namespace> <instant>    instants with all digits, so that terms are in their order
    updated, valid_at, last_accessed, expires
    stray                            another program wrote something else under the id of a record

Under one term entities are in the order of their ids, which is the order of lists.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from rote.records.envelope import read_record
from rote.records.keys import PREFIX
from rote.records.metadata import instant_of, source_of, tags_of, time_of
from rote.values import Json
from rote.values.limits import TERMS_REMEMBERED
from rote.values.ranges import above
from rote.values.times import MICROS_MIN

_DIGEST_CHARACTERS = 16
_TIMES_OF_METADATA = ("valid_at", "last_accessed")
# Frozen: an index whose terms have another meaning needs another name.
NAME = "records/2"
# The term of entities with ids of records that hold something else.
STRAY = "stray"


class RecordIndex:
    """The declaration of the index; rote.open gives it to the kernel."""

    name = NAME
    prefix = PREFIX

    def terms(self, id: str, value: Json, version: int, place: int, /) -> Iterable[str]:
        found = read_record(id, value)
        if found is None:
            return (STRAY,)
        record, life = found
        namespace, metadata = record["namespace"], record["metadata"]
        instants = {"created": instant_of(life.created_at), "updated": life.updated_at}
        if life.ttl_seconds is not None:
            instants["expires"] = life.expires
        terms = []
        if metadata:
            for name in _TIMES_OF_METADATA:
                if name in metadata:
                    instants[name] = time_of(metadata, name)
            terms += [text_term("tag", namespace, tag) for tag in tags_of(metadata)]
            source = source_of(metadata)
            if source is not None:
                terms.append(text_term("source", namespace, source))
        for name, instant in instants.items():
            if instant is not None:
                terms.append(instant_term(name, namespace, instant))
        return terms


RECORDS = RecordIndex()


@lru_cache(maxsize=TERMS_REMEMBERED)
def text_term(name: str, namespace: str, text: str) -> str:
    return f"{name} {namespace} {sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"


def instant_term(name: str, namespace: str, instant: int) -> str:
    return f"{name} {namespace} {instant - MICROS_MIN:020d}"


def instant_range(
    name: str, namespace: str, after: int | None, before: int | None
) -> tuple[str, str]:
    """Return the range [start, end) of the terms of all instants from one to another, both included."""
    start = f"{name} {namespace} " if after is None else instant_term(name, namespace, after)
    if before is None:
        return start, f"{name} {namespace}!"
    return start, above(instant_term(name, namespace, before))
