"""What a page of commits must look like before anything in it is compared, looked up or hashed.

A page may come from anywhere, and Python takes True for 1 and a text for bytes until it is too late.
"""

from types import NoneType
from typing import Any

from rote.contract import Commit, CopyPage, Fact, Remains, SideRow
from rote.errors import Corrupt
from rote.values.limits import INTEGER_MAX

_Fields = tuple[tuple[str, tuple[type, ...]], ...]

_PAGE: _Fields = (("commits", (tuple,)), ("keys", (tuple,)), ("remains", (tuple,)))
_COMMIT: _Fields = (
    ("version", (int,)),
    ("hash", (str,)),
    ("previous", (str, NoneType)),
    ("branch", (str,)),
    ("facts", (tuple,)),
    ("at", (str,)),
    ("author", (str, NoneType)),
    ("key", (str, NoneType)),
    ("meta_data", (bytes, NoneType)),
    ("event", (dict, NoneType)),
)
_FACT: _Fields = (
    ("id", (str,)),
    ("op", (str,)),
    ("data", (bytes, NoneType)),
    ("salt", (str, NoneType)),
    ("parent", (str,)),
    ("hash", (str,)),
    ("version", (int,)),
    ("index", (int,)),
    ("commit", (str,)),
    ("erased", (bool,)),
)
_REMAINS: _Fields = (("version", (int,)), ("body", (str, NoneType)), ("value", (str, NoneType)))
# The body is anything; whoever reads it looks at it.
_SIDE_ROW: _Fields = (("kind", (str,)), ("key", (str,)), ("fence", (int,)))


def check_page(page: CopyPage) -> None:
    """Corrupt when a field is of another type than it says, or a version is none."""
    _check(page, CopyPage, _PAGE, "the page")
    for row in page.keys:
        _check(row, SideRow, _SIDE_ROW, "a key row")
    for commit in page.commits:
        _check(commit, Commit, _COMMIT, "a commit")
        if not 1 <= commit.version <= INTEGER_MAX:
            raise _refusal("a commit", "version")
        for fact in commit.facts:
            _check(fact, Fact, _FACT, f"a fact of commit {commit.version}")
    for remains in page.remains:
        _check(remains, Remains, _REMAINS, "what remains of an erased fact")
    if len(page.remains) != sum(fact.erased for commit in page.commits for fact in commit.facts):
        raise _refusal("the page", "remains")


def _check(value: Any, kind: type, fields: _Fields, what: str) -> None:
    if type(value) is not kind:
        raise _refusal(what, "type")
    for name, types in fields:
        if type(getattr(value, name)) not in types:
            raise _refusal(what, name)


def _refusal(what: str, name: str) -> Corrupt:
    return Corrupt(
        f"{what} of the source cannot be one: its {name} is malformed; nothing of the page was"
        " copied, run `rote verify` on the source"
    )
