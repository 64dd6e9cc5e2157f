"""Identities: RFC 8032 signatures under did:key names, each with one spelling."""

import pickle
from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.values import Identity, check_did, verify_signature
from rote.values.base58 import decode_base58, encode_base58

# RFC 8032 section 7.1, tests 1 and 2, and their dids.
SEED_1 = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC_1 = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
SIGNATURE_1 = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
    "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)
# https://w3c-ccg.github.io/did-key-spec/ example with an all-known key.
DID_OF_SPEC = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


def test_signatures_and_keys_are_those_of_rfc_8032() -> None:
    identity = Identity.from_seed(SEED_1)
    assert identity.did == "did:key:z" + encode_base58(b"\xed\x01" + PUBLIC_1)
    assert identity.sign(b"") == SIGNATURE_1
    assert verify_signature(identity.did, b"", SIGNATURE_1)


def test_the_same_seed_is_the_same_identity() -> None:
    assert Identity.from_seed(b"s" * 32) == Identity.from_seed(b"s" * 32)
    assert Identity.from_seed(b"s" * 32) != Identity.from_seed(b"t" * 32)


def test_a_signature_holds_for_one_text_and_one_key_only() -> None:
    one, other = Identity.from_seed(b"1" * 32), Identity.from_seed(b"2" * 32)
    signature = one.sign(b"text")
    assert verify_signature(one.did, b"text", signature)
    assert not verify_signature(one.did, b"texT", signature)
    assert not verify_signature(other.did, b"text", signature)
    assert not verify_signature(one.did, b"text", signature[:-1])
    assert not verify_signature(one.did, b"text", b"")
    assert not verify_signature(one.did, b"text", signature + b"\0")
    flipped = bytes([signature[0] ^ 1]) + signature[1:]
    assert not verify_signature(one.did, b"text", flipped)


def test_the_seed_is_never_shown() -> None:
    seed = bytes(range(32))
    identity = Identity.from_seed(seed)
    for shown in (repr(identity), str(identity), f"{identity}"):
        assert shown == f"Identity(did={identity.did!r})"
        assert repr(seed)[2:12] not in shown


def test_an_identity_cannot_be_changed_or_pickled() -> None:
    identity = Identity.from_seed(b"s" * 32)
    with pytest.raises(AttributeError):
        identity.did = "did:key:zother"  # type: ignore[misc]
    with pytest.raises(TypeError):
        pickle.dumps(identity)


@pytest.mark.parametrize("seed", [b"", b"s" * 31, b"s" * 33, "s" * 32, bytearray(32), None])
def test_a_seed_is_exactly_32_bytes_and_a_refusal_does_not_show_it(seed: Any) -> None:
    with pytest.raises(InvalidInput, match="exactly 32 bytes") as caught:
        Identity.from_seed(seed)
    assert "sss" not in str(caught.value)


def test_the_did_of_the_specification_is_a_did() -> None:
    check_did(DID_OF_SPEC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "did:key:",
        "did:key:z",
        "did:web:example.org",
        "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
        DID_OF_SPEC[:-1],
        DID_OF_SPEC + "1",
        DID_OF_SPEC + "\n",
        DID_OF_SPEC + " ",
        DID_OF_SPEC + "#" + DID_OF_SPEC[8:],
        DID_OF_SPEC.replace("z6", "z16"),
        DID_OF_SPEC.replace("X", "0"),
        DID_OF_SPEC.replace("did:key", "DID:KEY"),
        "did:key:z" + encode_base58(b"\xed\x01" + b"k" * 31),
        "did:key:z" + encode_base58(b"\xec\x01" + b"k" * 32),
        "did:key:z" + "2" * 1_000_000,
        None,
        b"did:key:z6",
    ],
)
def test_other_texts_are_not_dids(text: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_did(text)
    assert len(str(caught.value)) < 300
    with pytest.raises(InvalidInput):
        verify_signature(text, b"", SIGNATURE_1)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"\0", "1"),
        (b"\0\0\1", "112"),
        (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
        (bytes.fromhex("0000287fb4cd"), "11233QC4"),
    ],
)
def test_base58_is_that_of_the_draft(data: bytes, text: str) -> None:
    assert encode_base58(data) == text
    assert decode_base58(text) == data
