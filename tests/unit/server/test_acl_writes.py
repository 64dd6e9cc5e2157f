"""The ACL and delegations through a server: who writes them, and what they allow from then on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rote
from rote.access.principals import Principal
from rote.contract import Caller, PortLayer
from rote.contract.commands import (
    Command,
    Compact,
    CreateBranch,
    DeleteBranch,
    DropSide,
    Erase,
    GetSide,
    MakeCommit,
    Merge,
    PutBlob,
    PutPiece,
    PutSide,
    Read,
    Work,
)
from rote.errors import Denied, NotFound
from rote.kernel.kernel import TABLE as KERNEL
from rote.opening.sources import SystemClock
from rote.server.admission import Admission
from rote.server.table import TABLE
from rote.space.sources import port_of_store
from rote.testing.keys import did_of
from rote.values import canonical
from tests.callers import Served, Signer, serving_notes, told

A, B = "urn:entity:a", "urn:other:b"
ADA, BEN, CYD = did_of("ada"), did_of("ben"), did_of("cyd")


@pytest.fixture
def served() -> Iterator[Served]:
    with serving_notes() as served:
        yield served


# -- the ACL ------------------------------------------------------------------------------------


def test_the_acl_is_written_alone_on_main_by_an_owner(served: Served) -> None:
    did = served.notes.did
    served.notes.create_branch("side")
    good = {"op": "set", "id": did, "value": served.acl({ADA: "owner", BEN: "read"})}
    alone = (403, {"reason": "acl_alone", "command": "commit"})
    for caller in (served.operator, served.ada):
        version = served.notes.version
        for given in (
            {"operations": [good, {"op": "set", "id": A, "value": 1}]},
            {"operations": [{"op": "set", "id": A, "value": 1}, good]},
            {"operations": [good], "branch": "side"},
            {"operations": [{"op": "delete", "id": did}]},
            {"operations": [{**good, "stamp": ["/at"]}]},
        ):
            assert told(caller.command("commit", given)) == alone
        assert served.notes.version == version
    assert told(served.ben.command("commit", {"operations": [good]})) == (
        403, {"command": "commit", "needs": "owner"},
    )  # fmt: skip
    pathed = served.token("pathed", right="owner", path="did:")
    assert pathed.command("commit", {"operations": [good]}).status == 403
    written = served.ada.command("commit", {"operations": [good]})
    assert (written.status, written.json["author"]) == (200, ADA)
    assert served.notes.acl() == good["value"]
    assert served.ben.set(A).status == 403


def test_an_acl_that_is_not_well_formed_is_refused(served: Served) -> None:
    did = served.notes.did
    values: list[Any] = [
        None, 1, {}, served.acl({"ada": "owner"}), served.acl({ADA: "all"}), {**served.acl({}), "x": 1},
        served.acl({"*": "owner"}, root="none"), served.acl({ADA: "write"}, root="none"),
    ]  # fmt: skip
    version = served.notes.version
    for value in values:
        operation = {"op": "set", "id": did, "value": value}
        assert served.ada.command("commit", {"operations": [operation]}).status == 400
        assert served.ada.command("acl_write", {"acl": value}).status == 400
        assert (
            served.ada.ask("PUT", f"/v1/spaces/notes/entity?id={did}", canonical(value)).status
            == 400
        )
    bad = [{"op": "add", "path": "/grants/x", "value": "read"}]
    assert (
        served.ada.command(
            "commit", {"operations": [{"op": "patch", "id": did, "ops": bad}]}
        ).status
        == 400
    )
    assert served.notes.version == version
    good = [{"op": "add", "path": f"/grants/{CYD}", "value": "read"}]
    patch = {"operations": [{"op": "patch", "id": did, "ops": good}]}
    assert served.ada.command("commit", patch).status == 200
    assert (served.notes.acl() or {})["grants"] == {ADA: "owner", BEN: "write", CYD: "read"}


def test_the_acl_is_read_and_written_by_its_commands(served: Served) -> None:
    acl = served.acl({ADA: "owner", BEN: "read"})
    assert served.ada.command("acl_write", {"acl": acl, "key": "k"}).status == 200
    assert served.ada.command("acl_write", {"acl": acl, "key": "k"}).status == 200
    assert served.ben.command("acl_read").json == {"acl": acl, "version": served.notes.version}
    assert served.ben.command("acl_write", {"acl": acl}).status == 403
    assert served.ben.set(A).status == 403


def test_no_merge_erasure_or_run_changes_the_acl(served: Served) -> None:
    did = served.notes.did
    side = served.notes.create_branch("side")
    side.set(A, 5)
    side.set(did, served.acl({BEN: "owner"}))  # an embedded program can write anything
    for caller in (served.operator, served.ada):
        for given in ({"source": "side"}, {"source": "side", "on_conflict": "theirs"}):
            assert caller.command("merge", given).json["error"]["details"]["reason"] == "acl_alone"
        resolutions = {did: {"value": served.acl({BEN: "owner"})}}
        for given in ({"source": "side"}, {"source": "main", "target": "side"}):
            reply = caller.command("merge", {**given, "resolutions": resolutions})
            assert reply.json["error"]["details"]["reason"] == "acl_alone"
        named: list[dict[str, Any]] = [
            {"id": did}, {"ids": [A, did]}, {"prefix": "did:"}, {"prefix": ""},
        ]  # fmt: skip
        for each in named:
            reply = caller.command("erase", {"reason": "x", **each})
            assert reply.json["error"]["details"]["reason"] == "acl_alone", each
    assert (served.notes.acl() or {})["grants"] == {ADA: "owner", BEN: "write"}


def test_a_merge_that_leaves_the_acl_alone_is_made(served: Served) -> None:
    side = served.notes.create_branch("side")
    side.set(A, 5)
    served.notes.grant(CYD, "read")  # main's has moved since the branch was made
    assert served.ben.command("merge", {"source": "side"}).json["status"] == "merged"
    back = {"source": "main", "target": "side"}
    assert served.ben.command("merge", back).status == 200
    reader = served.token("reader", right="read")
    assert reader.command("merge", {"source": "side", "dry_run": True}).status == 200
    assert told(reader.command("merge", {"source": "side"}))[1] == {
        "command": "merge",
        "needs": "write",
    }


@pytest.mark.parametrize("how", ["delete", "erase", "nonsense"])
def test_an_acl_that_cannot_be_read_leaves_operators_alone(served: Served, how: str) -> None:
    did = served.notes.did
    if how == "delete":
        served.notes.delete(did)
    elif how == "erase":
        served.notes.erase(did, reason="x")
    else:
        served.notes.set(did, {"kind": "acl/1", "grants": {ADA: "owner"}, "more": 1})
    assert served.ada.read(A).status == 404
    assert served.ben.set(A).status == 404
    assert served.operator.read(A).status == 200
    if how != "erase":
        assert (
            served.operator.command("acl_write", {"acl": served.acl({ADA: "owner"})}).status == 200
        )
        assert served.ada.read(A).status == 200


def test_a_conflict_does_not_tell_of_the_acl(served: Served) -> None:
    reply = served.ben.set(A, 3, reads=[{"id": A, "version": 0}])
    assert reply.status == 409
    assert [each["id"] for each in reply.json["error"]["details"]["conflicts"]] == [A]


# -- delegations --------------------------------------------------------------------------------


def test_a_write_under_a_chain_keeps_its_delegations(served: Served) -> None:
    steps = [served.lend("ada", "cyd"), served.lend("cyd", "dan", path="urn:entity:", seconds=60)]
    dan = Signer(served.server, "dan", proofs=steps).granted()
    assert dan.read(A).status == 200
    kept = served.operator.command("sides", {"kind": "delegation"}).json["rows"]
    assert kept == []
    assert dan.set(A, 3).json["author"] == did_of("dan")
    assert dan.set(B, 3).status == 403
    kept = served.operator.command("sides", {"kind": "delegation"}).json["rows"]
    assert sorted(canonical(row["body"]) for row in kept) == sorted(map(canonical, steps))


def test_an_own_right_and_a_chain_each_are_enough(served: Served) -> None:
    served.notes.grant(CYD, "read")
    cyd = Signer(
        served.server, "cyd", proofs=[served.lend("ada", "cyd", path="urn:entity:")]
    ).granted()
    assert cyd.read(B).status == 200
    assert cyd.set(A, 3).status == 200
    assert cyd.set(B, 3).status == 403
    void = Signer(served.server, "cyd", proofs=[served.lend("eve", "cyd")]).granted()
    assert void.read(B).status == 200
    assert void.set(A, 3).status == 403


def test_a_delegation_is_revoked_by_who_lent_it_or_by_an_owner(served: Served) -> None:
    first, second = served.lend("ben", "cyd"), served.lend("cyd", "dan", seconds=60)
    dan = Signer(served.server, "dan", proofs=[first, second]).granted()
    cyd = Signer(served.server, "cyd", proofs=[first]).granted()
    eve = Signer(served.server, "eve").granted()
    assert eve.command("revoke", {"delegation": second}).status == 404
    assert eve.command("revoke", {"delegation": served.lend("eve", "dan")}).status == 404
    assert served.ben.command("revoke", {"id": "0" * 64}).status == 403
    assert (
        served.ben.command("revoke", {"delegation": second}).status == 403
    )  # no proof that it is below
    assert dan.command("revoke", {"delegation": second, "proofs": [first]}).status == 403
    assert dan.set(A).status == 200
    version = served.notes.version
    revoked = served.ben.command("revoke", {"delegation": second, "proofs": [first]})
    assert (revoked.json["version"], revoked.json["author"]) == (version + 1, BEN)
    assert told(dan.set(A)) == (401, {"reason": "proofs", "why": "space"})
    assert cyd.set(A).status == 200
    assert served.ada.command("revoke", {"delegation": first}).status == 200
    assert told(cyd.set(A)) == (401, {"reason": "proofs", "why": "space"})


def test_losing_a_right_voids_what_was_lent(served: Served) -> None:
    cyd = Signer(served.server, "cyd", proofs=[served.lend("ben", "cyd")]).granted()
    assert cyd.set(A).status == 200
    served.notes.grant(BEN, "read")
    assert told(cyd.set(A)) == (403, {"command": "commit", "needs": "write"})
    served.notes.withdraw(BEN)
    assert told(cyd.read(A)) == (401, {"reason": "proofs", "why": "space"})


def test_who_lends_the_whole_space_lends_its_acl(served: Served) -> None:
    whole = Signer(
        served.server, "cyd", proofs=[served.lend("ada", "cyd", right="owner")]
    ).granted()
    assert (
        whole.command("acl_write", {"acl": served.acl({ADA: "owner", CYD: "read"})}).status == 200
    )
    part = served.lend("ada", "dan", right="owner", path="did:")
    dan = Signer(served.server, "dan", proofs=[part]).granted()
    assert dan.command("acl_write", {"acl": served.acl({ADA: "owner"})}).status == 403


# -- between a look and a commit -------------------------------------------------------------------


class Meddling(PortLayer):
    """A port that lets something happen just before a command of a principal reaches the store."""

    meddle: Callable[[], object] | None = None

    def answer(self, space: str, command: Command[Any], /) -> Any:
        self._meddle(command)
        return super().answer(space, command)

    def begin(self, space: str, command: Work[Any], /) -> Any:
        self._meddle(command)
        return super().begin(space, command)

    def for_caller(self, caller: Caller, /) -> "Meddling":
        bound = Meddling(self._port.for_caller(caller))
        bound.owner = self
        return bound

    owner: "Meddling | None" = None

    def _meddle(self, command: Command[Any]) -> None:
        owner = self.owner
        if (
            owner is not None
            and owner.meddle is not None
            and not isinstance(command, Read | GetSide)
        ):
            meddle, owner.meddle = owner.meddle, None
            meddle()


WRITES: list[Command[Any]] = [
    MakeCommit([{"op": "set", "id": A, "value": 9}]),
    MakeCommit([{"op": "set", "id": A, "value": 9}], reads=[{"id": A, "version": 1}]),
    CreateBranch("new"),
    DeleteBranch("side"),
    Merge("side"),
    PutSide("note", "k", 1, 0),
    DropSide("note", "kept", 1),
    PutBlob(),
    Erase("a reason", id=A),
    Compact(before=2),
]


@pytest.mark.parametrize("command", WRITES, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("change", ["withdraw", "other"])
def test_a_write_holds_only_under_the_acl_of_its_commit(command: Command[Any], change: str) -> None:
    with rote.open(":memory:") as store:
        notes = store.space("notes")
        notes.set(A, 1)
        notes.create_branch("side").set(B, 2)
        notes.grant(ADA, "owner")
        notes.grant(BEN, "owner")
        port = port_of_store(store)
        port.answer(notes.did, PutSide("note", "kept", 1, 0))
        if isinstance(command, PutBlob):
            command = PutBlob(port.answer(notes.did, PutPiece(None, 0, b"some bytes")))
        meddling = Meddling(port)
        admission = Admission(meddling, open_creation=False, clock=SystemClock())
        row = TABLE[KERNEL.row(type(command)).name]
        admitted = admission.admit(Principal(BEN, BEN), row, "notes").port

        def ask() -> Any:
            if isinstance(command, Work):
                return admitted.begin(notes.did, command).result()
            return admitted.answer(notes.did, command)

        meddling.meddle = lambda: (
            notes.withdraw(BEN) if change == "withdraw" else notes.grant(CYD, "read")
        )
        if change == "other":
            ask()
            assert meddling.meddle is None
            return
        with pytest.raises(NotFound):
            ask()
        last = next(iter(notes.log(newest=True, limit=1)))
        assert (last.author, [fact.id for fact in last.facts]) == (None, [notes.did])
        assert port.answer(notes.did, GetSide("note", "k")) is None
        assert port.answer(notes.did, GetSide("note", "kept")) is not None


@pytest.mark.parametrize(
    "who", [Principal(BEN, BEN), Principal("operator", None, is_operator=True)]
)
def test_a_branch_that_moves_under_a_merge_does_not_bring_an_acl(who: Principal) -> None:
    with rote.open(":memory:") as store:
        notes = store.space("notes")
        notes.set(A, 1)
        notes.grant(BEN, "write")
        side = notes.create_branch("side")
        side.set(B, 2)
        meddling = Meddling(port_of_store(store))
        admission = Admission(meddling, open_creation=False, clock=SystemClock())
        admitted = admission.admit(who, TABLE["merge"], "notes").port
        acl = {"kind": "acl/1", "grants": {BEN: "owner"}}
        meddling.meddle = lambda: side.set(notes.did, acl)
        with pytest.raises(Denied) as raised:
            admitted.answer(notes.did, Merge("side"))
        assert raised.value.details["reason"] == "acl_alone"
        assert (notes.acl() or {})["grants"] == {BEN: "write"}
