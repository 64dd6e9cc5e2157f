import os
from pathlib import Path

import apsw
import pytest

from rote.cli.demo.tampering import change_byte, places_of
from rote.cli.doctor import look_into
from rote.engines.sqlite.checksums import checked
from rote.errors import Corrupt
from rote.opening import open as open_store
from rote.values import decode
from tests.unit.cli.command import json_error_of, run, run_json, run_ok


@pytest.fixture
def store(store_path: Path) -> Path:
    with open_store(store_path) as opened:
        opened.space("default").set("urn:entity:ada", 1)
        opened.space("other")
    return store_path


def keys(store: Path) -> Path:
    return store.with_name(store.name + ".keys")


def test_doctor_of_a_sound_store_exits_0(store: Path) -> None:
    said = run_ok("doctor", store=store)
    assert said.splitlines()[-1].startswith("ok: ")
    assert f"store\t{store}\n" in said
    assert "space default\tversion 1, head " in said


def test_doctor_json_tells_versions_places_sizes_and_spaces(store: Path) -> None:
    found = run_json("doctor", store=store)
    assert found["ok"] is True
    assert found["versions"].keys() == {"rote", "python", "apsw", "sqlite"}
    assert found["store"]["size_bytes"] == store.stat().st_size
    assert found["store"]["mode"] == "0600"
    assert found["keys"] == {"path": str(keys(store)), "mode": "0700", "files": 2}
    assert [(space["name"], space["version"]) for space in found["spaces"]] == [
        ("default", 1),
        ("other", 0),
    ]
    assert found["problems"] == found["notes"] == []


@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_doctor_finds_keys_that_others_may_read(store: Path) -> None:
    key = next(keys(store).iterdir())
    key.chmod(0o644)
    result = run("doctor", store=store)
    assert result.exit_code == 1
    assert f"problem: other users may reach {key}" in result.stdout


def test_doctor_notes_keys_that_are_missing_and_finds_no_problem(store: Path) -> None:
    for key in keys(store).iterdir():
        key.unlink()
    found = run_json("doctor", store=store)
    assert (found["ok"], len(found["notes"])) == (True, 2)


def test_doctor_finds_a_file_that_is_damaged(store: Path) -> None:
    # The first bytes are those of a database.
    change_byte(store, 0, b"X")
    result = run("doctor", "--json", store=store)
    found = decode(result.stdout)
    assert isinstance(found, dict)
    assert (result.exit_code, found["ok"], len(found["problems"])) == (1, False, 1)


def test_doctor_finds_a_changed_value_in_a_small_store(store: Path) -> None:
    run_ok("set", "urn:entity:bob", '"peppermint"', store=store)
    [place] = places_of(store, b"peppermint")
    change_byte(store, place, b"P")
    result = run("doctor", store=store)
    assert result.exit_code == 1
    assert "problem: space default: fact urn:entity:bob at version 2" in result.stdout


def test_the_look_into_a_large_store_finds_a_missing_commit(store: Path) -> None:
    with open_store(store) as opened:
        space = opened.space("default")
        for number in range(120):
            space.set("urn:entity:ada", number)
        look_into(space)
    connection = apsw.Connection(str(store), vfs=checked())
    connection.execute("delete from commits where version = 120")
    connection.close()
    with (
        open_store(store) as opened,
        pytest.raises(Corrupt, match="commit 120 is missing"),
    ):
        look_into(opened.space("default"))


def test_doctor_of_a_missing_store_tells_the_versions_and_cannot_say(store_path: Path) -> None:
    result = run("doctor", "--json", store=store_path)
    assert result.exit_code == 2
    assert str(json_error_of(result)["message"]).startswith("there is no store at ")
    assert '"ok":null' in result.stdout
    assert not store_path.exists()
