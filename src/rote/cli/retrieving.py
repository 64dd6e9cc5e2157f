"""The command that answers a question from memory: retrieve."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli.functions import importing_here, load_embedder
from rote.cli.input import decode_argument
from rote.cli.options import StoreOptions, opened_store, spread_options
from rote.cli.output import digits, plural, print_line, print_rows, print_text, say, short
from rote.errors import InvalidInput, NotFound, RoteError
from rote.questions import HYBRID, POLICIES, SPACE_SCHEME, parse_request
from rote.retrieval import Embedder, Reasons, package_text
from rote.retrieval import explain as explain_package
from rote.retrieval.package import INVALID_RECORD_SCHEMA, Package
from rote.retrieval.spaces import parts_of
from rote.space import Store
from rote.values.names import told

_EXCERPT_CHARACTERS_SHOWN = 60
_CODES_OF_FILES = ("store_not_found", "trust_snapshot_not_found")

RequestArgument = Annotated[
    str,
    typer.Argument(metavar="REQUEST", help="JSON, @file or a file's name, - for standard input."),
]
RootOption = Annotated[
    Path, typer.Option("--root", metavar="DIR", help="Where paths in the request begin.")
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Say what each got its score for, and who was dropped.")
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache", metavar="DIR", help="Where what files hold is kept ready; yours by default."
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option("--policy", metavar="|".join(POLICIES), help="In place of the request's own."),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="MODULE:NAME",
        help="For hybrid-1: an embedder, or a class or function that makes one.",
    ),
]
TextOption = Annotated[
    bool, typer.Option("--text", help="Print the excerpts alone, as text for a prompt.")
]
NoCacheOption = Annotated[
    bool, typer.Option("--no-cache", help="Read files anew, and leave nothing behind.")
]


@spread_options
def retrieve_package(
    request: RequestArgument,
    *,
    policy: PolicyOption = None,
    embedder: EmbedderOption = None,
    root: RootOption = Path(),
    explain: ExplainOption = False,
    text: TextOption = False,
    cache: CacheOption = None,
    no_cache: NoCacheOption = False,
    options: StoreOptions,
) -> None:
    """Answer a question from memory, within a budget of tokens, with a hash over the answer.

    Stores are JSONL files, or spaces as rote:NAME[@BRANCH][:VERSION] in --store.
    """
    if cache is not None and no_cache:
        raise InvalidInput("--cache and --no-cache exclude each other")
    if text and (explain or options.as_json):
        raise InvalidInput("--text is printed alone; leave out --explain and --json")
    folder = None if no_cache else cache or _users_cache()
    parsed: Any = decode_argument(_as_argument(request))
    if policy is not None and type(parsed) is dict:
        parsed["policy"] = policy
    if embedder is None and type(parsed) is dict and parsed.get("policy") == HYBRID:
        raise InvalidInput(
            f"{HYBRID} compares vectors; say what makes them: --embedder MODULE:NAME",
            code="invalid_policy",
        )
    names_a_space = _names_a_space(parsed)
    if names_a_space:
        # Faults of the request are told before faults of the store.
        parse_request(parsed, has_store=True, policies=POLICIES)
    with (
        _loaded(embedder) as loaded,
        options.opened_store() if names_a_space else nullcontext() as store,
    ):
        try:
            package, reasons = explain_package(
                parsed,
                root=root,
                store=store,
                cache=folder,
                dropped="full" if explain else None,
                embedder=loaded,
            )
        except NotFound as error:
            raise _advised(error, root, store, options) from None
    if text:
        print_text(package_text(package))
    else:
        options.print_answer(package, lambda: _show(package, reasons, explain=explain))
    _say_what_is_no_memory(package)


@contextmanager
def _loaded(named: str | None) -> Iterator[Embedder | None]:
    """Import an embedder, and send to stderr what it prints until the question is answered."""
    if named is None:
        yield None
        return
    with importing_here() as here:
        yield load_embedder(named, here)


def _show(package: Package, reasons: list[Reasons], *, explain: bool) -> None:
    has_stores = len({item["store_path"] for item in package["selection"]["selected"]}) > 1
    print_rows(
        ["rank", "score", "why", "tokens", "memory", *(["store"] * has_stores), "excerpt"],
        [
            [
                str(rank),
                f"{item['score']:g}",
                _why(reason),
                str(item["excerpt_tokens"]),
                item["memory_id"],
                *([item["store_path"]] * has_stores),
                item["excerpt"][:_EXCERPT_CHARACTERS_SHOWN],
            ]
            for rank, (item, reason) in enumerate(
                zip(package["selection"]["selected"], reasons, strict=True), 1
            )
        ],
    )
    selection = package["selection"]
    if explain:
        print_rows(
            ["dropped", "store", "because"],
            [
                [drop["memory_id"], drop["store_path"], drop["reason"]]
                for drop in selection["dropped"]
            ],
        )
    counts = selection.get("dropped_counts")
    dropped = len(selection["dropped"]) if counts is None else sum(counts.values())
    budget = package["budget"]
    print_line(
        f"{plural(len(reasons), 'memory').replace('memorys', 'memories')} in"
        f" {digits(budget['used_excerpt_tokens'])} of {digits(budget['max_excerpt_tokens'])} tokens,"
        f" {digits(dropped)} dropped, package {short(package['package_hash'])}"
    )


def _say_what_is_no_memory(package: Package) -> None:
    """Say which files hold no memory at all, when nothing was selected."""
    selection = package["selection"]
    if selection["selected"]:
        return
    foreign: list[str] = []
    if "stores" not in package:
        lines = {drop["store_path"] for drop in selection["dropped"]}
        memories = {
            drop["store_path"]
            for drop in selection["dropped"]
            if drop["reason"] != INVALID_RECORD_SCHEMA
        }
        foreign = sorted(lines - memories)
    elif INVALID_RECORD_SCHEMA in selection["dropped_counts"]:
        foreign = [each["store_path"] for each in package["stores"] if not each["memories"]]
    if foreign:
        format = "memories" if "stores" in package else "retrieval"
        say(f"no line of {', '.join(foreign)} is a memory; export with --format {format}")


def _advised(error: NotFound, root: Path, store: Store | None, options: StoreOptions) -> NotFound:
    """Return the error about a missing file or space with what would be right."""
    name: str = error.details.get("store_path", error.details.get("path", ""))
    if error.code not in _CODES_OF_FILES or "space" in error.details:
        return error
    words = ""
    if name.startswith(SPACE_SCHEME):
        spaces = [] if store is None else store.spaces()
        is_there = any(parts_of(name)[0] in (each.name, each.did) for each in spaces)
        if not is_there:
            words = f"; {told(each.name for each in spaces)}"
    elif store is None and error.code == "store_not_found" and name in _spaces_in(options.store):
        words = f"; the space is {SPACE_SCHEME}{name}"
    elif not Path(name).is_absolute():
        words = f" in {root.absolute()}; name the folder with --root"
    error.args = (f"{error}{words}",)
    return error


def _spaces_in(url: str) -> list[str]:
    """Return the names of the spaces in a store that the question did not need; none without it."""
    with suppress(RoteError), opened_store(url, recover=False, read_only=True) as store:
        return [space.name for space in store.spaces()]
    return []


def _users_cache() -> Path | None:
    """Return the folder for a user's caches (XDG Base Directory Specification); None without one."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():
        try:
            home = Path.home() / ".cache"
        except RuntimeError:
            return None
    return home / "rote" / "retrieval" if home.is_absolute() else None


def _as_argument(request: str) -> str:
    """Return the request as an argument to decode; the bare name of a file becomes @file."""
    if request == "-" or request.startswith("@") or request.lstrip().startswith("{"):
        return request
    if not os.path.lexists(request):
        raise InvalidInput(
            "REQUEST is a file, - for standard input, or JSON such as"
            ' \'{"query":"deploy keys","store_paths":["notes.jsonl"],'
            '"budget":{"max_excerpt_tokens":500}}\'; there is no file of that name'
        )
    return f"@{request}"


def _names_a_space(request: Any) -> bool:
    paths = request.get("store_paths") if type(request) is dict else None
    return type(paths) is list and any(
        type(path) is str and path.startswith(SPACE_SCHEME) for path in paths
    )


def _why(reasons: Reasons) -> str:
    """Return the reasons of a score in words, such as: deploy, keys +tag keys +0.25 recent."""
    parts = [", ".join(reasons.terms)] if reasons.terms else []
    parts += [f"+tag {tag}" for tag in reasons.tags]
    if reasons.recency:
        parts.append(f"+{reasons.recency:.2g} recent")
    return " ".join(parts)
