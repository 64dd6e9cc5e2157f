"""Commands about access: grants for signed requests, the ACL, and delegations that are revoked."""

from typing import Any

from msgspec import Struct
from msgspec.json import encode

from rote.access.acl import Acl, revoked
from rote.access.chains import read_chain
from rote.access.delegations import Delegation, parse_delegation, second_text
from rote.access.refusals import lacks_right
from rote.access.rights import covers
from rote.access.tokens import check_grant_seconds
from rote.contract import Commit
from rote.contract.commands import MakeCommit
from rote.contract.wire import encode_value
from rote.errors import Busy, Conflict, Denied, InvalidInput, NotFound
from rote.server.admission import AdmittedPort
from rote.server.gates import Look, refused
from rote.server.messages import Http, Response
from rote.server.routes import Route
from rote.server.rows import Asked, ServerRow, note_commit
from rote.server.statuses import JSON
from rote.values import micros_of
from rote.values.names import is_sha256
from rote.values.server_limits import ACL_LOOKS_MAX, GRANT_SECONDS_DEFAULT
from rote.values.times import MICROS_MAX

_MAIN = "main"
_SECOND = 1_000_000


# -- grants ----------------------------------------------------------------------------------------


class GrantAsked(Struct, frozen=True):
    """The arguments of `grant_create`."""

    seconds: int = GRANT_SECONDS_DEFAULT


class Granted(Struct, frozen=True):
    """A grant: it is sent as a bearer with any request from now on."""

    token: str
    expires: str
    principal: str


def _create_grant(asked: Asked) -> bytes:
    principal, service = asked.principal, asked.service
    check_grant_seconds(asked.arguments.seconds)
    if not principal.is_signed:
        raise Denied("a grant is given for a signed request", command="grant_create")
    chain = principal.chain
    if chain is not None and chain.fault is not None:
        raise InvalidInput(f"the delegations cannot be used: {chain.fault}", why=chain.fault)
    token, expires = service.home.create_grant(
        principal.name,
        [] if chain is None else [step.value for step in chain.steps],
        now=micros_of(service.clock.now()) // _SECOND,
        seconds=asked.arguments.seconds,
        ids=service.ids,
    )
    return encode(Granted(token, expires, principal.name))


class NothingAsked(Struct, frozen=True):
    """No arguments."""


def _end_grant(asked: Asked) -> bytes:
    if asked.principal.grant is None:
        raise Denied("only a grant ends itself; send it as the bearer", command="grant_end")
    asked.service.home.end_grant(asked.principal.grant)
    return b"{}"


def _grants(name: str) -> Any:
    def function(http: Http) -> Response:
        body = http.service.answer(http.principal, "", name, http.body, seen=http.seen)
        return Response(200, (JSON,), body)

    return function


# -- the ACL ---------------------------------------------------------------------------------------


class AclWritten(Struct, frozen=True):
    """The arguments of `acl_write`."""

    acl: Any
    key: str | None = None
    attempt: str | None = None


def _write_acl(asked: Asked) -> bytes:
    wanted: AclWritten = asked.arguments
    operation = {"op": "set", "id": asked.space, "value": wanted.acl}
    command = MakeCommit([operation], key=wanted.key, attempt=wanted.attempt)
    return _committed(asked, asked.port.answer(asked.space, command))


class RevokeAsked(Struct, frozen=True):
    """The arguments of `revoke`: a whole delegation, or its id."""

    delegation: Any = None
    id: Any = None
    proofs: Any = ()  # the chain that leads to the delegation, to show that one lent it


def _revoke(asked: Asked) -> bytes:
    assert isinstance(asked.port, AdmittedPort)
    port, space, principal = asked.port, asked.space, asked.principal
    for _ in range(ACL_LOOKS_MAX):
        look = port.look(space)
        acl, version = port.gates.acl(space)
        if look.version not in (None, version):
            continue
        try:
            id, expires = _revocation(look, acl, asked)
        except (NotFound, Denied):
            asked.seen.space = asked.seen.version = None  # nothing says that the space is there
            raise
        if acl is None:
            raise InvalidInput("the ACL cannot be read; an operator has to write it anew")
        changed = revoked(acl, id, expires, now=port.gates.now())
        operation = {"op": "set", "id": space, "value": changed.to_dict()}
        read = {"id": space, "version": version, "branch": _MAIN}
        try:
            ours = port.gates.port_of(principal.author)
            return _committed(asked, ours.answer(space, MakeCommit([operation], _MAIN, [read])))
        except Conflict:
            continue
    raise Busy("the ACL of the space keeps changing; try again")


def _revocation(look: Look, acl: Acl | None, asked: Asked) -> tuple[str, str]:
    """Return the id of a delegation and its end, for one who may revoke it."""
    wanted: RevokeAsked = asked.arguments
    owns = any(covers(held.right, "owner") for held in look.standing.held)
    if wanted.delegation is None:
        if not owns:
            raise _refused(look)
        if type(wanted.id) is not str or not is_sha256(wanted.id):
            raise InvalidInput("name a delegation, whole or by its id of 64 hexadecimal digits")
        return wanted.id, second_text(MICROS_MAX)
    try:
        delegation = parse_delegation(wanted.delegation)
    except InvalidInput:
        if look.standing.held:
            raise
        raise refused(look.standing, look.asked) from None
    if not owns and not _has_lent(asked, acl, delegation):
        raise _refused(look)
    if delegation.space != asked.space:
        raise InvalidInput("this delegation is for another space; revoke it there")
    return delegation.id, second_text(delegation.expires)


def _has_lent(asked: Asked, acl: Acl | None, delegation: Delegation) -> bool:
    """Whether the principal is an issuer in a chain that the ACL lets in and that ends so."""
    proofs = list(asked.arguments.proofs) if type(asked.arguments.proofs) in (list, tuple) else []
    if not proofs or proofs[-1] != delegation.value:
        proofs.append(delegation.value)
    chain = read_chain(proofs, delegation.audience)
    return (
        acl is not None
        and chain.fault is None
        and all(step.space == asked.space for step in chain.steps)
        and acl.right_of(chain.steps[0].issuer, asked.space) is not None
        and asked.principal.name in [step.issuer for step in chain.steps]
    )


def _refused(look: Look) -> Exception:
    return (
        lacks_right("revoke", "owner") if look.standing.held else refused(look.standing, look.asked)
    )


def _committed(asked: Asked, commit: Commit) -> bytes:
    note_commit(asked.seen, commit)
    return encode_value(commit)


ACCESS_ROWS = (
    ServerRow(
        "grant_create", "authenticated", "free", False, GrantAsked, _create_grant, way="routes",
        answers=Granted,
    ),
    ServerRow(
        "grant_end", "authenticated", "free", False, NothingAsked, _end_grant, way="routes",
        answers=None,
    ),
    ServerRow(
        "acl_write", "owner", "none", True, AclWritten, _write_acl, bound="commit_bytes",
        commits=True, answers=Commit,
    ),
    ServerRow(
        "revoke", "owner", "free", True, RevokeAsked, _revoke, commits=True, answers=Commit
    ),
)  # fmt: skip
ACCESS_ROUTES = (
    Route("POST", "/v1/grants", "grant_create", _grants("grant_create"), answer=Granted),
    Route("DELETE", "/v1/grants", "grant_end", _grants("grant_end")),
)
