"""Steps: all watches of a session go on to one version together.

    head ──> every watch advances to it ──> a step: their frames, each entity once
                                             ├─> whole, for a client in this process
                                             └─> parts of bounded size, made one at a time

A step waits for the verdicts of what it shows, and for room: at most SYNC_WINDOW are unacknowledged.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw, Struct
from msgspec.json import encode

from rote.contract import Head, Port, View, Watching
from rote.contract.commands import GetHead, GetVersions, Watch
from rote.contract.sync import Sync, WatchPart, encode_push
from rote.errors import Busy, Compacted, InvalidInput, LimitExceeded, Unavailable
from rote.values import canonical
from rote.values.sync_limits import (
    SYNC_PART_BYTES_MAX,
    SYNC_PART_STATES_MAX,
    SYNC_WATCHES_MAX,
)

_ATTEMPTS_MAX = 8


class LiveWatch(Struct):
    """One watch of a session."""

    query: Mapping[str, Any]
    text: str  # of the query, canonical
    branch: str
    watching: Watching
    is_fresh: bool = True  # it has sent nothing yet


class Step(Struct, frozen=True):
    """Frames of the watches of a session on their way to a version."""

    head: Head
    erased: int  # the version of the newest erasure
    frames: dict[str, tuple[str, dict[str, Any]]]  # by watch: its branch and its frame

    def parts(self, decided: int) -> Iterator[bytes]:
        """Yield the messages of the step; all but the last say that there is more."""
        states, shown = self._states()
        begin = 0
        while True:
            encoded: list[Raw] = []
            size = 0
            while begin + len(encoded) < len(states) and len(encoded) < SYNC_PART_STATES_MAX:
                data = encode(states[begin + len(encoded)])
                if encoded and size + len(data) > SYNC_PART_BYTES_MAX:
                    break
                encoded.append(Raw(data))
                size += len(data)
            end = begin + len(encoded)
            more = end < len(states)
            yield encode_push(self._part(decided, encoded, shown, begin, more=more))
            if not more:
                return
            begin = end

    def whole(self, decided: int) -> Sync:
        """Return the step as one message."""
        states, shown = self._states()
        return self._part(decided, [Raw(encode(each)) for each in states], shown, 0, more=False)

    def _part(
        self,
        decided: int,
        states: list[Raw],
        shown: dict[str, list[int]],
        begin: int,
        *,
        more: bool,
    ) -> Sync:
        watches = self._watches(
            shown, begin, begin + len(states), is_first=begin == 0, is_last=not more
        )
        head = self.head
        return Sync(
            head.version, head.hash, head.at, decided, self.erased, states, watches, more=more
        )

    def _states(self) -> tuple[list[dict[str, Any]], dict[str, list[int]]]:
        """Return every state once, in the order of ids, and for each watch those that it shows."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for branch, frame in self.frames.values():
            for upsert in frame["upserts"]:
                found[upsert["id"], branch] = upsert
        keys = sorted(found)
        places = {key: place for place, key in enumerate(keys)}
        shown = {
            name: [places[upsert["id"], branch] for upsert in frame["upserts"]]
            for name, (branch, frame) in self.frames.items()
        }
        return [{"branch": branch, **found[id, branch]} for id, branch in keys], shown

    def _watches(
        self, shown: dict[str, list[int]], begin: int, end: int, *, is_first: bool, is_last: bool
    ) -> dict[str, WatchPart]:
        """Return what a part says of the watches; removes stand in the first, truncated in the last."""
        parts: dict[str, WatchPart] = {}
        for name, (_, frame) in self.frames.items():
            places = shown[name]  # rising, like the ids of a frame
            within = places[bisect_left(places, begin) : bisect_left(places, end)]
            here = [place - begin for place in within]
            removes = frame["removes"] if is_first else []
            truncated = frame.get("truncated") if is_last else None
            if here or is_first or truncated is not None:
                parts[name] = WatchPart(frame["from"], here, removes, truncated)
        return parts


class LiveWatches:
    """The watches of one session. One thread at a time asks."""

    def __init__(self, port: Port, space: str) -> None:
        self._port = port  # of the principal
        self._space = space
        self._watches: dict[str, LiveWatch] = {}
        self.reached = 0  # all that there is to say up to this version was said, or is in a step

    @property
    def names(self) -> set[str]:
        return set(self._watches)

    def head(self) -> int:
        return self._port.answer(self._space, GetHead()).version

    def begin(self, queries: Mapping[str, Any], since: int | None = None) -> dict[str, LiveWatch]:
        """Return watches that are not followed yet; raise what is wrong with one of them."""
        return {name: self._begun(query, since) for name, query in queries.items()}

    def add(self, begun: Mapping[str, LiveWatch]) -> None:
        """Follow watches from now on."""
        self._watches |= begun

    def added(self, queries: Mapping[str, Any]) -> dict[str, Any]:
        """Return those that are not there yet; InvalidInput when a name stands for another query."""
        new: dict[str, Any] = {}
        for name, query in queries.items():
            live = self._watches.get(name)
            if live is None:
                new[name] = query
            elif live.text != _text(query):
                raise InvalidInput(
                    f"watches: {name!r} is another query already; take another name",
                    argument="watches",
                )
        if len(self._watches) + len(new) > SYNC_WATCHES_MAX:
            raise LimitExceeded(
                "the watches of a session",
                size=len(self._watches) + len(new),
                limit=SYNC_WATCHES_MAX,
                advice="remove some, or open another session",
            )
        return new

    def replace(self, begun: Mapping[str, LiveWatch]) -> None:
        """Follow these watches instead of all others."""
        self.remove(list(self._watches))
        self._watches |= begun

    def remove(self, names: list[str]) -> None:
        for name in names:
            live = self._watches.pop(name, None)
            if live is not None:
                live.watching.close()

    def close(self) -> None:
        self.remove(list(self._watches))

    def go_on(self) -> Step | None:
        """Return the step to the head; None when the head is where the watches are."""
        for _ in range(_ATTEMPTS_MAX):
            head = self._port.answer(self._space, GetHead())
            if head.version < self.reached:
                raise Unavailable("the log has lost its last commits; open the session again")
            if head.version == self.reached and not self._has_fresh():
                return None
            try:
                return self._step(head)
            except Compacted:
                self._begin_again()
        raise Busy("the space is compacted all the time; try again")

    def _has_fresh(self) -> bool:
        return any(live.is_fresh for live in self._watches.values())

    def _step(self, head: Head) -> Step:
        frames = {}
        for name, live in sorted(self._watches.items()):
            frame = live.watching.advance(head.version)
            if frame is not None:
                frames[name] = live.branch, frame
        erased = self._port.answer(self._space, GetVersions(may_be_old=True)).erased
        for live in self._watches.values():
            live.is_fresh = False
        self.reached = head.version
        return Step(head, erased, frames)

    def _begin_again(self) -> None:
        """Begin all watches from nothing: some may be on their way to a version that was compacted."""
        for live in self._watches.values():
            live.watching.close()
            live.watching = self._begun(live.query, None).watching
            live.is_fresh = True

    def _begun(self, query: Any, since: int | None) -> LiveWatch:
        text = _text(query)
        try:
            watching = self._port.watch(self._space, Watch(query, View(), since))
        except Compacted:
            watching = self._port.watch(self._space, Watch(query, View(), None))
        branch = query.get("branch")
        return LiveWatch(query, text, branch if type(branch) is str else "main", watching)


def _text(query: Any) -> str:
    if type(query) is not dict:
        raise InvalidInput("watches: a query is an object", argument="watches")
    return str(canonical(query), "utf-8")
