"""A monitor that cools down, reads a table, writes a report, queues alerts and hands a task to an agent.

Run it: python examples/monitor.py [FOLDER]. It needs nothing but Rote. Every value that the monitor keeps
goes through one host, which grants, counts and records. So its run is repeated afterwards without the
table, the files and the store: the recording answers. With a new FOLDER everything stays there; look at
it with the commands that the program prints.
"""

import shlex
import sys
import tempfile
from pathlib import Path

import apsw

import rote
from rote import Host

DAY = "2026-03-02"
# All that the monitor may do, of what the host may.
GRANT = {
    "adapters": ["frame", "cache", "sqlite", "fs", "queue", "agent"],
    "verbs": {"queue": ["put"], "agent": ["send_task"], "fs": ["write"]},
    "sqlite": {"allow_write": False},
    "queue": {"queues": ["alerts"]},
    "agent": {"targets": ["oncall"]},
    "limits": {"max_adapter_calls": 20},
}
COMMANDS = ("queue depth alerts", "agent tasks", "agent task load-2026-03-02")


def monitor(host: Host, limit: float = 0.9) -> str:
    """Look at the machines once; say what was done."""
    with host.scope(grant=GRANT) as flow:
        if flow.cache.get("monitors", "load")["found"]:
            return "looked a moment ago; nothing to do"

        query = "SELECT host, load, phone FROM metrics WHERE load > ? ORDER BY host"
        busy = flow.sqlite.query(query, [limit])["rows"]
        flow.frame.set("busy", [row["host"] for row in busy])

        lines = [f"- {row['host']}: {row['load']}" for row in busy]
        flow.fs.write(f"/reports/{DAY}.md", "\n".join([f"# Load on {DAY}", *lines, ""]))
        for row in busy:
            alert = {"host": row["host"], "load": row["load"]}
            flow.queue.put("alerts", alert, key=f"{DAY} {row['host']}")
        flow.agent.send_task(task(busy))
        flow.cache.set("monitors", "load", DAY, ttl_seconds=600)
        return f"{', '.join(flow.frame.get('busy'))}: reported, queued and handed over"


def task(busy: list[dict[str, object]]) -> dict[str, object]:
    return {
        "schema_version": "1.0", "task_id": f"load-{DAY}", "requester_id": "monitor",
        "target_agent": "oncall", "task_type": "call the owners", "input": {"payload": busy},
    }  # fmt: skip


def answer_alerts(host: Host) -> int:
    """Work off the queue, as another program does; return how many alerts there were."""
    count = 0
    while message := host.queue.take("alerts")["message"]:
        # Here would be the work. When it fails, the lease runs out, and another one takes the message.
        host.queue.ack("alerts", message["id"], message["lease"])
        count += 1
    return count


def show(folder: Path) -> None:
    make_table(folder / "metrics.db")
    (folder / "out").mkdir()
    recording = folder / "monitor.jsonl"

    with (
        rote.open(folder / "rote.db") as store,
        Host(
            "operator-controlled",
            store=store,
            cache={"path": str(folder / "warm.cache")},
            sqlite={"path": str(folder / "metrics.db"), "allow_tables": ["metrics"]},
            fs={"sandbox_root": str(folder / "out"), "allow_extensions": [".md"]},
            redact=["phone"],
        ) as host,
    ):
        with host.record(recording):
            print(f"first:    {monitor(host)}")
        print(f"again:    {monitor(host)}")
        print(f"alerts:   {answer_alerts(host)} answered")
        print(f"task:     {host.agent.read_task(f'load-{DAY}')['input']['payload'][0]['phone']}")

    print(
        f"recorded: the phone number is {'' if b'555-01' in recording.read_bytes() else 'not '}in it"
    )
    # Neither a store nor a table nor a folder: every answer comes from the recording.
    with Host("operator-controlled", redact=["phone"]) as elsewhere:
        with elsewhere.replay(recording):
            print(f"replayed: {monitor(elsewhere)}")
        try:
            with elsewhere.replay(recording):
                monitor(elsewhere, limit=0.5)
        except rote.errors.InvalidInput as error:
            print(f"changed:  {error}")


def make_table(path: Path) -> None:
    rows = [("web-1", 0.97, "555-0101"), ("web-2", 0.31, "555-0102"), ("db-1", 0.99, "555-0103")]
    with apsw.Connection(str(path)) as table:
        table.execute("CREATE TABLE metrics(host, load, phone)")
        table.executemany("INSERT INTO metrics VALUES (?, ?, ?)", rows)


def main() -> None:
    if len(sys.argv) < 2:
        with tempfile.TemporaryDirectory() as passing:
            show(Path(passing))
        return
    folder = Path(sys.argv[1])
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        sys.exit(f"cannot make the folder {folder}: {error.strerror}; name a new one")
    show(folder)
    print("\nGo on with:")
    for command in COMMANDS:
        print(f"rote {command} --store {shlex.quote(str(folder.resolve() / 'rote.db'))}")


if __name__ == "__main__":
    main()
