"""rote serve: what it says, when it does not start, and how it ends."""

import resource
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import rote
from tests.server_processes import ServerProcess
from tests.unit.cli.command import run
from tests.wires import Closed, Wire


def refusal(*options: str, store: Path) -> tuple[int, str, str]:
    """Return the exit code of a server that does not start, and its stdout and stderr."""
    ended = run("serve", "--port", "0", *options, store=store)
    return ended.exit_code, ended.stdout, ended.stderr


def test_it_says_where_it_serves_and_ends_with_0(store_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "rote", "serve", "--store", str(store_path), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first, second, third = (process.stdout.readline().split() for _ in range(3))
        assert first[:-1] == ["rote", rote.__version__, "serves", str(store_path), "at"]
        assert second[0] == "server" and second[1].startswith("did:key:z")
        assert third[0] == "token" and third[1].startswith("rote_")
        with Wire(first[-1], third[1]) as wire:
            assert wire.command("now", space=None).status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_it_says_the_same_as_json(store_path: Path) -> None:
    with ServerProcess(store_path) as server:
        assert server.told.keys() == {"url", "did", "token", "store", "pid", "version"}
        assert server.told["pid"] == server.pid
        assert server.told["version"] == rote.__version__
        did = server.told["did"]
        server.send(signal.SIGTERM)
        assert server.end() == (0, "")
    with ServerProcess(store_path) as again:
        assert again.told["did"] == did
        assert again.told["token"] != server.told["token"]


def test_a_token_file_keeps_the_token_to_its_owner(store_path: Path) -> None:
    place = store_path.with_name("token")
    with ServerProcess(store_path, "--token-file", str(place)) as server:
        assert server.told["token"] is None
        token = place.read_text().strip()
        assert place.stat().st_mode & 0o777 == 0o600
        with Wire(server.url, token) as wire:
            assert wire.command("now", space=None).status == 200
    with ServerProcess(store_path, "--token-file", str(place)):
        assert place.read_text().strip() == token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_token_file_of_others_is_refused_with_the_way_to_mend_it(
    store_path: Path, mode: int
) -> None:
    place = store_path.with_name("token")
    place.write_text(f"rote_{'0' * 12}_{'a' * 43}\n")
    place.chmod(mode)
    code, told, said = refusal("--token-file", str(place), store=store_path)
    assert (code, told) == (2, "")
    assert f"chmod 600 {place}" in said and "a" * 43 not in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "--tls-cert"),
        (["--host", "0.0.0.0", "--auth", "none", "--behind-proxy"], "--auth none"),
        (["--host", "none.invalid"], "none.invalid"),
        (["--auth", "password"], "--auth"),
        (["--tls-cert", "cert.pem"], "--tls-key"),
        (["--tls-cert", "none.pem", "--tls-key", "none.key"], "cannot be used"),
        (["--token-file", "token", "--no-start-token"], "leave out one"),
        (["--limit", "none=1"], "no limit"),
        (["--limit", "queue=0"], "queue"),
        (["--threads", "0"], "--threads"),
        (["--operator", "nobody"], "did"),
        (["--no-create"], "no store"),
        (["--durability", "none"], "durability"),
        (["--access-log", "/none/log"], "access log"),
    ],
)
def test_it_does_not_start_and_says_why(store_path: Path, options: list[str], words: str) -> None:
    code, told, said = refusal(*options, store=store_path)
    assert (code, told) == (2, "")
    assert words in said and said.startswith("error: ") and said.count("\n") == 1


def test_an_address_that_is_taken_is_refused(store_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, told, said = refusal("--port", port, store=store_path)
    assert (code, told) == (2, "") and port in said
    assert not store_path.exists()  # the address comes first


def test_a_store_that_cannot_be_written_is_refused(store_path: Path) -> None:
    store_path.write_bytes(b"this is no database" * 100)
    assert refusal(store=store_path)[:2] == (2, "")


def test_everybody_is_let_in_only_with_a_word_of_warning(store_path: Path) -> None:
    with ServerProcess(store_path, "--auth", "none") as server:
        assert server.told["token"] is None
        with Wire(server.url) as wire:
            assert wire.command("now", space=None).status == 200
        assert "everybody" in server.said


def begin_without_end(wire: Wire) -> None:
    """Begin a request that keeps the server waiting."""
    assert wire.command("space_create", {"name": "notes"}, space=None).status == 200
    wire.send(
        wire.request("POST", "/v1/spaces/notes/read", content_type="application/json",
                     content_length="1000", expect="100-continue")
    )  # fmt: skip
    assert wire.reply().status == 100


def test_a_second_signal_ends_it_at_once(store_path: Path) -> None:
    with ServerProcess(store_path) as server, server.wire() as wire:
        begin_without_end(wire)
        server.send(signal.SIGTERM)
        with pytest.raises((Closed, OSError)):
            for _ in range(100_000):  # until nobody listens any more
                with server.wire() as late:
                    late.ask("POST", "/v1/now")
        server.send(signal.SIGTERM)
        assert server.end()[0] == 1


def test_a_request_that_never_ends_is_waited_for_no_longer_than_the_grace(store_path: Path) -> None:
    with ServerProcess(store_path, "--grace", "0.3") as server, server.wire() as wire:
        begin_without_end(wire)
        server.send(signal.SIGTERM)
        assert server.end() == (0, "")


def test_two_servers_on_one_file_are_one_service(store_path: Path) -> None:
    with ServerProcess(store_path) as first, ServerProcess(store_path) as second:
        assert first.told["did"] == second.told["did"]
        with first.wire() as here, second.wire() as there:
            here.command("space_create", {"name": "notes"}, space=None)
            for number in range(20):
                one, other = (here, there) if number % 2 else (there, here)
                value = [{"op": "set", "id": "urn:n", "value": number}]
                version = one.command("commit", {"operations": value}).json["version"]
                seen = other.command("read", {"ids": ["urn:n"]})
                assert seen.json["states"][0]["value"] == number
                assert int(seen.headers["rote-version"]) >= version


def test_it_takes_more_connections_than_files_it_was_given(store_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        server = ServerProcess(store_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with server, ExitStack() as stack:
        wires = [stack.enter_context(server.wire()) for _ in range(150)]
        assert {wire.command("now", space=None).status for wire in wires} == {200}
