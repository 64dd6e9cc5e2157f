"""Principals: what each kind of them holds in a space."""

from rote.access.acl import UNWRITTEN, Acl, granted
from rote.access.chains import read_chain
from rote.access.principals import Principal, Standing, standing_in
from rote.access.rights import Held
from rote.access.tokens import TokenRight
from rote.testing.keys import NOW, did_of, lend

SPACE, ADA, BEN = did_of("space"), did_of("ada"), did_of("ben")
ACL = granted(UNWRITTEN, ADA, "write")


def standing(principal: Principal, acl: Acl | None = ACL, space: str = SPACE) -> Standing:
    return standing_in(principal, space, acl, now=NOW)


def test_an_operator_holds_everything_whatever_the_acl_says() -> None:
    operator = Principal("operator", None, is_operator=True)
    for acl in (ACL, UNWRITTEN, None):
        assert standing(operator, acl) == Standing((Held("operator"),))


def test_a_token_holds_what_its_record_says_and_the_acl_is_not_asked() -> None:
    token = Principal("token:a", "token:a", bound=TokenRight("write", SPACE, "urn:a:"))
    for acl in (ACL, granted(UNWRITTEN, "*", "owner"), None):
        assert standing(token, acl) == Standing((Held("write", "urn:a:"),))
        assert standing(token, acl, space=did_of("other")) == Standing()
    everywhere = Principal("token:b", "token:b", bound=TokenRight("read"))
    assert standing(everywhere, None, space=did_of("other")) == Standing((Held("read"),))


def test_a_did_holds_what_the_acl_says() -> None:
    assert standing(Principal("nobody", None), granted(UNWRITTEN, "*", "owner")) == Standing()
    assert standing(Principal(ADA, ADA)) == Standing((Held("write"),))
    assert standing(Principal(BEN, BEN)) == Standing()
    assert standing(Principal(SPACE, SPACE), UNWRITTEN) == Standing((Held("owner"),))
    assert standing(Principal(SPACE, SPACE), None) == Standing()


def test_a_did_holds_its_own_right_and_that_of_its_chain() -> None:
    chain = read_chain([lend("space", "ada", space=SPACE, right="owner", path="urn:a:")], ADA)
    both = standing(Principal(ADA, ADA, chain=chain))
    assert both == Standing((Held("write"), Held("owner", "urn:a:", is_lent=True)))
    closed = standing(Principal(ADA, ADA, chain=chain), Acl({ADA: "read"}, has_root=False))
    assert closed == Standing((Held("read"),), "space")
    assert standing(Principal(ADA, ADA, chain=read_chain(1, ADA)), None) == Standing((), "shape")
