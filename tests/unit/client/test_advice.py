"""Errors of a first call: they say what to mend, to who has just written the URL or the token."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.client import replies
from rote.client.advice import advice
from rote.client.replies import Broken, Silent
from rote.errors import Denied, InvalidInput, Unavailable
from rote.testing.serving import serving
from tests.cutting import between, unanswered
from tests.served import served
from tests.unit.server.test_tls import Authority
from tests.unit.server.test_tls import served as served_by_tls

SECONDS = 0.5


def fails(url: str, **options: Any) -> str:
    with (
        rote.open(url, timeout=SECONDS, **options) as store,
        pytest.raises(Unavailable) as caught,
    ):
        store.space("notes")
    return str(caught.value)


def test_a_port_where_nobody_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    assert "start the server" in fails(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("parser", ["httptools", "http.client"])
def test_http_for_a_server_of_https_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parser: str
) -> None:
    if parser == "http.client":
        monkeypatch.setattr(replies, "httptools", None)
    with served_by_tls(Authority(tmp_path).files("127.0.0.1")) as server:
        assert "begins with https://" in fails(server.url.replace("https", "http"))


def test_https_for_a_server_of_http_is_told() -> None:
    with rote.open(":memory:") as store, serving(store) as server:
        assert "begins with http://" in fails(server.url.replace("http", "https"))


def test_a_certificate_that_is_not_trusted_is_told(tmp_path: Path) -> None:
    with served_by_tls(Authority(tmp_path).files("127.0.0.1")) as server:
        assert "SSL_CERT_FILE" in fails(server.url)


def test_a_server_that_has_answered_has_the_right_url() -> None:
    for lost in (Silent(), ssl.SSLError("reset"), Broken("cut")):
        assert advice(lost, is_tls=False, has_answered=True) == ""
    assert advice(Broken("cut"), is_tls=False, has_answered=False) == ""
    assert advice(Silent(), is_tls=True, has_answered=False) == ""
    with (
        served() as found,
        between(found.server.url) as line,
        rote.open(line.url, token=found.server.token, timeout=SECONDS) as store,
    ):
        space = store.space(found.space.name)
        line.plans.extend([unanswered] * 20)
        store._port._calls.pool._idle.pop().close()  # type: ignore[attr-defined]
        assert line.hung_up.acquire(timeout=10)
        with pytest.raises(Unavailable) as caught:
            space.get("urn:a")
        assert "https" not in str(caught.value)


def test_who_names_no_token_hears_how() -> None:
    with (
        served() as found,
        rote.open(found.server.url) as store,
        pytest.raises(Denied, match=r"rote\.open a token=") as caught,
    ):
        store.space("notes")
    assert caught.value.code == "unauthenticated"
    assert caught.value.details["reason"] == "missing"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"token": "Bearer rote_x"}, "without `Bearer`"),
        ({"token": "rote_x\n"}, "strip"),
        ({"token": ""}, "not empty"),
        ({"key": "00" * 32}, "bytes.fromhex"),
        ({"key": b"00" * 32}, "bytes.fromhex"),
    ],
    ids=str,
)
def test_what_shows_who_calls_is_looked_at_first(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        rote.open("http://127.0.0.1:1", **options)
