"""Checks of the types in a page of commits, before anything in it is compared, looked up or hashed.

A page may come from anywhere, and Python lets True pass for 1 and fails late on a text instead of
bytes.
"""

from collections.abc import Collection, Iterable
from types import NoneType
from typing import Any

from rote.contract.copies import CopyPage, FoundationPage, LeftFact
from rote.contract.erasures import Remains
from rote.contract.facts import Commit, Fact
from rote.contract.requests import SideRow
from rote.errors import Corrupt
from rote.values.limits import INTEGER_MAX
from rote.values.names import is_sha256

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
# The body may be any JSON; its reader checks it.
_SIDE_ROW: _Fields = (("kind", (str,)), ("key", (str,)), ("fence", (int,)))


_FOUNDATION_PAGE: _Fields = (
    ("before", (int,)),
    ("version", (int,)),
    ("checkpoint", (dict,)),
    ("commits", (tuple,)),
    ("keys", (tuple,)),
    ("facts", (tuple,)),
    ("remains", (tuple,)),
)
_LEFT_FACT: _Fields = (
    ("branch", (str,)),
    ("id", (str,)),
    ("op", (str,)),
    ("version", (int,)),
    ("index", (int,)),
    ("hash", (str,)),
    ("parent", (str,)),
    ("salt", (str, NoneType)),
    ("data", (bytes, NoneType)),
    ("remains", (Remains, NoneType)),
)


def check_page(page: CopyPage) -> None:
    """Raise Corrupt when a field has another type than it declares, or a version is out of range."""
    _check(page, CopyPage, _PAGE, "the page")
    _check_commits(page.commits, page.keys, page.remains)


def check_foundation_page(page: FoundationPage) -> None:
    """Raise Corrupt as `check_page` does, and when a hash has no such form: hashes are stored as sent."""
    _check(page, FoundationPage, _FOUNDATION_PAGE, "the page")
    if not 1 <= page.before < page.version <= INTEGER_MAX:
        raise _refusal("the page", "version")
    _check_commits(page.commits, page.keys, page.remains)
    for left in page.facts:
        _check(left, LeftFact, _LEFT_FACT, "a fact")
        if left.remains is not None:
            _check(left.remains, Remains, _REMAINS, "what remains of an erased fact")
        if not 1 <= left.version <= page.before or not 0 <= left.index <= INTEGER_MAX:
            raise _refusal("a fact", "version")
    hashes = [hash for left in page.facts for hash in (left.hash, left.parent)]
    for commit in page.commits:
        hashes.append(commit.hash)
        hashes += [hash for fact in commit.facts for hash in (fact.hash, fact.parent)]
    if not all(map(is_sha256, hashes)):
        raise _refusal("the page", "hash")


def _check_commits(commits: Collection[Any], keys: Iterable[Any], remains: Collection[Any]) -> None:
    for row in keys:
        _check(row, SideRow, _SIDE_ROW, "a key row")
    for commit in commits:
        _check(commit, Commit, _COMMIT, "a commit")
        if not 1 <= commit.version <= INTEGER_MAX:
            raise _refusal("a commit", "version")
        for fact in commit.facts:
            _check(fact, Fact, _FACT, f"a fact of commit {commit.version}")
            said = (fact.at, fact.author, fact.meta_data)
            if said != (commit.at, commit.author, commit.meta_data):
                raise _refusal(f"a fact of commit {commit.version}", "commit")
    for one in remains:
        _check(one, Remains, _REMAINS, "what remains of an erased fact")
    if len(remains) != sum(fact.erased for commit in commits for fact in commit.facts):
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
