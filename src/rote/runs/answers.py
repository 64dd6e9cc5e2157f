"""Questions about many entities: asked in a run, and once more when it commits.

A question is plain data, so that whoever recovers a run can ask it too. What is compared is what the
asker was shown; that the same answer comes from a later version is no difference.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec import Struct

from rote.contract import AnswerRead, Head, Port, SpaceInfo, View, all_spaces
from rote.contract.commands import FindSpace, GetHead, Scan
from rote.errors import InvalidInput, NotFound, VersionNotFound
from rote.query import moved, place_of
from rote.questions import PHASE6, SPACE_SCHEME
from rote.records.keys import PREFIX, entity_id, ids_under
from rote.records.memory import Memory
from rote.records.retention import expired_ids
from rote.retrieval.embedders import Embedder, KnownQuestion
from rote.retrieval.retrieving import Examined, examine
from rote.retrieval.spaces import Named, entry_of, key_of, parts_of
from rote.runs.identities import deep_digest
from rote.runs.reads import scan_line
from rote.space import Space
from rote.values.limits import PAGE_MAX
from rote.values.ranges import IdRange, above, prefix_end

Call = dict[str, Any]

_EVERYTHING = ("", None)


class Moment(Struct, frozen=True):
    """A state that questions are asked of, at the time of a run."""

    port: Port
    space: SpaceInfo
    branch: str
    version: int
    hash: str | None
    until: int  # the newest version at which the branch is still as it was then
    now: int  # of the run, whatever the version
    root: str | None = None  # where files are, for retrievals

    def view(self) -> Space:
        """The state as a space."""
        return Space(
            self.port,
            self.space,
            turns=threading.RLock(),
            branch=self.branch,
            pinned=Head(self.version, self.hash, self.now),
        )

    def open_space(self, path: str, *, own: Collection[str]) -> Named:
        """The state that `rote:<space>[@branch][:version]` means here; `own` paths mean this one."""
        name, branch, version = parts_of(path)
        infos = all_spaces(self.port)
        info = next((each for each in infos if name in (each.name, each.did)), None)
        try:
            if info is None:
                raise NotFound(f"there is no space {name!r}")
            if path in own:
                view = self.view()
            elif version is not None:
                view = self._past(info, branch, version)
            else:
                raise NotFound(
                    "a run sees its own branch of its own space; say which version is meant"
                )
            head = Space(self.port, info, turns=threading.RLock(), branch=view.branch)
            return Named(head, view, path)
        except (NotFound, InvalidInput) as error:
            raise NotFound(
                f"the store {path!r} is not there: {error}", code="store_not_found", store_path=path
            ) from None

    def is_own(self, path: str) -> bool:
        """Whether a path names the state itself, not another one or one that is past."""
        if not path.startswith(SPACE_SCHEME):
            return False
        name, branch, version = parts_of(path)
        is_here = name in (self.space.name, self.space.did) and branch in (None, self.branch)
        return is_here and (version is None or self.version <= version <= self.until)

    def own_paths(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if self.is_own(path)]

    def _past(self, info: SpaceInfo, branch: str | None, version: int) -> Space:
        if info.did == self.space.did and version > self.until:
            raise VersionNotFound(version, newest=self.until)
        head = self.port.answer(info.did, GetHead(version))
        named = branch or (self.branch if info.did == self.space.did else "main")
        return Space(self.port, info, turns=threading.RLock(), branch=named, pinned=head)

    def retrieve(
        self,
        request: Mapping[str, Any],
        dropped: str | None,
        *,
        own: Collection[str],
        embedder: Embedder | None = None,
    ) -> Examined:
        """`own` are the paths that mean this state, whatever version they name."""
        return examine(
            request,
            root=self.root or ".",
            open_space=partial(self.open_space, own=own),
            dropped=dropped,
            embedder=embedder,
        )

    def memory(self, call: Call) -> Memory:
        return Memory(self.view(), namespaces=call["namespaces"], profile=call["profile"])


# -- what is compared ------------------------------------------------------------------------------


class RunQuestions:
    """Implements contract.Questions."""

    def digest(self, port: Port, space: str, read: AnswerRead, version: int) -> str:
        """Return the digest of the answer to a question at a version, at the time of its run."""
        info = port.answer("", FindSpace(space))
        hash = port.answer(space, GetHead(version)).hash
        root = read.call.get("root")
        moment = Moment(port, info, read.branch, version, hash, version, read.now, root)
        name = read.call.get("name")
        ask = _ASKED.get(name) if type(name) is str else None
        if ask is None:
            raise InvalidInput("there is no such question", name=str(name)[:80])
        try:
            return ask(moment, read.call)
        except (AttributeError, KeyError, TypeError) as error:
            raise InvalidInput(f"a question is malformed: {error}") from None


def query_digest(answer: Mapping[str, Any]) -> str:
    """Return the digest of a query's answer; its cursor counts by the place where it goes on."""
    cursor = answer["cursor"]
    shown = {name: value for name, value in answer.items() if name not in ("version", "cursor")}
    return deep_digest({**shown, "after": None if cursor is None else place_of(cursor)})


def retrieve_digest(package: Mapping[str, Any]) -> str:
    """The memories that were selected, in order.

    By the policies of ranking an excerpt depends on other memories too, so it counts as well.
    """
    shown = ["memory_id", "record_hash"]
    if package["controller_version"] != PHASE6:
        shown.append("excerpt")
    selected = package["selection"]["selected"]
    return deep_digest([[item[name] for name in shown] for item in selected])


def _scan(moment: Moment, call: Call) -> str:
    found, after = sha256(), None
    view = View(call["branch"], moment.version)
    while True:
        command = Scan(call["from"], call["to"], after, PAGE_MAX, view)
        page = moment.port.answer(moment.space.did, command)
        for state in page.states:
            found.update(scan_line(state))
        if page.next is None:
            return found.hexdigest()
        after = page.next


def _query(moment: Moment, call: Call) -> str:
    view = moment.view()
    ask = view.query if call["name"] == "query" else view.values
    query = {name: value for name, value in call["query"].items() if name != "at"}
    if query.get("cursor") is not None:
        query["cursor"] = moved(query["cursor"], moment.version)
    return query_digest(ask(query))


def _list(moment: Moment, call: Call) -> str:
    return deep_digest(moment.memory(call).list(**call["arguments"]))


def _stats(moment: Moment, call: Call) -> str:
    return deep_digest(moment.memory(call).stats())


def _retention_report(moment: Moment, call: Call) -> str:
    names = ("expire_soon_seconds", "namespace", "kinds")
    arguments = {name: call[name] for name in names if name in call}
    return deep_digest(moment.memory(call).retention_report(**arguments))


def _expired(moment: Moment, call: Call) -> str:
    return deep_digest(expired_ids(moment.view(), call["namespaces"]))


def _retrieve(moment: Moment, call: Call) -> str:
    """Ask again, by hybrid-1 with the vector of the question and those of texts that are stored."""
    embedder = KnownQuestion(call["embedder"]) if "embedder" in call else None
    found = moment.retrieve(call["request"], "counts", own=call["own"], embedder=embedder)
    return retrieve_digest(found.package)


_ASKED: dict[str, Callable[[Moment, Call], str]] = {
    "scan": _scan,
    "query": _query,
    "values": _query,
    "list": _list,
    "stats": _stats,
    "retention_report": _retention_report,
    "expired": _expired,
    "retrieve": _retrieve,
}


# -- what can change it ----------------------------------------------------------------------------


def query_ranges(branch: str, query: Mapping[str, Any]) -> list[IdRange]:
    """Return the ranges of what is selected; everything, if links are followed."""
    ranges: list[IdRange] = []
    for selector, body in query["select"].items():
        if body:
            return [(branch, *_EVERYTHING)]
        if selector.endswith("*"):
            ranges.append((branch, selector[:-1], prefix_end(selector[:-1])))
        else:
            ranges.append((branch, selector, above(selector)))
    return ranges


def namespace_ranges(
    branch: str, namespaces: tuple[str, ...], kinds: tuple[str, ...] = ()
) -> list[IdRange]:
    """All ids of namespaces, or those of some kinds in them."""
    prefixes = [ids_under(name, kind) for name in namespaces for kind in kinds or (None,)]
    return [(branch, prefix, prefix_end(prefix)) for prefix in prefixes]


def list_ranges(branch: str, namespace: str, kind: str | None) -> list[IdRange]:
    prefix = ids_under(namespace) if kind is None else ids_under(namespace, kind)
    return [(branch, prefix, prefix_end(prefix))]


def retrieve_ranges(branch: str, own: Collection[str]) -> list[IdRange]:
    """All records, if the state itself was asked and not only files and what is past."""
    return [(branch, PREFIX, prefix_end(PREFIX))] if own else []


def retrieved_ids(found: Examined, own: Collection[str]) -> list[str]:
    """The entities of memories that were selected from the run's own state."""
    names = {found.names[path] for path in own}
    is_ranked = found.package["controller_version"] != PHASE6
    ids = [
        item["memory_id"]
        for item in found.package["selection"]["selected"]
        if item["store_path"] in names
    ]
    return [entity_id(*(entry_of(id)[0] if is_ranked else key_of(id))) for id in ids]
