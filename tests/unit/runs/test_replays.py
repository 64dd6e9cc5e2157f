"""A replay is the same run: in any process, at any time, whatever was written since."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.testing.clocks import FixedClock
from rote.testing.postgres import database_url
from rote.values import decode
from tests.lanes import examples
from tests.unit.runs.agent import NAME

ROOT = Path(__file__).parents[3]
ROUNDS = {"sqlite": examples(2, 50), "postgres": examples(1, 50)}
ZONES = ["Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "UTC", "Africa/Cairo"]
# The last two are not installed everywhere; then they count as C.
LOCALES = ["C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.ISO-8859-1"]
HOUR = 3_600


def environment(number: int) -> dict[str, str]:
    """Return the environment of process `number`; no two are alike."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONHASHSEED": str(1 + number),
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "TZ": ZONES[number % len(ZONES)],
        "LC_ALL": LOCALES[number % len(LOCALES)],
    }


def told(verb: str, url: str, recording: Path, *, number: int) -> dict[str, Any]:
    """Return the output of the agent, in a process `number` days after the first one."""
    folder = recording.parent / f"process-{number}"
    folder.mkdir()
    ended = subprocess.run(
        [sys.executable, "-m", "tests.unit.runs.agent", verb, url, str(recording), str(number)],
        cwd=folder, env=environment(number), capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr.decode()) == (0, "")
    answer: dict[str, Any] = decode(ended.stdout)
    return answer


@pytest.mark.parametrize("engine", ROUNDS)
def test_a_replay_elsewhere_and_days_later_is_equivalent(tmp_path: Path, engine: str) -> None:
    url = str(tmp_path / "memory.db") if engine == "sqlite" else database_url(tmp_path)
    with rote.open(url, clock=FixedClock()) as store:
        memory = rote.Memory(store.space(NAME))
        memory.put("ops", "fact", "keys", {"text": "The vault has the keys."}, ttl_seconds=HOUR)
        memory.put("ops", "fact", "öl", {"text": "Keys rust; öl them."})
    recording = tmp_path / "recording.jsonl"
    recorded = told("record", url, recording, number=0)
    assert (recorded["state"], recorded["calls"]) == ("commit_applied", 3)
    answers = []
    with rote.open(url, clock=FixedClock()) as store:
        space = store.space(NAME)
        for number in range(1, ROUNDS[engine] + 1):
            text = "vault keys " * number
            version = rote.Memory(space).put("ops", "fact", "keys", {"text": text})["version"]
            answers.append(told("replay", url, recording, number=number))
            assert space.version == version
        assert space.verify().ok

    for replayed in answers:
        assert rote.check_trace(replayed["trace"], replayed["retrieval"]).ok
        report = rote.compare_traces(
            recorded["trace"],
            replayed["trace"],
            left_retrieval=recorded["retrieval"],
            right_retrieval=replayed["retrieval"],
        )
        assert (report.status, report.failures) == ("equivalent", ())
        assert replayed["package_hashes"] == recorded["package_hashes"]
        assert replayed["payload_fingerprint"] == recorded["payload_fingerprint"]
        assert (replayed["state"], replayed["calls"]) == ("buffer_open", 0)
    # The processes differed in everything that could have shown: hash seed, zone and number.
    witnesses = [answer["witness"][:3] for answer in (recorded, *answers)]
    assert all(len(set(seen)) > 1 for seen in zip(*witnesses, strict=True))
