"""Two agents share a memory through a server. One writes, the other may only read.

Run it: python examples/two_agents.py [FOLDER]. It starts a server, makes a token for each agent, and
starts both as processes of their own. The agents need nothing of Rote: they speak plain HTTP by the
standard library.
"""

import json
import subprocess
import sys
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

NOTES = [
    ("sizes", "Ada wears shoes of size 38 and prefers red ones"),
    ("delivery", "Ada wants parcels delivered on Tuesdays"),
]


class Memory:
    """The memory of a space, over HTTP."""

    def __init__(self, address: str, token: str) -> None:
        self._connection = HTTPConnection(address)
        self._token = token

    def call(self, verb: str, arguments: Any, *, key: str | None = None) -> tuple[int, Any]:
        """Return the status and the answer of a verb, for example `put`."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key  # the same call again is done once
        body = json.dumps({"arguments": arguments})
        self._connection.request("POST", f"/v1/spaces/shop/memory_{verb}", body, headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())


def listener(memory: Memory) -> None:
    """Note what was learned in a conversation."""
    for name, text in NOTES:
        note = {"namespace": "long_term", "kind": "note", "id": name, "payload": {"text": text}}
        status, answer = memory.call("put", note, key=f"note-{name}")
        print(f"listener: wrote {name} in version {answer['version']}")
        assert status == 200
        # It does not know whether the first answer was lost, and sends it again.
        assert memory.call("put", note, key=f"note-{name}") == (200, answer)


def advisor(memory: Memory) -> None:
    """Answer a question from what others have noted."""
    _, answer = memory.call("search", {"text": "Which shoes have the right size?", "limit": 1})
    print(f"advisor: found {answer['items'][0]['excerpt']!r}")
    status, answer = memory.call("delete", ["long_term", "note", "sizes"])
    print(f"advisor: may not delete it: {status} {answer['error']['code']}")


def main(folder: Path) -> None:
    store = str(folder / "memory.db")
    rote = [sys.executable, "-m", "rote"]
    subprocess.run([*rote, "set", "urn:shop:open", "true", "--store", store, "--space", "shop"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    tokens = {}
    for agent, right in (("listener", "write"), ("advisor", "read")):
        command = [*rote, "token", "create", agent, "--right", right, "--space", "shop"]
        made = subprocess.run(
            [*command, "--store", store], check=True, capture_output=True, text=True
        )
        tokens[agent] = made.stdout.strip()
    serve = [*rote, "serve", "--store", store, "--port", "0", "--json", "--access-log", "none"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["url"].removeprefix("http://")
        try:
            for agent in ("listener", "advisor"):
                command = [sys.executable, __file__, agent, address, tokens[agent]]
                subprocess.run(command, check=True)
        finally:
            server.terminate()
    log = [*rote, "log", "--store", store, "--space", "shop", "--json"]
    lines = subprocess.run(log, check=True, capture_output=True, text=True).stdout.splitlines()
    authors = sorted({str(json.loads(line)["author"]) for line in lines if line.startswith("{")})
    print(f"the log names who wrote: {', '.join(authors)}")


if __name__ == "__main__":
    agents = {"listener": listener, "advisor": advisor}
    if len(sys.argv) > 1 and sys.argv[1] in agents:
        agents[sys.argv[1]](Memory(sys.argv[2], sys.argv[3]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
