"""TLS: a client that checks certificates is served by the right one, and by no other."""

import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

import rote
from rote.errors import InvalidInput
from rote.server.serving import Serving
from rote.testing.serving import serving
from tests.wires import Wire

DAY = datetime.timedelta(days=1)


class Authority:
    """Makes certificates, and clients that trust it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = trustme.CA()
        self.trusting = ssl.create_default_context()
        self._made.configure_trust(self.trusting)
        self.certificate = self._made.cert_pem

    def files(self, *names: str, **options: Any) -> tuple[Path, Path]:
        """Return the files of a certificate for names, and of its key."""
        made = self._made.issue_cert(*names, **options)
        cert, key = self._folder / f"{names[0]}.pem", self._folder / f"{names[0]}.key"
        for number, blob in enumerate(made.cert_chain_pems):
            blob.write_to_path(cert, append=number > 0)
        made.private_key_pem.write_to_path(key)
        return cert, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def served(files: tuple[Path, Path], **options: Any) -> Iterator[Serving]:
    cert, key = files
    with (
        rote.open(":memory:") as store,
        serving(store, tls_cert=cert, tls_key=key, **options) as it,
    ):
        store.space("notes").set("urn:a", 1)
        yield it


def test_a_client_that_checks_is_served_by_the_right_certificate(authority: Authority) -> None:
    with served(authority.files("127.0.0.1")) as server:
        assert server.url.startswith("https://127.0.0.1:")
        with Wire(server.url, server.token, tls=authority.trusting) as wire:
            assert wire.command("read", {"ids": ["urn:a"]}).json["states"][0]["value"] == 1
            assert wire.socket.version() in ("TLSv1.2", "TLSv1.3")  # type: ignore[attr-defined]


def test_certificates_of_another_name_expired_or_of_a_stranger_are_refused(
    authority: Authority, tmp_path: Path
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    stranger = Authority(tmp_path / "stranger")
    (tmp_path / "stranger").mkdir()
    for files in (
        authority.files("other.example"),
        authority.files("127.0.0.1", not_before=now - 2 * DAY, not_after=now - DAY),
        stranger.files("127.0.0.1"),
    ):
        with served(files) as server, pytest.raises(ssl.SSLCertVerificationError):
            Wire(server.url, server.token, tls=authority.trusting)


def test_who_speaks_no_tls_gets_nothing(authority: Authority) -> None:
    with served(authority.files("127.0.0.1"), head_seconds=0.5) as server:
        plain = server.url.replace("https://", "http://")
        with Wire(plain, server.token) as wire:
            wire.send(wire.request("POST", "/v1/now"))
            assert wire.socket.recv(1_000)[:4] != b"HTTP"
        with Wire(plain) as silent:
            assert silent.is_closed  # after head_seconds without a handshake


def test_old_protocols_are_refused(authority: Authority) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.minimum_version = ssl.TLSVersion.TLSv1
    with served(authority.files("127.0.0.1")) as server, pytest.raises((ssl.SSLError, OSError)):
        address = server.url.rpartition("/")[2].split(":")
        with socket.create_connection((address[0], int(address[1]))) as line:
            old.wrap_socket(line)


def test_files_that_are_no_certificate_are_refused(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.files("127.0.0.1")
    _, other = authority.files("other.example")
    nothing = tmp_path / "nothing"
    nothing.write_text("nothing")
    for files in ((cert, other), (nothing, key), (cert, nothing), (tmp_path / "none", key)):
        with pytest.raises(InvalidInput, match="--tls-cert"), served(files):
            pass
