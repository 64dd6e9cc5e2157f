"""Conformance: checks the values that a commit leaves against the schemas of its branch.

The state after all operations is judged: values by the registry and the schemas as the commit leaves
them, schemas and the registry by rules of their own. Entities that the commit does not write are not
judged, so a stricter schema only affects later writes.

A schema that is missing or broken refuses writes of the values that it governs. That can happen after
an erasure or a copy. No governed value is stored unjudged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import UNSET

from rote.errors import InvalidInput
from rote.kernel.committing.drafts import Draft
from rote.kernel.log.entries import ABSENT, Entry
from rote.patch.pointer import format_pointer
from rote.schemas.registry import REGISTRY_ID, SCHEMA_PREFIX, Registry, parse_registry
from rote.schemas.validator import Validator, compile_schema
from rote.schemas.violations import Violation
from rote.values import decode_canonical

LookUp = Callable[[Sequence[str]], Mapping[str, Entry]]

_NO_REGISTRY = Registry({}, ())


def check_conformance(
    draft: Draft, branch: str, current: Mapping[str, Entry], ids: Sequence[str]
) -> None:
    """Raise InvalidInput when an entity that a commit writes does not conform.

    `ids` are in the order of the operations, `current` holds the entries after them.
    """
    judge = Judge(lambda wanted: draft.look_up(branch, wanted), current)
    registry = judge.registry_entry
    # A delete of the registry by this draft does not count: it is not durable yet.
    is_none = registry is ABSENT or (not registry.exists and 0 < registry.version <= draft.base)
    # A registry that is only assumed to be absent is noted later, when the commit proves it.
    if is_none and REGISTRY_ID not in draft.presumed:
        draft.space.note_ungoverned(draft.space.branches.number(branch), draft.base)
    judge.check(ids)


class Judge:
    """Judge the entries that a commit leaves; other entries are looked up when needed."""

    def __init__(self, look_up: LookUp, current: Mapping[str, Entry]) -> None:
        self._look_up = look_up
        self._current = current
        self._looked_up: dict[str, Entry] = {}
        self.registry_entry = self._entry(REGISTRY_ID)
        self._registry: Registry | None = None

    def check(self, ids: Sequence[str]) -> None:
        """Raise InvalidInput for the first operation whose result does not conform.

        A result that a later operation replaces is not judged.
        """
        for id in _as_left(ids):
            if id == REGISTRY_ID:
                self._check_registry()
            elif id.startswith(SCHEMA_PREFIX):
                self._check_schema(id)
            elif self.registry_entry.exists and self._current[id].exists:
                self._check_value(id)

    def _check_registry(self) -> None:
        names = self._read_registry().names
        wanted = dict.fromkeys(SCHEMA_PREFIX + name for name in names.values())
        self._load([id for id in wanted if id not in self._current])
        for prefix, name in names.items():
            if not self._entry(SCHEMA_PREFIX + name).exists:
                message = (
                    f"{REGISTRY_ID} names schema {name!r} for {prefix!r}, and there is no"
                    f" {SCHEMA_PREFIX}{name}; set it first, or in the same commit"
                )
                raise _refusal(message, REGISTRY_ID, name, pointer=format_pointer((prefix,)))

    def _check_schema(self, id: str) -> None:
        name = id.removeprefix(SCHEMA_PREFIX)
        if self._current[id].exists:
            self._validator(name)
            return
        prefix = self._read_registry().prefix_of(name)
        if prefix is not None:
            message = (
                f"{id} cannot be deleted while {REGISTRY_ID} names it for {prefix!r}; take it out"
                " there first, or in the same commit"
            )
            raise _refusal(message, id, name)

    def _check_value(self, id: str) -> None:
        name = self._read_registry().name_for(id)
        if name is None:
            return
        entry = self._current[id]
        # The exact size, not its bound: a verdict must not depend on how the value was written.
        data, document = entry.canonical_value(), entry.document
        if document is UNSET:
            # Not kept in the entry: most values are not read again soon.
            document = decode_canonical(data)
        violation = self._validator(name, governed=id).judge(document, size=len(data))
        if violation is not None:
            message = (
                f"{id} does not conform to schema {name!r} at {violation.place}: {violation.reason}"
                f" ({violation.rule}); change the value, or {SCHEMA_PREFIX}{name}"
            )
            raise _refusal(message, id, name, pointer=violation.pointer, rule=violation.rule)

    def _read_registry(self) -> Registry:
        if self._registry is None:
            entry = self.registry_entry
            found = parse_registry(entry.canonical_value()) if entry.exists else _NO_REGISTRY
            if isinstance(found, Violation):
                message = (
                    f"{REGISTRY_ID} is no registry of schemas at {found.place}: {found.reason}"
                )
                raise _refusal(message, REGISTRY_ID, None, pointer=found.pointer, rule=found.rule)
            self._registry = found
        return self._registry

    def _validator(self, name: str, *, governed: str | None = None) -> Validator:
        id = SCHEMA_PREFIX + name
        entry = self._entry(id)
        why = "" if governed is None else f", and {governed} is governed by it"
        if not entry.exists:
            message = f"there is no {id}{why}; set it, or take it out of {REGISTRY_ID}"
            raise _refusal(message, governed, name)
        found = compile_schema(entry.canonical_value())
        if isinstance(found, Violation):
            message = f"{id} is no schema at {found.place}: {found.reason} ({found.rule}){why}"
            raise _refusal(message, id, name, pointer=found.pointer, rule=found.rule)
        return found

    def _entry(self, id: str) -> Entry:
        entry = self._current.get(id)
        if entry is None:
            entry = self._looked_up.get(id)
        if entry is None:
            self._load([id])
            entry = self._looked_up[id]
        return entry

    def _load(self, ids: Sequence[str]) -> None:
        if ids:
            self._looked_up.update(self._look_up(ids))


def _refusal(
    message: str, id: str | None, schema: str | None, *, pointer: str = "", rule: str = "registry"
) -> InvalidInput:
    return InvalidInput(message, id=id, pointer=pointer, rule=rule, schema=schema)


def _as_left(ids: Sequence[str]) -> Iterable[str]:
    """Return each id once, at its last place."""
    once = dict.fromkeys(ids)
    return once if len(once) == len(ids) else reversed(dict.fromkeys(reversed(ids)))
