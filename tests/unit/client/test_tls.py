"""Stores behind https: requests and the line are encrypted, and only the right server is asked."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import Unavailable
from rote.server.serving import Serving
from tests.unit.server.test_tls import Authority, served

NOTES: Any = {"select": {"urn:n:*": {}}}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Serving]:
    """A server whose certificate is trusted as those of the system are."""
    trusted = tmp_path / "trusted.pem"
    authority.certificate.write_to_path(trusted)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with served(authority.files("127.0.0.1")) as found:
        yield found


def test_requests_blobs_and_watches_go_over_tls(server: Serving) -> None:
    data = bytes(range(256)) * 10_000
    with rote.open(server.url, token=server.token) as store:
        space = store.space("notes")
        assert space.get("urn:a") == 1
        assert space.blob(space.put_blob(data)) == data
        watches = [space.watch(NOTES, timeout=30) for _ in range(3)]
        for watch in watches:
            assert next(watch)["upserts"] == []
        shown: list[Any] = []

        def follow(watch: Iterator[Any]) -> None:
            folded: dict[str, Any] = {}
            while len(folded) < 20:
                folded |= {each["id"]: each["value"] for each in next(watch)["upserts"]}
            shown.append(folded)

        readers = [threading.Thread(target=follow, args=(watch,)) for watch in watches]
        for reader in readers:
            reader.start()
        for number in range(20):
            space.set(f"urn:n:{number}", "x" * 50_000)
        for reader in readers:
            reader.join(60)
        assert [len(folded) for folded in shown] == [20] * 3


@pytest.mark.parametrize("fault", ["another name", "nobody known"])
def test_another_certificate_is_refused_at_once(
    server: Serving, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    url = server.url
    if fault == "another name":
        url = url.replace("127.0.0.1", "localhost")
    else:
        monkeypatch.delenv("SSL_CERT_FILE")
    begun = time.monotonic()
    with (
        rote.open(url, token=server.token, timeout=60) as store,
        pytest.raises(Unavailable, match="certificate") as caught,
    ):
        store.space("notes")
    assert caught.value.details["outcome"] == "not_sent"
    assert time.monotonic() - begun < 30
