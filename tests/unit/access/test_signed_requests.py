"""Signed requests: one form, one text to sign, and a reason for each refusal."""

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from rote.access.signed_requests import RequestLine, SignedRequest, read_signed, sign_request
from rote.errors import Denied, InvalidInput
from rote.testing.keys import did_of, lend, seed_of
from rote.values import verify_signature

SERVER, ADA = did_of("server"), did_of("ada")
NOW = 1_800_000_000
BODY = b'{"ids":["urn:a"]}'
NONCE = "n" * 16
PATH, QUERY = "/v1/spaces/a%2Fb/read", "x=%20&y"
LINE = RequestLine("POST", PATH, QUERY)

Headers = list[tuple[str, str]]


def signed(
    *, headers: dict[str, str] | None = None, created: int = NOW, expires: int = NOW + 300,
    body: bytes = BODY, audience: str = SERVER, proofs: Any = (),
) -> Headers:  # fmt: skip
    others = headers or {}
    added = sign_request(
        seed_of("ada"), LINE, body, audience=audience, created=created,
        expires=expires, nonce=NONCE, headers=others, proofs=proofs,
    )  # fmt: skip
    return [("host", "h"), *others.items(), *added.items()]


def read(
    headers: Headers, method: str = "POST", path: str = PATH, query: str = QUERY
) -> SignedRequest:
    return read_signed(RequestLine(method, path, query), headers)


def reason(call: Callable[[], object]) -> str:
    with pytest.raises(Denied) as refused:
        call()
    assert refused.value.code == "unauthenticated"
    return str(refused.value.details["reason"])


def replaced(headers: Headers, name: str, old: str, new: str) -> Headers:
    assert any(each == name and old in value for each, value in headers)
    return [(each, value.replace(old, new) if each == name else value) for each, value in headers]


def test_the_text_that_is_signed_is_the_signature_base_of_rfc_9421() -> None:
    proofs = [lend("ada", "ben", space=SERVER)]
    sent = {"content-type": "application/json", "if-match": '"x"', "rote-attempt": "0" * 32}
    headers = dict(signed(headers=sent, proofs=proofs))
    components = (
        '"@method" "@path" "@query" "content-digest" "rote-audience" "rote-attempt" "rote-proofs"'
        ' "if-match" "content-type"'
    )
    parameters = (
        f'({components});created={NOW};expires={NOW + 300};nonce="{NONCE}";keyid="{ADA}";'
        'alg="ed25519";tag="rote/1"'
    )
    assert headers["signature-input"] == f"rote={parameters}"
    base = "\n".join(
        [
            '"@method": POST',
            f'"@path": {PATH}',
            f'"@query": ?{QUERY}',
            f'"content-digest": sha-256=:{b64encode(sha256(BODY).digest()).decode()}:',
            f'"rote-audience": {SERVER}',
            f'"rote-attempt": {"0" * 32}',
            f'"rote-proofs": {headers["rote-proofs"]}',
            '"if-match": "x"',
            '"content-type": application/json',
            f'"@signature-params": {parameters}',
        ]
    ).encode()
    found = read(list(headers.items()))
    assert found.signed == base
    assert verify_signature(ADA, base, found.signature)
    assert found.digest == sha256(BODY).digest()
    assert found.proofs_sent() == proofs
    found.check(now=NOW, audience=SERVER)


def test_a_request_without_a_query_signs_a_question_mark() -> None:
    line = RequestLine("GET", "/v1/spaces", "")
    headers = sign_request(
        seed_of("ada"), line, b"", audience=SERVER, created=NOW,
        expires=NOW + 1, nonce=NONCE,
    )  # fmt: skip
    found = read_signed(line, list(headers.items()))
    assert b'"@query": ?\n' in found.signed
    found.check(now=NOW, audience=SERVER)


@pytest.mark.parametrize(
    ("created", "expires", "now", "expected"),
    [
        (NOW, NOW + 300, NOW, None),
        (NOW, NOW + 301, NOW, "too_long"),
        (NOW, NOW + 1, NOW, None),
        (NOW, NOW, NOW, "malformed"),
        (NOW, NOW - 1, NOW, "malformed"),
        (NOW, NOW + 300, NOW + 299, None),
        (NOW, NOW + 300, NOW + 300, "expired"),
        (NOW, NOW + 300, NOW - 60, None),
        (NOW, NOW + 300, NOW - 61, "not_yet"),
    ],
)
def test_a_signature_holds_between_its_times(
    created: int, expires: int, now: int, expected: str | None
) -> None:
    headers = signed(created=created, expires=expires)
    if expected is None:
        read(headers).check(now=now, audience=SERVER)
    else:
        assert reason(lambda: read(headers).check(now=now, audience=SERVER)) == expected


def test_a_signature_is_for_one_server() -> None:
    found = read(signed(audience=did_of("other")))
    assert reason(lambda: found.check(now=NOW, audience=SERVER)) == "wrong_audience"


@pytest.mark.parametrize(
    "change",
    [
        lambda: read(signed(), method="PUT"),
        lambda: read(signed(), path=PATH.replace("%2F", "%2f")),
        lambda: read(signed(), path=PATH + "/"),
        lambda: read(signed(), query=""),
        lambda: read(signed(), query="x=+&y"),
        lambda: read(replaced(signed(headers={"if-match": '"a"'}), "if-match", "a", "b")),
        lambda: read(replaced(signed(), "signature-input", NONCE, "m" * 16)),
        lambda: read(replaced(signed(), "signature-input", f"created={NOW}", f"created={NOW + 1}")),
        lambda: read(replaced(signed(), "signature-input", ADA, did_of("ben"))),
        lambda: read([*signed()[:-1], signed(body=b"")[-1]]),
    ],
)
def test_whatever_is_changed_breaks_the_signature(change: Callable[[], SignedRequest]) -> None:
    found = change()
    assert reason(lambda: found.check(now=NOW, audience=SERVER)) == "signature"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("signature-input", "rote=", "sig1="),
        ("signature-input", "rote=", "rote= "),
        ("signature-input", "rote=", 'a=("@method"), rote='),
        ("signature-input", '"@method" "@path"', '"@path" "@method"'),
        ("signature-input", '"@query" ', ""),
        ("signature-input", '"@method" ', '"@method" "@method" '),
        ("signature-input", '"rote-audience"', '"rote-audience" "host"'),
        ("signature-input", '"rote-audience"', '"rote-audience" "if-match"'),
        ("signature-input", '"@query"', '"@query";req'),
        ("signature-input", ";alg", ";x=1;alg"),
        ("signature-input", 'alg="ed25519"', 'alg="hmac-sha256"'),
        ("signature-input", ';tag="rote/1"', ""),
        ("signature-input", 'tag="rote/1"', 'tag="rote/2"'),
        ("signature-input", f"created={NOW}", "created=-1"),
        ("signature-input", f"created={NOW}", f"created=0{NOW}"),
        ("signature-input", f"created={NOW}", f"created={NOW}.0"),
        ("signature-input", f"created={NOW}", "created=9999999999999"),
        ("signature-input", NONCE, "n" * 15),
        ("signature-input", NONCE, "n" * 65),
        ("signature-input", NONCE, "n" * 15 + "!"),
        ("signature-input", ADA, "did:key:zNobody"),
        ("signature-input", ADA, "token:ada"),
        ("signature-input", ADA, ADA + "1"),
        ("signature", "rote=:", "rote="),
        ("signature", "rote=:", "sig1=:"),
        ("signature", "==:", "=:"),
        ("content-digest", "sha-256", "sha-512"),
        ("content-digest", "=:", ":"),
    ],
)
def test_another_form_is_malformed(name: str, old: str, new: str) -> None:
    headers = replaced(signed(), name, old, new)
    assert reason(lambda: read(headers)) == "malformed"


@pytest.mark.parametrize(
    "name", ["signature", "signature-input", "content-digest", "rote-audience"]
)
def test_a_header_that_is_left_out_or_sent_twice_is_malformed(name: str) -> None:
    headers = signed()
    assert reason(lambda: read([each for each in headers if each[0] != name])) == "malformed"
    assert reason(lambda: read([*headers, (name, dict(headers)[name])])) == "malformed"


@pytest.mark.parametrize(
    "name",
    ["idempotency-key", "rote-attempt", "rote-proofs", "if-match", "if-none-match", "content-type"],
)
def test_these_headers_are_signed_if_and_only_if_they_are_sent(name: str) -> None:
    read(signed(headers={name: "x"})).check(now=NOW, audience=SERVER)
    assert reason(lambda: read([*signed(), (name, "x")])) == "malformed"
    without = [each for each in signed(headers={name: "x"}) if each[0] != name]
    assert reason(lambda: read(without)) == "malformed"


def test_bytes_beyond_ascii_are_malformed() -> None:
    headers = replaced(signed(headers={"content-type": "x"}), "content-type", "x", "\xff")
    assert reason(lambda: read(headers)) == "malformed"


@pytest.mark.parametrize("proofs", ["", "!", "e30=", "W10A", "x" * 9])
def test_proofs_that_cannot_be_read_are_none(proofs: str) -> None:
    assert read(signed(headers={"rote-proofs": proofs})).proofs_sent() in (None, "")


def test_a_bad_nonce_signs_nothing() -> None:
    with pytest.raises(InvalidInput):
        sign_request(seed_of("ada"), LINE, b"", audience=SERVER, created=1, expires=2, nonce="n")
