"""Retrieval on a server: from spaces that the caller may read, and from files that the operator shows."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from rote.errors import Denied, InvalidInput, NotFound
from rote.questions import SPACE_SCHEME
from rote.retrieval.retrieving import Examined, examine
from rote.retrieval.spaces import Named, parts_of
from rote.space import Space
from rote.tiers.fs.adapter import open_root
from rote.tiers.fs.paths import segments_of

OpenSpace = Callable[
    [str], Space
]  # by name or did; raises NotFound for one that the caller may not read


class RetrieveAsked(Struct, frozen=True):
    """The arguments of `retrieve`."""

    request: Any
    dropped: str | None = None


def examine_for(asked: RetrieveAsked, *, open_space: OpenSpace, root: Path | None) -> Examined:
    """Answer a question; the caller keeps the receipt."""
    _check_files(asked.request, root)
    return examine(
        asked.request,
        root="." if root is None else root,
        open_space=lambda path: _open_state(open_space, path),
        dropped=asked.dropped,
    )


def _open_state(open_space: OpenSpace, path: str) -> Named:
    name, branch, version = parts_of(path)
    try:
        space = open_space(name)
        if branch is not None:
            space = space.on(branch)
        return Named(space, None if version is None else space.at(version), path)
    except (NotFound, InvalidInput) as error:
        raise NotFound(
            f"the store {path!r} is not there: {error}", code="store_not_found", store_path=path
        ) from None


def _check_files(request: Any, root: Path | None) -> None:
    """Refuse every file of a request that is not a plain one below the root, by plain folders."""
    for path in files_in(request):
        if root is None:
            raise Denied(
                "this server reads no files; name spaces, rote:<space>, in store_paths",
                code="outside_sandbox",
            )
        if path.startswith("/"):
            raise Denied("name files below the root, without a / first", code="outside_sandbox")
        *folders, name = segments_of(path) or ("",)
        with closing(open_root(str(root))) as opened:
            folder = opened.open()
        for each in folders:
            with folder:
                folder = folder.step(each)
        with folder:
            folder.look_for_file(name)


def files_in(request: Any) -> list[str]:
    """Return the paths of files in a request; what is no text is refused with the request."""
    given = request if type(request) is dict else {}
    paths, trust = given.get("store_paths"), given.get("trust_filter")
    named = [path for path in (paths if type(paths) is list else []) if type(path) is str]
    snapshot = trust.get("trust_snapshot_path") if type(trust) is dict else None
    files = [path for path in named if not path.startswith(SPACE_SCHEME)]
    return [*files, snapshot] if type(snapshot) is str else files
