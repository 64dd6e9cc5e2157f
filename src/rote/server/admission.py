"""Admission: lets a principal ask for a command, and gives it a port that does no more.

admit ──> right of the row ──> AdmittedPort ──> for each command: rights as they are now, its path
                                                rule, rules of side rows and of the ACL
                                                └> a write also says which ACL let it in, and the
                                                   commit fails when that is no longer the newest
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from msgspec import Struct, structs

from rote.access.acl import UNWRITTEN, granted
from rote.access.principals import Principal
from rote.access.refusals import lacks_right, no_such_space, outside_path
from rote.access.rights import Held
from rote.contract import (
    Caller,
    OnlyIf,
    Port,
    PortLayer,
    SpaceInfo,
    SpacePage,
    Task,
    Tell,
    Watching,
)
from rote.contract import commands as c
from rote.contract.table import PathRule, Right
from rote.errors import Busy, Conflict, Denied, InternalError, NotFound
from rote.kernel.kernel import TABLE as KERNEL
from rote.server.gates import Gates, Look, refused
from rote.server.named import Named, ids_named, named_in, range_named
from rote.server.rows import ServerRow
from rote.server.wire_rules import checked
from rote.values.server_limits import ACL_LOOKS_MAX

R = TypeVar("R")

# Commands whose right depends on their arguments; here is what each of them takes at least.
_LEAST: dict[str, Right] = {"merge": "read", "revoke": "authenticated"}


class Admitted(Struct, frozen=True):
    """A principal that was let in."""

    space: str  # the did; empty for a command to the store
    port: "AdmittedPort"  # bound to the principal; judges every command


class Admission(Gates):
    """Lets principals in. Its calls run on the pool."""

    def admit(self, principal: Principal, row: ServerRow, space: str) -> Admitted:
        """Return the way in, before any argument is looked at; NotFound or Denied without a right.

        space  a name or a did; empty for a command to the store
        """
        if not row.space:
            if row.right == "operator" and row.name != "space_create" and not principal.is_operator:
                raise lacks_right(row.name, row.right)
            return Admitted("", AdmittedPort(self, principal, row))
        did = self.find(principal, space).did
        rule: PathRule = "none" if row.path == "none" else "free"  # names are judged with arguments
        needed = _LEAST.get(row.name, row.right)
        port = AdmittedPort(self, principal, row, space=did, asked=space)
        if needed != "authenticated":
            port.look(did).held_for(row.name, needed, rule)
        return Admitted(did, port)


class AdmittedPort(PortLayer):
    """The port of one principal to one space, for one command of the server's table.

    A command of the kernel is judged by its own row, also where a route sends it. What a command of the
    server's own asks to make its answer is judged by its row, and by what its arguments name.
    """

    def __init__(
        self,
        gates: Gates,
        principal: Principal,
        row: ServerRow,
        *,
        space: str = "",
        asked: str = "",
        port: Port | None = None,
    ) -> None:
        """
        space, asked  the did, and what the principal calls it; empty for a command to the store
        port          to ask instead of the store's own, bound to the principal as well
        """
        super().__init__(gates.port_of(principal.author) if port is None else port)
        self.gates = gates
        self.principal = principal
        self.space = space
        self.asked = asked
        self._row = row
        self._named: Named | None = None
        self._look: Look | None = None  # the last one

    def name(self, arguments: Any) -> None:
        """Take note of what the arguments of a row of the server's own name."""
        row = self._row
        if row.ids is not None:
            self._named = ids_named(row.ids, arguments)
        elif row.range is not None:
            self._named = range_named(row.range, arguments)

    def check_seen(self) -> None:
        """Raise for a principal that may not even know that the space is there."""
        look = self.look(self.space)
        if not look.standing.held:
            raise refused(look.standing, look.asked)

    def answer(self, space: str, command: c.Command[R], /) -> R:
        if isinstance(command, c.StoreCommand):
            found: R = self._answer_of_store(command)
            return found

        def ask(ready: c.Command[R]) -> R:
            return self._port.answer(space, ready)

        return self._admitted(space, command, ask)

    def begin(self, space: str, command: c.Work[R], /) -> Task[R]:
        self._judge(self.look(space), command)
        return _AdmittedTask(self, space, command)

    def result(self, space: str, command: c.Work[R], begun: "_AdmittedTask[R]") -> R:
        """Do the work of a task, once its principal may."""

        def work(ready: c.Work[R]) -> R:
            begun.task = self._port.begin(space, ready)
            return begun.task.result(begun.tell)

        return self._admitted(space, command, work)

    def watch(self, space: str, command: c.Watch, /) -> Watching:
        look = self.look(space)
        held = self._judge(look, command)
        ready = checked(self._port, space, look, held, command)
        return _AdmittedWatching(self, command, held, self._port.watch(space, ready))

    def for_caller(self, caller: Caller, /) -> NoReturn:
        raise InternalError("who was let in does not become somebody else")

    def judge_again(self, command: c.Watch, held: Held) -> None:
        """Raise when what a watch shows is not for its principal any more."""
        now = self._judge(self.look(self.space), command)
        if now.path is not None and now.path != held.path:
            raise outside_path("watch", "walk")

    # -- judging -----------------------------------------------------------------------------------

    def look(self, space: str) -> Look:
        """Return what the principal holds now."""
        if space != self.space or not space:
            raise InternalError("a command went to a space that its principal was not let into")
        look = self._look
        if look is None or not self.gates.is_current(look):
            look = self._look = self.gates.look(self.principal, space, self.asked)
        return look

    def _judge(self, look: Look, command: c.Command[Any]) -> Held:
        row = self._row
        if row.kernel is None and row.way == "command":
            return look.held_for(row.name, row.right, row.path, self._named)
        asked = KERNEL.row(type(command))
        is_rehearsal = isinstance(command, c.Merge) and command.dry_run is True
        needed: Right = "read" if is_rehearsal else asked.right
        return look.held_for(row.name, needed, asked.path, named_in(command))

    def _admitted(self, space: str, command: Any, ask: Callable[[Any], R]) -> R:
        """Ask as often as only the ACL has changed meanwhile, with the rights of each time."""
        for _ in range(ACL_LOOKS_MAX):
            look = self.look(space)
            held = self._judge(look, command)
            ready = checked(self._port, space, look, held, command)
            try:
                answer = ask(ready)
            except Conflict as error:
                _check_ours(error, command, ready, space)
                continue
            if held.is_lent and KERNEL.row(type(command)).right != "read":
                self._keep_chain(space)
            return answer
        raise Busy("the ACL of the space keeps changing; try again")

    def _keep_chain(self, space: str) -> None:
        """Keep the delegations under which something was written, to tell of them later."""
        chain = self.principal.chain
        for step in () if chain is None else chain.steps:
            self.gates.keep_delegation(space, step)

    # -- the store ---------------------------------------------------------------------------------

    def _answer_of_store(self, command: c.StoreCommand[Any]) -> Any:
        match command:
            case c.GetTimes():
                return self._port.answer("", command)
            case c.ListSpaces():
                return self._spaces(command)
            case c.FindSpace():
                return self._find(command)
        if not self.principal.is_operator:
            raise lacks_right(KERNEL.row(type(command)).name, "operator")
        try:
            return self._port.answer("", command)
        except Denied as error:
            if error.code != "reserved_name":
                raise
            asked = command.space if isinstance(command, c.EraseSpace) else ""
            raise no_such_space(asked) from None

    def _spaces(self, command: c.ListSpaces) -> SpacePage:
        """Return a page of the spaces in which the principal holds something, and name no other."""
        page = self._port.answer("", command)
        if self.principal.is_operator:
            return page
        shown: list[SpaceInfo] = []
        while True:
            shown += [info for info in page.spaces if self._is_shown(info)]
            if len(shown) >= command.limit:
                last = shown[command.limit - 1]
                is_end = page.next is None and len(shown) == command.limit
                return SpacePage(tuple(shown[: command.limit]), None if is_end else last.name)
            if page.next is None:
                return SpacePage(tuple(shown), None)
            page = self._port.answer("", structs.replace(command, after=page.next))

    def _is_shown(self, info: SpaceInfo) -> bool:
        try:
            return bool(self.gates.look(self.principal, info.did, info.did).standing.held)
        except NotFound:
            return False  # it was erased meanwhile

    def _find(self, command: c.FindSpace) -> SpaceInfo:
        """Find a space that the principal may see; make it where the principal may."""
        name, principal = command.name, self.principal
        try:
            info = self._port.answer("", c.FindSpace(name))
        except (NotFound, Denied) as error:
            is_free = isinstance(error, NotFound) and command.create is True
            if is_free and principal.is_operator:
                return self._port.answer("", command)
            if is_free and self.gates.open_creation and principal.name.startswith("did:"):
                return self._make(name)
            raise self.gates.absent(principal, name, error) from None
        standing = self.gates.look(principal, info.did, name).standing
        if not standing.held:
            raise refused(standing, name)
        return info

    def _make(self, name: str) -> SpaceInfo:
        """Make a space whose owner is the principal: its first commit is the ACL."""
        info = self._port.answer("", c.FindSpace(name, create=True))
        acl = granted(UNWRITTEN, self.principal.name, "owner").to_dict()
        operation = {"op": "set", "id": info.did, "value": acl}
        try:
            self._port.answer(info.did, c.MakeCommit([operation], unchanged_since=0))
        except Conflict:  # somebody else was faster
            raise no_such_space(name) from None
        return info


def _check_ours(error: Conflict, command: Any, ready: Any, space: str) -> None:
    """Raise a conflict without the condition that was added to a command, unless it alone failed."""
    added = _condition(command, ready)
    ours = [
        place
        for place, each in enumerate(error.conflicts)
        if added is not None
        and (each.id, each.branch, each.expected_version) == (space, "main", added)
    ]
    if not ours:
        raise error
    others = [each for place, each in enumerate(error.conflicts) if place != ours[0]]
    if others:
        raise Conflict(tuple(others)) from None


def _condition(command: Any, ready: Any) -> int | None:
    """Return the version of the ACL that was added to a command; None when none was."""
    if isinstance(ready, c.MakeCommit):
        return ready.reads[-1]["version"] if len(ready.reads) > len(command.reads) else None
    only_if: OnlyIf | None = getattr(ready, "only_if", None)
    return None if only_if is None else only_if.version


class _AdmittedTask(Task[R]):
    """Long work of a principal."""

    def __init__(self, port: AdmittedPort, space: str, command: c.Work[R]) -> None:
        self._port = port
        self._space = space
        self._command = command
        self.task: Task[R] | None = None
        self.tell: Tell | None = None

    def result(self, tell: Tell | None = None) -> R:
        self.tell = tell
        return self._port.result(self._space, self._command, self)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class _AdmittedWatching(Watching):
    """A watch that ends when its principal loses the right to see it."""

    def __init__(
        self, port: AdmittedPort, command: c.Watch, held: Held, watching: Watching
    ) -> None:
        self._port = port
        self._command = command
        self._held = held
        self._watching = watching

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        frame = self._watching.next(timeout)
        self._port.judge_again(self._command, self._held)
        return frame

    def advance(self, version: int) -> dict[str, Any] | None:
        frame = self._watching.advance(version)
        self._port.judge_again(self._command, self._held)
        return frame

    def close(self) -> None:
        self._watching.close()
