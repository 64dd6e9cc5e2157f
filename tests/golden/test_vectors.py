"""Vectors are kept as docs/formats/vectors.md says; worked out by hand, from lengths that are exact."""

from hashlib import sha256
from pathlib import Path

import orjson

from rote.contract.vectors import dimension_of, is_vector
from rote.kernel.log.seals import vector_record
from rote.retrieval.ranking.vectors import quantised
from rote.values import canonical

GOLDEN = orjson.loads(Path(__file__).with_name("vectors-1.json").read_bytes())


def test_vectors_of_version_1_have_the_same_bytes() -> None:
    for vector in GOLDEN["vectors"]:
        body = bytes.fromhex(vector["body"])
        assert quantised(vector["numbers"]) == body
        assert is_vector(body, dimension_of(GOLDEN["name"]))


def test_the_seal_of_a_vector_covers_the_did_the_name_the_hash_and_the_bytes() -> None:
    did, name, hash = GOLDEN["did"], GOLDEN["name"], sha256(GOLDEN["text"].encode())
    body = bytes.fromhex(GOLDEN["vectors"][0]["body"])
    fields = ["vector", did, name, hash.hexdigest(), sha256(body).hexdigest()]
    row = vector_record(did, name, hash.digest(), body)
    assert row.seal == sha256(canonical(fields)).digest()[:16]
