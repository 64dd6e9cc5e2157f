"""Spaces as stores: the memory records of one state, named `rote:<space>[@branch][:version]`."""

from msgspec import Struct

from rote.errors import InvalidInput, NotFound
from rote.questions import SPACE_SCHEME
from rote.records.envelope import Envelope, text_of
from rote.records.metadata import Metadata, tags_of
from rote.retrieval.corpus import Simple
from rote.retrieval.details import Details
from rote.space import Space, Store
from rote.values import Json, canonical, format_time, parse_time
from rote.values.limits import INTEGER_MAX

# A slash separates the three names of a record in its memory id. For the policies of ranking, a
# number sign separates the number of an entry from them.
_ESCAPED = str.maketrans({"%": "%25", "/": "%2F"})
_RANKED_ESCAPED = _ESCAPED | str.maketrans({"#": "%23"})

Key = tuple[str, str, str]


class Named(Struct, frozen=True):
    """The state that a path names."""

    space: Space  # on its branch, at its head
    view: Space | None  # pinned; None for the newest
    path: str
    now: int | None = None  # by which records have expired; the view's own time when left out


def open_state(store: Store, path: str) -> Named:
    """Return the state that a path names; raise NotFound when it is not there."""
    name, branch, version = parts_of(path)
    space = next((each for each in store.spaces() if name in (each.name, each.did)), None)
    try:
        if space is None:
            raise NotFound(f"there is no space {name!r}")
        if branch is not None:
            space = space.on(branch)
        return Named(space, None if version is None else space.at(version), path)
    except (NotFound, InvalidInput) as error:
        raise NotFound(
            f"the store {path!r} is not there: {error}", code="store_not_found", store_path=path
        ) from None


def memory_of(record: Envelope) -> Simple:
    """Return a record as a line of a JSONL store would hold it."""
    return _memory(record, _ESCAPED)


def _memory(record: Envelope, escaped: dict[int, str]) -> Simple:
    key = (record["namespace"], record["record_kind"], record["record_id"])
    return Simple(
        memory_id=_joined(key, escaped),
        text=text_of(record["payload"]),
        ts_utc=record_time(record),
        tags=tuple(tags_of(record["metadata"])),
    )


def record_time(record: Envelope) -> str:
    """Return the time of a record that is one memory, as lines may hold it."""
    metadata = record["metadata"]
    valid_at = None if metadata is None else metadata.get("valid_at")
    time: str = record["updated_at"] if type(valid_at) is not str else _time_of(valid_at)
    return time


def memories_of(record: Envelope) -> list[tuple[Simple, Details]]:
    """Return a record as the policies of ranking see it: one memory, or one for each of its entries."""
    key = (record["namespace"], record["record_kind"], record["record_id"])
    memory_id = ranked_id(key)
    metadata, entries = record["metadata"] or {}, record["payload"].get("entries")
    if type(entries) is not list:
        return [(_memory(record, _RANKED_ESCAPED), Details(*key[:2], metadata or None))]
    return [
        (
            entry_memory(key, number, entry, metadata),
            Details(*key[:2], {**metadata, "thread": memory_id, "turn": number}),
        )
        for number, entry in enumerate(entries, 1)
        if type(entry) is dict
    ]


def whole_memory(record: Envelope) -> Simple | None:
    """Return the memory that a record is; None if its entries are."""
    has_entries = type(record["payload"].get("entries")) is list
    return None if has_entries else _memory(record, _RANKED_ESCAPED)


def entry_memory(
    key: Key, number: int, entry: dict[str, Json], metadata: Metadata | None
) -> Simple:
    """Return the memory that an entry of a record is."""
    return Simple(
        memory_id=f"{ranked_id(key)}#{number}",
        text=entry_text(entry),
        ts_utc=entry_time(entry),
        tags=tuple(tags_of(metadata)),
    )


_TIMES = ("ts_utc", "valid_at")
_TEXTS = ("text", "content")
_SPEAKERS = ("speaker", "name", "role")


def entry_time(entry: dict[str, Json]) -> str | None:
    return next((time for time in map(entry.get, _TIMES) if type(time) is str), None)


def entry_words(entry: dict[str, Json]) -> str | None:
    """Return the words of an entry without its speaker; None where all of it is the text."""
    return next((text for text in map(entry.get, _TEXTS) if type(text) is str), None)


def entry_text(entry: dict[str, Json]) -> str:
    text = entry_words(entry)
    if text is None:
        return canonical(entry).decode()
    who = next((who for who in map(entry.get, _SPEAKERS) if type(who) is str and who), None)
    return text if who is None else f"{who}: {text}"


def ranked_id(key: Key) -> str:
    """Return the memory id of a record, for the policies of ranking."""
    return _joined(key, _RANKED_ESCAPED)


def _joined(key: Key, escaped: dict[int, str]) -> str:
    joined = "/".join(key)
    if "%" not in joined and "#" not in joined and joined.count("/") == 2:
        return joined  # the most frequent case, handled directly because it is faster
    return "/".join(part.translate(escaped) for part in key)


def key_of(memory_id: str) -> Key:
    """Return the namespace, kind and id of the record behind a memory of a space."""
    namespace, kind, id = (
        part.replace("%2F", "/").replace("%25", "%") for part in memory_id.split("/")
    )
    return namespace, kind, id


def entry_of(memory_id: str) -> tuple[Key, int | None]:
    """Return the same for the policies of ranking, and the number of the entry if it is one."""
    record, mark, number = memory_id.partition("#")
    return key_of(record.replace("%23", "#")), int(number) if mark else None


def memory_line(record: Envelope) -> bytes:
    """Return a record as a line of a JSONL store that gives the same package."""
    return canonical(_line(memory_of(record)))


def memory_lines(record: Envelope) -> list[bytes]:
    """Return a record as lines of a JSONL store that give the same package by the policies of ranking."""
    return [
        canonical(
            {
                **_line(memory),
                "namespace": details.namespace,
                "kind": details.kind,
                "metadata": details.metadata or {},
            }
        )
        for memory, details in memories_of(record)
    ]


def _line(memory: Simple) -> dict[str, Json]:
    return {
        "memory_id": memory.memory_id,
        "refs": [],
        "tags": list(memory.tags or ()),
        "text": memory.text,
        "ts_utc": memory.ts_utc,
    }


def _time_of(valid_at: str) -> str:
    """Return a time as lines may hold it: RFC 3339 allows small letters (section 5.6), lines do not."""
    if "t" in valid_at or "z" in valid_at:
        try:
            return format_time(parse_time(valid_at))
        except InvalidInput:
            pass  # not a time in capital letters either
    return valid_at


def parts_of(path: str) -> tuple[str, str | None, int | None]:
    """Return space, branch and version. No name of a space or a branch holds an `@`."""
    rest = path.removeprefix(SPACE_SCHEME)
    head, colon, tail = rest.rpartition(":")
    version = None
    if colon and tail.isascii() and tail.isdigit():
        # A version too large for an integer does not exist.
        rest, version = head, min(int(tail.lstrip("0")[:20] or 0), INTEGER_MAX)
    name, at, branch = rest.partition("@")
    return name, branch if at else None, version
