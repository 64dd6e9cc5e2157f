"""The commands on a PostgreSQL server: they work, and never show the user or the password."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rote.testing.postgres import database_url
from rote.values import decode
from tests.unit.cli.command import error_of, run

SECRET = "canary-7f3a"
ID = "urn:entity:ada"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a URL with a password, which the server of the tests does not ask for."""
    plain = urlsplit(database_url(tmp_path))
    user, _, place = plain.netloc.partition("@")
    return plain._replace(netloc=f"{user}:{SECRET}@{place}").geturl()


def said(*args: str, url: str) -> str:
    result = run(*args, "--store", url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert SECRET not in result.stdout
    return result.stdout


def test_every_command_works_on_a_server(url: str, tmp_path: Path) -> None:
    said("set", ID, '{"n":1}', url=url)
    said("patch", ID, '[{"op":"replace","path":"/n","value":2}]', url=url)
    assert decode(said("get", ID, "--json", url=url))["value"] == {"n": 2}
    assert len(said("log", url=url).splitlines()) == 2
    assert len(said("history", ID, url=url).splitlines()) == 2
    assert said("log", "--oldest", "--limit", "1", url=url).startswith("1\t")
    assert decode(said("show", "2", "--json", url=url))["version"] == 2
    assert said("list", url=url) == f'{ID}\t2\t{{"n":2}}\n'
    assert said("spaces", url=url).startswith("default\t2\t")
    assert said("blob", "list", url=url) == ""
    assert said("verify", url=url).startswith("ok: ")
    assert decode(said("checkpoint", "--json", url=url))["version"] == 2
    said("delete", ID, url=url)
    assert run("get", ID, "--store", url).exit_code == 1
    said("backup", str(tmp_path / "copy.db"), url=url)
    assert run("log", "--store", str(tmp_path / "copy.db")).stdout == said("log", url=url)


def test_a_space_is_copied_from_and_to_a_server(url: str, tmp_path: Path) -> None:
    said("set", ID, "1", url=url)
    file, back = str(tmp_path / "copy.db"), str(tmp_path / "back")
    Path(back).mkdir()
    for source, target in ((url, file), (file, database_url(Path(back)))):
        result = run("copy", source, target)
        assert result.exit_code == 0, result.stderr
        assert SECRET not in result.stdout + result.stderr
        assert run("log", "--store", target).stdout == said("log", url=url)


def test_doctor_names_the_server_and_the_folder_of_keys(url: str, tmp_path: Path) -> None:
    said("set", ID, "1", url=url)
    found = decode(said("doctor", "--json", url=url))
    assert found["ok"] is True
    assert found["store"]["server"].startswith("postgresql://")
    assert found["keys"]["path"] == str(tmp_path / ".rote" / "keys")
    assert [space["verified"] for space in found["spaces"]] == [True]
    assert said("doctor", url=url).splitlines()[-1].startswith("ok: ")


def test_a_server_without_a_store_is_not_found_and_stays_so(url: str) -> None:
    for _ in range(2):
        complaint = error_of(run("get", ID, "--store", url))
        assert "there is no store" in complaint
        assert SECRET not in complaint
