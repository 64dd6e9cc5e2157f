"""Verdicts: what became of a commit of a session. Their form on a wire is frozen: docs/formats/sync.md."""

from typing import Any

from msgspec import Raw, Struct, structs
from msgspec.json import Decoder, encode

from rote.contract.facts import Commit
from rote.contract.wire import decode_value, encode_value


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The answer to one commit of a session: final, and durable before it is told."""

    local: int
    accepted: bool
    version: int  # of the commit; of a rejected one the head when it was decided
    hash: str | None = None  # of the commit, with its time
    at: str | None = None
    error: dict[str, Any] | None = None  # as RoteError.to_dict tells it; None: accepted
    commit: Commit | None = None  # None in the answer to an opening


class _Told(Struct):
    """A verdict whose commit is not decoded yet."""

    local: int
    accepted: bool
    version: int
    hash: str | None = None
    at: str | None = None
    error: dict[str, Any] | None = None
    commit: Raw = Raw(b"")


_decode = Decoder(_Told).decode


def encode_verdict(verdict: Verdict) -> Raw:
    commit = verdict.commit
    if commit is None:
        return Raw(encode(verdict))
    members = structs.asdict(structs.replace(verdict, commit=None))
    shown = {name: member for name, member in members.items() if member is not None}
    return Raw(encode({**shown, "commit": Raw(encode_value(commit))}))


def decode_verdict(verdict: Raw | bytes) -> Verdict:
    told = _decode(verdict)
    data = bytes(told.commit)
    commit = decode_value(Commit, data) if data else None
    return Verdict(**{**structs.asdict(told), "commit": commit})
