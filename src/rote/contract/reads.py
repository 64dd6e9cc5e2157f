"""The reads of a commit: entities and ranges of ids that must not have been written since."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput, LimitExceeded
from rote.patch import parse_pointer
from rote.values import check_branch_name, check_entity_id
from rote.values.limits import BESIDES_MAX, READS_MAX
from rote.values.names import check_prefix, check_text
from rote.values.ranges import prefix_end

_MEMBERS = {
    "id": frozenset({"id", "version", "path", "branch", "besides"}),
    "prefix": frozenset({"prefix", "version", "branch", "besides"}),
    "from": frozenset({"from", "to", "version", "branch", "besides"}),
}


class Read(Struct, frozen=True, gc=False):
    """One checked read: of an entity (perhaps one path in it), or of a range of ids."""

    version: int  # the version the reader saw
    branch: str
    id: str | None = None
    path: tuple[str, ...] | None = None
    prefix: str | None = None
    start: str | None = None  # half open
    end: str | None = None
    besides: frozenset[int] = frozenset()  # versions whose commits do not count as writes


def parse_reads(raw: Sequence[Mapping[str, Any]] | None, branch: str) -> list[Read]:
    """Return the checked reads; raise for the first fault. `branch` is that of the commit."""
    if raw is None:
        return []
    if not isinstance(raw, list | tuple):
        raise InvalidInput("reads must be a list")
    if len(raw) > READS_MAX:
        raise LimitExceeded("the number of reads", size=len(raw), limit=READS_MAX)
    return [_parse(index, read, branch) for index, read in enumerate(raw)]


def _parse(index: int, raw: Mapping[str, Any], branch: str) -> Read:
    if type(raw) is not dict:
        raise InvalidInput(f"read {index} must be an object")
    shape = [name for name in _MEMBERS if name in raw]
    if len(shape) != 1:
        raise InvalidInput(f"read {index} needs exactly one of id, prefix, or from with to")
    allowed = _MEMBERS[shape[0]]
    if not raw.keys() <= allowed:
        unknown = min(str(member) for member in raw.keys() - allowed)
        raise InvalidInput(f"read {index} has no member {unknown!r:.80}")
    version = raw.get("version")
    if type(version) is not int or version < 0:
        raise InvalidInput(f"read {index} needs the version it saw, an integer from 0 on")
    if "branch" in raw:
        branch = raw["branch"]
        check_branch_name(branch)
    besides = _besides(index, raw["besides"]) if "besides" in raw else frozenset()
    if shape[0] == "id":
        check_entity_id(raw["id"])
        path = parse_pointer(raw["path"]) if raw.get("path") is not None else None
        return Read(version, branch, id=raw["id"], path=path, besides=besides)
    if shape[0] == "prefix":
        prefix = raw["prefix"]
        check_prefix(prefix, f"read {index}: prefix")
        end = prefix_end(prefix)
        return Read(version, branch, prefix=prefix, start=prefix, end=end, besides=besides)
    start = _text(index, raw, "from")
    end = None if raw.get("to") is None else _text(index, raw, "to")
    if end is not None and end <= start:
        raise InvalidInput(f"read {index}: to must be above from; it is the first id left out")
    return Read(version, branch, start=start, end=end, besides=besides)


def _text(index: int, raw: Mapping[str, Any], member: str) -> str:
    text = raw[member]
    check_text(text, f"read {index}: {member}")
    return str(text)


def _besides(index: int, versions: Any) -> frozenset[int]:
    if type(versions) not in (list, tuple):
        raise InvalidInput(f"read {index}: besides is a list of versions")
    if len(versions) > BESIDES_MAX:
        raise LimitExceeded("the versions of besides", size=len(versions), limit=BESIDES_MAX)
    if not all(type(version) is int and version > 0 for version in versions):
        raise InvalidInput(f"read {index}: besides has versions, integers from 1 on")
    return frozenset(versions)
