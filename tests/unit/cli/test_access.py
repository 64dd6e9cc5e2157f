"""The commands about access: token, acl, key and delegate."""

import stat
from pathlib import Path

import pytest

import rote
from rote.opening import open as open_store
from rote.testing.keys import did_of, lend
from rote.values import decode
from tests.unit.cli.command import error_of, run, run_json, run_ok

ADA, BEN = did_of("ada"), did_of("ben")


@pytest.fixture
def store(store_path: Path) -> Path:
    with open_store(store_path) as opened:
        opened.space("default").set("urn:a", 1)
    return store_path


def did_in(store: Path) -> str:
    with open_store(store) as opened:
        return opened.space("default").did


# -- tokens ----------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_never_stored(store: Path) -> None:
    made = run_json("token", "create", "reader", "--expires", "90d", store=store)
    assert made.keys() == {"token", "name", "id", "right", "space", "path", "expires"}
    assert (made["right"], made["space"], made["path"]) == ("read", None, None)
    token = made["token"]
    assert token.startswith(f"rote_{made['id']}_")
    assert token[-43:] not in run_ok("token", "list", store=store)
    assert token[-43:].encode() not in store.read_bytes()
    assert run_ok("token", "create", "more", store=store).startswith("rote_")


def test_tokens_are_listed_and_revoked(store: Path) -> None:
    bound = ("--right", "write", "--space", "default", "--path", "urn:notes:")
    run_ok("token", "create", "writer", *bound, store=store)
    run_ok("token", "create", "boss", "--operator", store=store)
    (boss, writer) = run_json("token", "list", store=store)
    assert (boss["name"], boss["right"], boss["revoked"]) == ("boss", "operator", False)
    assert (writer["space"], writer["path"]) == (did_in(store), "urn:notes:")
    lines = [line.split("\t")[:4] for line in run_ok("token", "list", store=store).splitlines()]
    assert lines == [["boss", "operator", "all", ""], ["writer", "write", "default", "urn:notes:"]]
    assert run_ok("token", "revoke", "writer", store=store) == "token writer revoked\n"
    assert run_json("token", "list", store=store)[1]["revoked"] is True
    assert run("token", "revoke", "writer", store=store).exit_code == 1
    assert run("token", "revoke", "nobody", store=store).exit_code == 1
    assert "was used before" in error_of(run("token", "create", "writer", store=store))


@pytest.mark.parametrize(
    "words",
    [
        ("start",),
        ("A",),
        ("x", "--right", "all"),
        ("x", "--right", "operator"),
        ("x", "--path", "a"),
        ("x", "--expires", "soon"),
        ("x", "--expires", "0d"),
        ("x", "--operator", "--path", "urn:a"),
        ("x", "--operator", "--right", "read"),
    ],
)
def test_bad_tokens_make_no_store(store_path: Path, words: tuple[str, ...]) -> None:
    assert run("token", "create", *words, store=store_path).exit_code == 2
    assert not store_path.exists()


def test_a_list_of_tokens_makes_nothing(store: Path, store_path: Path) -> None:
    assert run_json("token", "list", store=store) == []
    with open_store(store) as opened:
        assert [space.name for space in opened.spaces()] == ["default"]
    assert run("token", "list", store=store_path.with_name("none.db")).exit_code == 2
    assert run("token", "revoke", "x", store=store).exit_code == 1
    assert run("token", "create", "x", "--space", "none", store=store).exit_code == 2


# -- the ACL ---------------------------------------------------------------------------------------


def test_the_acl_is_shown_and_changed(store: Path) -> None:
    assert "nothing was granted" in run("acl", "show", store=store).stderr
    assert run_json("acl", "show", store=store) is None
    assert f"{ADA} may do everything, at version 2" in run_ok(
        "acl", "grant", ADA, "owner", store=store
    )
    run_ok("acl", "grant", BEN, "read", store=store)
    assert run_ok("acl", "show", store=store).splitlines()[-1].split("\t")[1] in ("read", "owner")
    assert run_json("acl", "withdraw", BEN, store=store)["version"] == 4
    run_ok("acl", "rotate", ADA, BEN, store=store)
    assert run_json("acl", "show", store=store)["grants"] == {BEN: "owner"}
    assert "named owner" in error_of(run("acl", "withdraw", BEN, store=store))
    assert run("acl", "grant", "ben", "read", store=store).exit_code == 2


def test_a_delegation_is_revoked_whole_or_by_its_id(store: Path, tmp_path: Path) -> None:
    lent = lend("ada", "ben", space=did_in(store), now=2**52)
    file = tmp_path / "lent.json"
    file.write_bytes(rote.canonical(lent))
    run_ok("acl", "revoke", f"@{file}", store=store)
    run_ok("acl", "revoke", "a" * 64, store=store)
    assert "a" * 64 in run_json("acl", "show", store=store)["revoked"]
    assert len(run_json("acl", "show", store=store)["revoked"]) == 2
    assert run("acl", "revoke", "{}", store=store).exit_code == 2


# -- keys and delegations --------------------------------------------------------------------------


def key_ok(*words: str) -> str:
    result = run("key", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.strip()


def test_a_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "key"
    did = key_ok("new", str(file))
    assert did.startswith("did:key:z")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert key_ok("did", str(file)) == did
    before = file.read_bytes()
    assert "never overwritten" in error_of(run("key", "new", str(file)))
    assert file.read_bytes() == before
    assert len(bytes.fromhex(before.decode())) == 32


@pytest.mark.parametrize(
    "content", [b"", b"xyz", b"00" * 31, b"00" * 33, b"0 0" + b"0" * 62, b"\xff" * 64]
)
def test_a_file_without_a_key_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    words = error_of(run("key", "did", str(file)))
    assert "there is no key in" in words
    assert not content or content.decode("latin-1") not in words
    assert run("key", "did", str(tmp_path / "none")).exit_code == 2


def test_a_right_is_lent_by_a_key(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "key"
    issuer = key_ok("new", str(file))
    lent_by = ("delegate", "--key", str(file), "--to")
    words = (*lent_by, BEN, "--right", "write", "--path", "urn:a:", "--seconds", "60")
    for space in ("default", did_in(store)):
        lent = decode(run_ok(*words, "--space", space, store=store))
        assert isinstance(lent, dict)
        assert (lent["iss"], lent["aud"], lent["sub"]) == (issuer, BEN, did_in(store))
        assert (lent["right"], lent["path"]) == ("write", "urn:a:")
    nowhere = tmp_path / "none.db"
    assert run(*words, "--space", did_in(store), store=nowhere).exit_code == 0
    assert not nowhere.exists()
    assert run(*lent_by, "ben", store=store).exit_code == 2
    assert run(*lent_by, BEN, "--right", "all", store=store).exit_code == 2
