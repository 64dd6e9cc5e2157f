"""The signer: an Ed25519 key named by its did:key (https://w3c-ccg.github.io/did-key-spec/).

    did:key:z<base58btc of 0xed 0x01 and the 32 bytes of the public key>

Frozen: dids are in every commit hash. A seed is never shown, logged or put into an error.
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from rote.errors import InvalidInput
from rote.values.base58 import decode_base58, encode_base58

SEED_BYTES = 32
SIGNATURE_BYTES = 64
_PREFIX = "did:key:z"
_MULTICODEC_ED25519 = b"\xed\x01"
_PUBLIC_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Identity:
    """A key that can sign, known by its did."""

    did: str  # the public half, as text
    _key: SigningKey = field(repr=False, compare=False)  # the secret half

    @classmethod
    def from_seed(cls, seed: Any) -> Self:
        """Return the identity of a 32 byte seed; the same seed always gives the same identity."""
        if type(seed) is not bytes or len(seed) != SEED_BYTES:
            raise InvalidInput(f"a seed is exactly {SEED_BYTES} bytes")
        key = SigningKey(seed)
        public = bytes(key.verify_key)
        return cls(_PREFIX + encode_base58(_MULTICODEC_ED25519 + public), key)

    def sign(self, data: bytes) -> bytes:
        """The 64 byte Ed25519 signature of `data`."""
        return self._key.sign(data).signature

    def seed(self) -> bytes:
        """Return the secret seed, to put it into another key ring; never show it."""
        return bytes(self._key)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Identity holds a secret key and cannot be pickled or copied")


def check_did(text: Any) -> None:
    """Check for the did:key of an Ed25519 key, in its only valid spelling."""
    _public_key(text)


def verify_signature(did: str, data: bytes, signature: bytes) -> bool:
    """Whether the key of `did` signed `data`; a malformed did is InvalidInput."""
    key = VerifyKey(_public_key(did))
    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        key.verify(data, signature)
    except BadSignatureError:
        return False
    return True


def _public_key(did: Any) -> bytes:
    if type(did) is not str or not did.startswith(_PREFIX):
        raise InvalidInput(f"{did!r:.80} is not a did:key; it starts with {_PREFIX!r}")
    data = decode_base58(did[len(_PREFIX) :])
    if len(data) != 2 + _PUBLIC_KEY_BYTES or not data.startswith(_MULTICODEC_ED25519):
        raise InvalidInput(f"{did!r:.80} is not the did:key of an Ed25519 key")
    return data[2:]
