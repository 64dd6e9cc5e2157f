"""Folding the frames of a watch, and the laws that frames obey."""

from typing import Any

from rote.values import Json


class Folded:
    """The result that a reader holds after every frame of a watch."""

    def __init__(self, since: int | None = None, facts: dict[str, Json] | None = None) -> None:
        self.version = since  # of the last frame
        self.facts: dict[str, Any] = dict(facts or {})
        self.truncated: Json = None

    def take(self, frame: dict[str, Any]) -> None:
        """Take in the next frame, which must follow the last one and bring nothing twice.

        A frame that leads from nothing starts over.
        """
        assert frame.keys() - {"truncated"} == {"from", "to", "upserts", "removes"}
        assert frame.get("truncated", {}) is not None, "absent where nothing is left out"
        if frame["from"] is None:
            self.version, self.facts = None, {}
        assert frame["from"] == self.version, "a gap, or another order"
        assert self.version is None or frame["to"] >= self.version
        ids = [upsert["id"] for upsert in frame["upserts"]]
        assert ids == sorted(set(ids)), "not in id order"
        assert frame["removes"] == sorted(set(frame["removes"])), "not in id order"
        assert not set(ids) & set(frame["removes"]), "shown and removed at once"
        for upsert in frame["upserts"]:
            fact = {name: part for name, part in upsert.items() if name != "id"}
            assert self.facts.get(upsert["id"]) != fact, "nothing has changed"
            self.facts[upsert["id"]] = fact
        for id in frame["removes"]:
            assert id in self.facts, "it was not there"
            del self.facts[id]
        self.truncated = frame.get("truncated")
        self.version = frame["to"]
