from pathlib import PurePosixPath

import pytest

from rote.errors import InvalidInput
from rote.settings import HostSettings, read_host

FOLDER = PurePosixPath("/there")
SETTINGS = b"""
[environments.test]
modes = ["off"]

[host]
profile = "operator-controlled"
redact = ["password"]
cache = { path = "warm.cache", max_entries = 5 }

[host.fs]
sandbox_root = "/elsewhere/out"

[host.sqlite]
path = "data/m.db"
allow_tables = ["metrics"]

[host.agent]
root = "mailbox"

[host.grant]
adapters = ["cache"]

[host.limits]
max_adapter_calls = 3
"""


def read(data: bytes) -> HostSettings | None:
    return read_host(data, folder=FOLDER, place="there/rote.toml")


def test_a_host_has_the_options_of_its_settings_with_paths_from_their_folder() -> None:
    assert read(SETTINGS) == HostSettings(
        "operator-controlled",
        {
            "redact": ["password"],
            "cache": {"path": "/there/warm.cache", "max_entries": 5},
            "fs": {"sandbox_root": "/elsewhere/out"},
            "sqlite": {"path": "/there/data/m.db", "allow_tables": ["metrics"]},
            "agent": {"root": "/there/mailbox"},
            "grant": {"adapters": ["cache"]},
            "limits": {"max_adapter_calls": 3},
        },
    )


def test_a_host_is_minimal_unless_it_says_otherwise() -> None:
    assert read(b"[host]") == HostSettings("minimal", {})
    assert read(b"") is None
    assert read(b"[environments.x]") is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[host", "no TOML"),
        (b"\xff", "no TOML"),
        (b"[hosts]", "no table 'hosts'; there are environments, host"),
        (b"host = 1", r"host is a table: \[host\]"),
        (b"[[host]]", "host is a table"),
        (b"[host]\nprofil = 'minimal'", "'profil'; there are profile, cache, .*, redact"),
        (b"[host]\nprofile = 1", "profile of host is a text"),
        (b"[host]\nstore = 'rote.db'", "--store"),
        (b"[host]\nspace = 'notes'", "--space"),
        (b"[host]\nclock = 1", "no 'clock'"),
        (b"[host]\ncache = 'warm.cache'", r"cache is a table: \[host.cache\]"),
        (b"[host]\nlimits = 5", r"\[host.limits\]"),
        (b"[host]\ngrant = []", r"\[host.grant\]"),
        (b"#" * (1024 * 1024 + 1), "larger"),
    ],
)
def test_what_is_no_host_is_refused_and_the_file_is_named(data: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as error:
        read(data)
    assert "there/rote.toml" in str(error.value)
