"""The commands that take content away for good: erase, memory erase."""

from typing import Annotated, Any

import typer

from rote.cli.input import can_ask, decode_object
from rote.cli.naming import IdsWords, ids_in, shown
from rote.cli.options import (
    KeyOption,
    SpaceOptions,
    YesOption,
    check_key_option,
    memory_of,
    spread_options,
)
from rote.cli.outcome import confirm, no
from rote.cli.output import digits, plural, print_line, print_rows, say, short
from rote.cli.progress import spinner
from rote.contract import Erasure, SpaceErasure
from rote.errors import InvalidInput, NotFound
from rote.space import Space
from rote.values import check_reason
from rote.values.blobs import meta_id

ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept for ever, in clear.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say which.")]
_REFUSAL = "nothing was erased"
# What the log keeps of an erased entity, for the person who reads the answer.
_NOT_REACHED = "not reached: older backups and copies, exports, recordings and traces"
_KEPT = "kept in clear: ids, and the times, authors, keys and meta of commits (rote log ID)"


@spread_options
def erase(
    ids: IdsWords = None,
    *,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="TEXT", help="All entities whose id starts with it."),
    ] = None,
    whole_space: Annotated[
        str | None,
        typer.Option("--whole-space", metavar="NAME", help="A space with its key; see --confirm."),
    ] = None,
    repeated: Annotated[
        str | None,
        typer.Option("--confirm", metavar="NAME", help="The same NAME once more."),
    ] = None,
    reason: ReasonOption,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    key: KeyOption = None,
    branch: Annotated[str | None, typer.Option("--branch", hidden=True)] = None,
    options: SpaceOptions,
) -> None:
    """Remove the values of entities, or a whole space, for good; hashes of entities stay."""
    if branch is not None:
        raise InvalidInput("an erasure covers all branches; leave --branch out")
    if sum(way is not None for way in (ids or None, prefix, whole_space)) != 1:
        raise InvalidInput("name the entities to erase, or --prefix, or --whole-space")
    check_reason(reason)
    check_key_option(key)
    if whole_space is not None:
        if dry_run:
            raise InvalidInput("--dry-run says which entities; a whole space is all of it")
        _erase_space(whole_space, repeated, reason, key, options)
        return
    if repeated is not None:
        raise InvalidInput("--confirm goes with --whole-space")
    chosen = ids_in(ids or ())
    named: Any = {"prefix": prefix} if prefix is not None else chosen
    with options.opened_space() as space:
        if dry_run:
            _print_chosen(_to_erase(space, chosen, prefix), options)
            return
        if not yes and can_ask():
            _ask(space, chosen, prefix)
        with spinner("erasing"):
            erasure = space.erase(named, reason=reason, key=key)
    options.print_answer(erasure.to_dict(), lambda: _print(erasure))


def _ask(space: Space, ids: list[str], prefix: str | None) -> None:
    """Ask for consent, if there is something to erase."""
    if written := _written(space, ids, prefix):
        words = _entities(written)
        confirm(
            f"erase all values of {words} in {space.name}, on every branch, for good?",
            refusal=_REFUSAL,
        )


def _written(space: Space, ids: list[str], prefix: str | None) -> list[str]:
    """Return those of the named entities that were ever written, in order."""
    if prefix is not None:
        return list(space.written(prefix))
    return [id for id in ids if _was_written(space, id)]


def _to_erase(space: Space, ids: list[str], prefix: str | None) -> list[str]:
    """Return those of the named entities that would lose content; refuse what the erasure refuses."""
    written = _written(space, ids, prefix)
    for id in () if prefix is not None else ids:
        if id not in written:
            raise NotFound(f"{id} was never written; there is nothing to erase", id=id)
    return sorted({id for id in written if next(space.written(id), None) == id})


def _print_chosen(ids: list[str], options: SpaceOptions) -> None:
    options.print_answer({"ids": ids}, lambda: print_rows(("id",), ((shown(id),) for id in ids)))
    if not ids:
        raise no()


def _entities(ids: list[str]) -> str:
    return shown(ids[0]) if len(ids) == 1 else f"{digits(len(ids))} entities"


def _was_written(space: Space, id: str) -> bool:
    """Whether an entity was ever written on some branch; only then is there something to ask."""
    return any(space.on(branch.name).read(id).version for branch in space.branches())


def _print(erasure: Erasure) -> None:
    commit = erasure.commit
    event = commit.event or {}
    ids = event["ids"] if "ids" in event else [event["id"]]
    words = _entities(ids)
    place = f"version {commit.version} ({short(commit.hash)})"
    if erasure.facts:
        print_line(f"erase {words} at {place}: {plural(erasure.facts, 'fact')} without content now")
    else:
        were = "was" if len(ids) == 1 else "were"
        print_line(f"{words} {were} erased before, at {place}; nothing was erased now")
    print_line(_KEPT)
    for hash in erasure.blobs:
        print_line(f"still stored: the blob {hash}; {_advice(ids, hash)}")
    _print_remaining(erasure.remaining)


def _print_remaining(places: tuple[str, ...]) -> None:
    for remaining in places:
        print_line(f"not reached: {remaining}")
    print_line(_NOT_REACHED)


def _advice(ids: list[str], hash: str) -> str:
    collect = "rote gc --grace 0"
    return f"run {collect}" if meta_id(hash) in ids else f"erase {meta_id(hash)}, then {collect}"


def _erase_space(
    name: str, repeated: str | None, reason: str, key: str | None, options: SpaceOptions
) -> None:
    if key is not None:
        raise InvalidInput("the erasure of a whole space takes no key")
    if repeated != name:
        raise InvalidInput(f"to erase the whole space, add --confirm {name}")
    with options.opened_store() as store, spinner("erasing"):
        erasure = store.erase_space(name, reason=reason, confirm=repeated)
    options.print_answer(erasure.to_dict(), lambda: _print_space(name, erasure))


def _print_space(name: str, erasure: SpaceErasure) -> None:
    last = "empty" if erasure.head is None else f"last commit {short(erasure.head)}"
    print_line(f"erased the space {name} at version {erasure.version} ({last}): {erasure.did}")
    _print_remaining(erasure.remaining)


@spread_options
def erase_records(
    namespace: Annotated[
        str | None, typer.Argument(metavar="[NAMESPACE]", help="All namespaces without it.")
    ] = None,
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]")] = None,
    id: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    *,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="Ids that begin with it.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Records that had all of them.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="TEXT", help="Records from this source.")
    ] = None,
    filters: Annotated[
        str | None,
        typer.Option("--filters", metavar="OBJECT", help="Any filters, as a JSON object."),
    ] = None,
    reason: ReasonOption,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    branch: Annotated[str | None, typer.Option("--branch", hidden=True)] = None,
    options: SpaceOptions,
) -> None:
    """Erase records that match now or ever did, deleted and pruned ones too; exit 1 for none."""
    if branch is not None:
        raise InvalidInput("an erasure covers all branches; leave --branch out")
    check_reason(reason)
    given = {} if filters is None else decode_object(filters, member="source")
    given |= {} if tag is None else {"tags_all": tag}
    given |= {} if source is None else {"source": source}
    criteria: dict[str, Any] = {"id_prefix": prefix, "filters": given or None, "reason": reason}
    with options.opened_space() as space:
        memory = memory_of(space)
        if not yes and not dry_run and can_ask():
            found = memory.erase(namespace, kind, id, **criteria, dry_run=True)["erased"]
            if found:
                words = f"erase {plural(len(found), 'record')} in {space.name}"
                confirm(f"{words}, on every branch, for good?", refusal=_REFUSAL)
        with spinner("erasing"):
            result = memory.erase(namespace, kind, id, **criteria, dry_run=dry_run)
    options.print_answer(result, lambda: _print_records(result, dry_run=dry_run))
    if not result["erased"]:
        raise no()


def _print_records(result: dict[str, Any], *, dry_run: bool) -> None:
    if not result["erased"]:
        say("nothing that was ever written matches; nothing was erased")
        return
    print_rows(("namespace", "kind", "id"), (tuple(key.values()) for key in result["erased"]))
    count = plural(len(result["erased"]), "record")
    if dry_run:
        say(f"{count} would be erased")
        return
    say(f"{count} erased at version {result['version']}")
    say(_KEPT)
    say(_NOT_REACHED)
