"""The server against the same work embedded, and against an echo on the same web server.

The server, the echo and the watches are processes of their own; the clients are raw sockets, which
cost little. Memory is what the server's process has more than before.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter, time

import orjson

import rote
from bench.documents import Document, Documents
from bench.harness import (
    Benchmark,
    Effort,
    Measure,
    Result,
    compare_rates,
    compare_times,
    compared,
    timed,
)
from bench.wires import RawClient, request
from rote.access.signed_requests import RequestLine, sign_request
from rote.values import Identity

MIB = 1 << 20
ID = "urn:bench:one"
CONNECTIONS = 16
WATCHES, UNREAD = 900, 100
LINES = "application/x-ndjson"
SEED = bytes(range(32))  # of the key that asks for a grant


class Child:
    """A process that says where it listens, and ends with the block."""

    def __init__(
        self, process: "subprocess.Popen[str]", port: int, token: str | None, did: str = ""
    ) -> None:
        self.process = process
        self.port = port
        self.token = token
        self.did = did

    @property
    def memory(self) -> float:
        """Return the memory that its process has, without files that it has mapped, in MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        resident = next(line for line in lines if line.startswith("RssAnon:"))
        return int(resident.split()[1]) / 1024


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def served(store: Path, *options: str) -> Iterator[Child]:
    arguments = ("rote", "serve", "--store", str(store), "--port", "0", "--json")
    with running(
        *arguments, "--access-log", "none", "--allow-host", "localhost", *options
    ) as process:
        assert process.stdout is not None
        told = orjson.loads(process.stdout.readline())
        yield Child(process, int(told["url"].rpartition(":")[2]), told["token"], told["did"])


@contextmanager
def echoing() -> Iterator[Child]:
    with running("bench.server_children", "echo") as process:
        assert process.stdout is not None
        yield Child(process, int(process.stdout.readline()), None)


def _asking(client: RawClient, asked: bytes, count: int) -> Measure:
    def work() -> None:
        for _ in range(count):
            client.ask(asked)

    return timed(count, work)


def _no_rate(*names: str) -> tuple[str, ...]:
    """Return the options that lift the limits of one principal."""
    return tuple(part for name in names for part in ("--limit", name))


# -- one request -----------------------------------------------------------------------------------


def read(effort: Effort) -> Result:
    """Compare a warm read of one entity with an echo of as many bytes."""
    path, count = effort.folder / "store.db", effort.count(600, 20)
    with rote.open(path, durability="os") as store:
        store.space("notes").set(ID, Documents().note())
    with served(path) as server, echoing() as echo:
        body = orjson.dumps({"ids": [ID]})
        asked = request("POST", "/v1/spaces/notes/read", body, server.token)
        client, other = RawClient(server.port), RawClient(echo.port)
        echoed = request("POST", "/", b"x" * len(client.ask(asked)))
        return compare_times(
            effort, partial(_asking, other, echoed, count), partial(_asking, client, asked, count)
        )


def client_get(effort: Effort) -> Result:
    """Compare a get of the client with an echo of as many bytes by a raw socket."""
    path, count = effort.folder / "store.db", effort.count(600, 20)
    with rote.open(path, durability="os") as store:
        store.space("notes").set(ID, Documents().note())
    with served(path) as server, echoing() as echo:
        body = orjson.dumps({"ids": [ID]})
        answer = RawClient(server.port).ask(
            request("POST", "/v1/spaces/notes/read", body, server.token)
        )
        other, echoed = RawClient(echo.port), request("POST", "/", b"x" * len(answer))
        with rote.open(f"http://127.0.0.1:{server.port}", token=server.token) as store:
            space = store.space("notes")

            def work() -> None:
                for _ in range(count):
                    space.get(ID)

            return compare_times(
                effort, partial(_asking, other, echoed, count), lambda: timed(count, work)
            )


def commit(effort: Effort) -> Result:
    """Compare what a commit costs more over HTTP with an echo of its body."""
    path, count = effort.folder / "served.db", effort.count(300, 10)
    documents = Documents()
    with (
        rote.open(effort.folder / "embedded.db", durability="os") as store,
        served(path, "--durability", "os") as server,
        echoing() as echo,
    ):
        space = store.space("notes")
        client, other = RawClient(server.port), RawClient(echo.port)
        client.ask(request("PUT", "/v1/spaces/notes", token=server.token))

        def bodies() -> list[bytes]:
            return [_commit_body(documents) for _ in range(count)]

        def over_http() -> Measure:
            asked = [
                request("POST", "/v1/spaces/notes/commit", body, server.token) for body in bodies()
            ]
            return timed(count, lambda: [client.ask(each) for each in asked])

        def embedded() -> Measure:
            made = documents.notes(count)
            return timed(count, lambda: _set_all(space, made))

        echoed = request("POST", "/", _commit_body(documents))
        turns = []
        for done in range(effort.rounds + 1):
            effort.report("measuring", effort.rounds - done)
            turns.append((_asking(other, echoed, count), embedded(), over_http()))
        echoes = [turn[0].micros for turn in turns[1:]]
        more = [max(turn[2].micros - turn[1].micros, 0.1) for turn in turns[1:]]
        return compared(echoes, more, "us")


def _commit_body(documents: Documents) -> bytes:
    ((id, value),) = documents.notes(1)
    return orjson.dumps({"operations": [{"op": "set", "id": id, "value": value}]})


# -- many connections ------------------------------------------------------------------------------


def writers(effort: Effort) -> Result:
    """Compare 16 connections that commit with as many threads of an embedded store."""
    count = effort.count(40, 3)
    documents = Documents()
    limits = _no_rate("principal_rate=1000000")
    with (
        rote.open(effort.folder / "embedded.db") as store,
        served(effort.folder / "served.db", *limits) as server,
    ):
        space = store.space("notes")
        clients = [RawClient(server.port) for _ in range(CONNECTIONS)]
        clients[0].ask(request("PUT", "/v1/spaces/notes", token=server.token))

        def embedded() -> Measure:
            made = [documents.notes(count) for _ in range(CONNECTIONS)]
            return _at_once(count, [partial(_set_all, space, each) for each in made])

        def over_http() -> Measure:
            asked = [
                [
                    request(
                        "POST", "/v1/spaces/notes/commit", _commit_body(documents), server.token
                    )
                    for _ in range(count)
                ]
                for _ in clients
            ]
            works = [partial(_ask_all, *each) for each in zip(clients, asked, strict=True)]
            return _at_once(count, works)

        return compare_rates(effort, embedded, over_http)


def _set_all(space: rote.Space, made: list[tuple[str, Document]]) -> None:
    for id, value in made:
        space.set(id, value)


def _ask_all(client: RawClient, asked: list[bytes]) -> None:
    for each in asked:
        client.ask(each)


def _at_once(count: int, works: Sequence[Callable[[], None]]) -> Measure:
    def work() -> None:
        threads = [threading.Thread(target=each) for each in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return timed(count * len(works), work)


def grants(effort: Effort) -> Result:
    """Compare reads by a grant that is looked up with reads of a server that asks nobody."""
    path, count = effort.folder / "store.db", effort.count(150, 10)
    with rote.open(path, durability="os") as store:
        space = store.space("notes")
        space.set(ID, Documents().note())
        space.grant(Identity.from_seed(SEED).did, "owner")
    limits = _no_rate("principal_rate=1000000")
    with (
        served(path, "--auth", "did", *limits) as server,
        served(path, "--auth", "none", *limits) as open_server,
    ):
        token = _granted(server)
        body = orjson.dumps({"ids": [ID]})

        def turn(port: int, bearer: str | None) -> Measure:
            asked = [request("POST", "/v1/spaces/notes/read", body, bearer)] * count
            clients = [RawClient(port) for _ in range(4)]
            measure = _at_once(count, [partial(_ask_all, client, asked) for client in clients])
            for client in clients:
                client.close()
            return measure

        return compare_rates(
            effort, partial(turn, open_server.port, None), partial(turn, server.port, token)
        )


def _granted(server: Child) -> str:
    """Return a grant for the owner of the space."""
    now = int(time())
    signed = sign_request(
        SEED, RequestLine("POST", "/v1/grants", ""), b"{}", audience=server.did, created=now,
        expires=now + 60, nonce="bench" * 4, headers={"content-type": "application/json"},
    )  # fmt: skip
    head, _, body = request("POST", "/v1/grants", b"{}").partition(b"\r\n\r\n")
    more = "".join(f"\r\n{name}: {value}" for name, value in signed.items()).encode()
    answer = RawClient(server.port).ask(head + more + b"\r\n\r\n" + body)
    token: str = orjson.loads(answer)["token"]
    return token


def watched(effort: Effort) -> Result:
    """Compare the slowest hundredth of commits under a thousand watches with those under none."""
    read_count, unread = effort.count(WATCHES, 9), effort.count(UNREAD, 1)
    count = effort.count(100, 10)
    limits = _no_rate(
        "principal_rate=1000000", "watches=2000", "principal_watches=2000", "connections=2000"
    )
    with (
        served(effort.folder / "quiet.db", "--durability", "os", *limits) as quiet,
        served(effort.folder / "busy.db", "--durability", "os", *limits) as busy,
    ):
        clients = {}
        for server in (quiet, busy):
            clients[server] = RawClient(server.port)
            clients[server].ask(request("PUT", "/v1/spaces/notes", token=server.token))
        arguments = (str(busy.port), str(busy.token), "notes", str(read_count), str(unread))
        with running("bench.server_children", "watch", *arguments) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline() == "ready\n"

            def turn(server: Child) -> list[float]:
                return [_one_commit(clients[server], server) for _ in range(count)]

            quiets: list[float] = []
            busies: list[float] = []
            for done in range(effort.rounds + 1):
                effort.report("measuring", effort.rounds - done)
                found = turn(quiet), turn(busy)
                if done:
                    quiets += found[0]
                    busies += found[1]
    slow, slower = slowest(quiets), slowest(busies)
    return Result(slow, slower, "us", slower / slow, slower / slow, slower / slow)


def _one_commit(client: RawClient, server: Child) -> float:
    value = {"op": "set", "id": "urn:watched:1", "value": perf_counter()}
    body = orjson.dumps({"operations": [value]})
    asked = request("POST", "/v1/spaces/notes/commit", body, server.token)
    begun = perf_counter()
    client.ask(asked)
    return (perf_counter() - begun) * 1_000_000


def slowest(micros: list[float]) -> float:
    return sorted(micros)[int(len(micros) * 0.99)]


# -- much at once ----------------------------------------------------------------------------------


def read_1000(effort: Effort) -> Result:
    path, size, count = effort.folder / "store.db", effort.count(1_000, 50), effort.count(10, 2)
    made = Documents().notes(size)
    with rote.open(path, durability="os") as store:
        space = store.space("notes")
        space.transact([{"op": "set", "id": id, "value": value} for id, value in made])
        ids = [id for id, _ in made]
        with served(path) as server:
            client = RawClient(server.port)
            body = orjson.dumps({"ids": ids})
            asked = request("POST", "/v1/spaces/notes/read", body, server.token)
            return compare_times(
                effort,
                lambda: timed(count, lambda: [space.read_many(ids) for _ in range(count)]),
                partial(_asking, client, asked, count),
            )


@contextmanager
def _scanned(effort: Effort) -> Iterator[tuple[rote.Space, Child, bytes]]:
    path, size = effort.folder / "store.db", effort.count(100_000, 2_000)
    documents = Documents()
    with rote.open(path, durability="os") as store:
        space = store.space("notes")
        for _ in range(0, size, 1_000):
            made = documents.notes(1_000)
            space.transact([{"op": "set", "id": id, "value": value} for id, value in made])
        with served(path) as server:
            asked = request("GET", "/v1/spaces/notes/entities", token=server.token)
            head, _, _ = asked.partition(b"\r\n\r\n")
            yield space, server, head + f"\r\naccept: {LINES}\r\n\r\n".encode()


def scan(effort: Effort) -> Result:
    with _scanned(effort) as (space, server, asked):
        client = RawClient(server.port)
        few = Effort(effort.folder, min(effort.rounds, 3), effort.quick, effort.report)
        return compare_times(
            few,
            lambda: timed(1, lambda: sum(1 for _ in space.scan())),
            lambda: timed(1, lambda: client.stream(asked)),
        )


def scan_memory(effort: Effort) -> Result:
    with _scanned(effort) as (_, server, asked):
        client = RawClient(server.port)
        client.ask(request("POST", "/v1/spaces/notes/head", b"{}", server.token))
        before = server.memory
        growth = []
        for _ in range(2):
            client.stream(asked)
            growth.append(server.memory - before)
        return _grown(growth)


def blob_memory(effort: Effort) -> Result:
    """Say how much more memory the server has after a blob went up and down."""
    pieces, piece = effort.count(1_024, 8), b"0123456789abcdef" * (MIB // 16)
    hasher = sha256()
    for _ in range(pieces):
        hasher.update(piece)
    with served(effort.folder / "store.db", "--durability", "os") as server:
        client = RawClient(server.port)
        client.ask(request("PUT", "/v1/spaces/notes", token=server.token))
        before = server.memory
        client.upload(hasher.hexdigest(), piece, pieces, str(server.token))
        growth = [server.memory - before]
        target = f"/v1/spaces/notes/blobs/{hasher.hexdigest()}"
        assert client.download(request("GET", target, token=server.token)) == pieces * MIB
        growth.append(server.memory - before)
        return _grown(growth)


def _grown(growth: list[float]) -> Result:
    most = max(*growth, 0.1)
    return Result(1, most, "MiB", most, max(min(growth), 0.1), most, decimals=1)


BENCHMARKS = [
    Benchmark("server/read", "warm read of one entity over HTTP, against an echo", 2, 1.2, read,
              direction="at most"),
    Benchmark("server/commit", "commit over HTTP more than embedded, in echoes", 3, 1.5, commit,
              direction="at most"),
    Benchmark("client/get", "get of the client over HTTP, against an echo by a raw socket", 2.5, 1.5,
              client_get, direction="at most"),
    Benchmark("server/writers", "16 connections committing with fsync, against 16 threads", 0.15, 0.5,
              writers),
    Benchmark("server/read-1000", "read of 1,000 entities, against embedded", 8, 3, read_1000,
              direction="at most"),
    Benchmark("server/scan", "scan of 100,000 states as lines, against embedded", 3, 1.5, scan,
              direction="at most"),
    Benchmark("server/scan-memory", "MiB more of the server after such scans", 32, 16, scan_memory,
              direction="at most"),
    Benchmark("server/blob-memory", "MiB more of the server after 1 GiB up and down", 32, 16,
              blob_memory, direction="at most"),
    Benchmark("server/watches", "p99 of a commit under 1,000 watches, 100 unread, against none", 2,
              1.1, watched, direction="at most"),
    Benchmark("server/bearer", "reads by a grant, against a server that asks nobody", 0.9, 0.97,
              grants),
]  # fmt: skip
