"""Forged commits: a store refuses them, even when every hash was made to fit."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from rote.contract import Commit, CopyPage, Fact, Head, SideRow
from rote.contract.commands import CopyIn, GetHead, Verify
from rote.errors import Corrupt
from rote.testing.space_suite.copies import adopting, page_of
from rote.testing.space_suite.formulas import empty_reference
from rote.testing.space_suite.ground import A, B, SpaceGround, add, change, put
from rote.values import digest

Forgery = Callable[[Commit], Commit]


def _of_fact(**changes: Any) -> Forgery:
    """Return a forgery that changes fields of the last fact of the commit."""

    def forge(commit: Commit) -> Commit:
        *facts, last = commit.facts
        return replace(commit, facts=(*facts, replace(last, **changes)))

    return forge


def _of_commit(**changes: Any) -> Forgery:
    return lambda commit: replace(commit, **changes)


# Forgeries that the hashes alone reveal.
FORGERIES: dict[str, Forgery] = {
    "another value": _of_fact(data=b'{"n":2}'),
    "a value that is not canonical": _of_fact(data=b'{"n": 1}'),
    "no value": _of_fact(data=None),
    "another id": _of_fact(id="urn:other"),
    "another operation": _of_fact(op="delete"),
    "an unknown operation": _of_fact(op="merge"),
    "another salt": _of_fact(salt="00" * 16),
    "a short salt": _of_fact(salt="00"),
    "no salt": _of_fact(salt=None),
    "a salt that is not hexadecimal": _of_fact(salt="x" * 32),
    "another parent": _of_fact(parent="0" * 64),
    "another hash of a fact": _of_fact(hash="0" * 64),
    "another place in the commit": _of_fact(index=7),
    "a fact of another commit": _of_fact(commit="0" * 64),
    "another hash": _of_commit(hash="0" * 64),
    "another previous commit": _of_commit(previous="0" * 64),
    "another version": _of_commit(version=9),
    "another author": _of_commit(author="Eve"),
    "another key": _of_commit(key="other"),
    "no key": _of_commit(key=None),
    "another meta": _of_commit(meta_data=b'{"m":2}'),
    "a meta that is not canonical": _of_commit(meta_data=b'{"m": 1}'),
    "another time": _of_commit(at="2026-01-01T12:00:00.000001Z"),
    "a time that is none": _of_commit(at="noon"),
    "another branch": _of_commit(branch="side"),
    "no facts": _of_commit(facts=()),
    "a fact twice": lambda commit: replace(commit, facts=commit.facts * 2),
}


def _patched(data: bytes) -> Forgery:
    return _of_fact(op="patch", data=data)


def _of_new(id: str, **changes: Any) -> Forgery:
    """Return a forgery whose fact begins another entity."""
    return _of_fact(id=id, parent=empty_reference(id), **changes)


# Forgeries that the hashes do not reveal: all hashes were computed anew.
CONSISTENT: dict[str, Forgery] = {
    "a value that is not canonical": _of_fact(data=b'{"n": 1}'),
    "a member twice": _of_fact(data=b'{"n":1,"n":1}'),
    "not a number": _of_fact(data=b"NaN"),
    "a lone surrogate": _of_fact(data=b'"\\ud800"'),
    "a value that is too deep": _of_fact(data=b"[" * 65 + b"]" * 65),
    "no JSON": _of_fact(data=b"{"),
    "no value": _of_fact(data=None),
    "a delete with a body": _of_fact(op="delete"),
    "a delete of nothing": _of_new("urn:nothing", op="delete", data=None),
    "a patch of nothing": _of_new("urn:nothing", op="patch", data=b"[]"),
    "a patch that does not apply": _patched(b'[{"op":"remove","path":"/nothing"}]'),
    "a patch that is not in normal form": _patched(b'[{"more":1,"op":"remove","path":"/n"}]'),
    "a patch with an unknown operation": _patched(b'[{"op":"rename","path":"/n"}]'),
    "a patch that is no list": _patched(b"{}"),
    "another salt than the entity's": _of_fact(salt="00" * 16),
    "a short salt": _of_new("urn:new", salt="00"),
    "another parent": _of_fact(parent="0" * 64),
    "an id that is none": _of_new("no scheme"),
    "an id with a NUL": _of_new("urn:a\0"),
    "another place in the commit": _of_fact(index=7),
    "a time before the last commit's": _of_commit(at="2026-01-01T11:59:59.999999Z"),
    "a time in another form": _of_commit(at="2026-01-01T12:00:01Z"),
    "a version further on": _of_commit(version=4),
    "another previous commit": _of_commit(previous="0" * 64),
    "an author that is none": _of_commit(author=""),
    "a meta that is not canonical": _of_commit(meta_data=b'{"m": 1}'),
    "no facts": _of_commit(facts=()),
}


# Fields of a wrong type. Each once gave a TypeError, or was accepted.
NO_TYPE_FITS: dict[str, Any] = {
    "true": True,
    "false": False,
    "a float": 1.0,
    "a text": "1",
    "bytes": b"1",
    "a list": [],
    "an object": {},
    "a tuple of a number": (1,),
    "nothing": None,
    "too large a number": 2**63,
    "a number below all": -(2**70),
}
# Fields that may be of such a type: no key, no author, no meta; an event may be an object of another Rote.
FITTING = {
    ("previous", "a text"), ("previous", "nothing"), ("hash", "a text"), ("branch", "a text"),
    ("at", "a text"), ("author", "a text"), ("author", "nothing"), ("key", "a text"),
    ("key", "nothing"), ("meta_data", "bytes"), ("meta_data", "nothing"), ("event", "nothing"),
    ("event", "an object"),
    ("id", "a text"), ("op", "a text"), ("data", "bytes"), ("data", "nothing"), ("salt", "a text"),
    ("salt", "nothing"), ("parent", "a text"), ("commit", "a text"), ("erased", "true"),
    ("erased", "false"),
}  # fmt: skip


class ForgeryTests(SpaceGround):
    def _write_three(self) -> None:
        self.space.set(A, {"n": 0}, key="first")
        self.space.transact([put(B, 0), change(A, add("/n", 1))], key="k", meta={"m": 1})
        self.space.set(A, {"n": 1})

    @pytest.mark.parametrize("forgery", FORGERIES)
    def test_a_forged_commit_is_refused_and_nothing_of_its_page_is_written(
        self, forgery: str
    ) -> None:
        self.space.set(A, 0)
        self.space.transact([put(B, 0), put(A, {"n": 1})], key="k", meta={"m": 1})
        page = page_of(self.space)
        port = adopting(self)
        forged = FORGERIES[forgery](page.commits[1])
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, commits=(page.commits[0], forged))))
        assert port.answer(self.did, GetHead()) == Head(0, None, None)
        assert port.begin(self.did, Verify(against=None)).result().ok
        assert port.answer(self.did, CopyIn(page)) == self.port.answer(self.did, GetHead())

    @pytest.mark.parametrize("type_name", NO_TYPE_FITS)
    def test_a_field_of_another_type_is_refused(self, type_name: str) -> None:
        """The fields are compared, looked up and hashed, and in Python True equals 1."""
        self.space.set(A, 0, key="k")
        page, port = page_of(self.space), adopting(self)
        (commit,), (row,) = page.commits, page.keys
        other = NO_TYPE_FITS[type_name]
        forged = [replace(page, commits=(other,)), replace(page, keys=(other,))]
        for name in _unfit(Commit, type_name):
            forged.append(replace(page, commits=(replace(commit, **{name: other}),)))
        for name in _unfit(Fact, type_name):
            forged.append(replace(page, commits=(_of_fact(**{name: other})(commit),)))
        for name in _unfit(SideRow, type_name):
            forged.append(replace(page, keys=(replace(row, **{name: other}),)))
        for sent in forged:
            with pytest.raises(Corrupt):
                port.answer(self.did, CopyIn(sent))
        assert port.answer(self.did, GetHead()) == Head(0, None, None)
        assert port.answer(self.did, CopyIn(page)).version == 1

    def test_commits_in_another_order_or_left_out_are_refused(self) -> None:
        self._write_three()
        page = page_of(self.space)
        port = adopting(self)
        one, two, three = page.commits
        for commits in ((one, three), (one, two, one), (one, two, two)):
            with pytest.raises(Corrupt):
                port.answer(self.did, CopyIn(replace(page, commits=commits)))
        assert port.answer(self.did, GetHead()).version == 0

    @pytest.mark.parametrize("forgery", CONSISTENT)
    def test_a_forgery_whose_hashes_all_fit_is_refused(self, forgery: str) -> None:
        self._write_three()
        page, port = page_of(self.space), adopting(self)
        *honest, last = page.commits
        forged = rehashed(self.did, CONSISTENT[forgery](last))
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(replace(page, commits=(*honest, forged))))
        assert port.answer(self.did, GetHead()) == Head(0, None, None)

    @pytest.mark.parametrize("key", ["first", "", "k\0", "k" * 201])
    def test_a_key_that_is_taken_or_cannot_be_one_is_refused(self, key: str) -> None:
        self._write_three()
        page, port = page_of(self.space), adopting(self)
        *honest, last = page.commits
        port.answer(self.did, CopyIn(replace(page, commits=tuple(honest))))
        forged = rehashed(self.did, replace(last, key=key))
        row = SideRow("key", key, 1, {"payload": "0" * 64, "version": 3})
        with pytest.raises(Corrupt):
            port.answer(self.did, CopyIn(CopyPage((forged,), (row,))))
        assert port.answer(self.did, GetHead()).version == 2
        free = rehashed(self.did, replace(last, key="free"))
        assert (
            port.answer(self.did, CopyIn(CopyPage((free,), (replace(row, key="free"),)))).version
            == 3
        )

    def test_a_commit_whose_hashes_were_computed_anew_is_taken_when_all_is_right(self) -> None:
        """The control: computing the hashes anew is not refused by itself."""
        self._write_three()
        page, port = page_of(self.space), adopting(self)
        *honest, last = page.commits
        other = rehashed(self.did, _of_fact(data=b'{"n":2}')(last))
        head = port.answer(self.did, CopyIn(replace(page, commits=(*honest, other))))
        assert (head.version, head.hash) == (3, other.hash)
        assert port.begin(self.did, Verify(against=None)).result().ok


def _unfit(kind: Any, type_name: str) -> list[str]:
    """Return the fields that cannot be of that type."""
    return [name for name in kind.__struct_fields__ if (name, type_name) not in FITTING]


def rehashed(did: str, commit: Commit) -> Commit:
    """Return the commit with every hash computed from its content."""
    hashed = [replace(fact, hash=_fact_hash(fact)) for fact in commit.facts]
    hash = digest(
        {
            "kind": "commit/1",
            "space": did,
            "version": commit.version,
            "branch": commit.branch,
            "previous": commit.previous,
            "facts": [fact.hash for fact in hashed],
            "at": commit.at,
            "author": commit.author,
            "key": commit.key,
            "meta": None if commit.meta_data is None else sha256(commit.meta_data).hexdigest(),
            "event": commit.event,
        }
    )
    facts = tuple(replace(fact, commit=hash, version=commit.version) for fact in hashed)
    return replace(commit, hash=hash, facts=facts)


def _fact_hash(fact: Fact) -> str:
    """Return the hash over the bytes as they are, which need not be JSON."""
    salted = bytes.fromhex(fact.salt or "") + (fact.data or b"")
    body = None if fact.data is None else sha256(salted).hexdigest()
    return digest(
        {"kind": "fact/1", "id": fact.id, "op": fact.op, "body": body, "parent": fact.parent}
    )
