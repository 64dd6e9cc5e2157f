"""The agent tier: a mailbox of tasks and results between agents, each an entity of the space.

    agent:task/<task_id>      the task as it was sent
    agent:result/<task_id>    its result as it was posted

The first envelope under an id stays. With a root the files of `mailbox_files.py` have the same envelopes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rote.errors import Denied, InvalidInput, NotFound, PayloadMismatch
from rote.space import Space
from rote.tiers.envelopes import check_result, check_task
from rote.tiers.fs.adapter import open_root
from rote.tiers.grants import check_granted
from rote.tiers.mailbox_files import OWN_TASKS, RESULTS, TASKS, Found, MailboxFiles
from rote.tiers.options import checked_options
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Json, canonical, check_run_id
from rote.values.limits import PAGE_MAX
from rote.values.ranges import above, prefix_end

TASK, RESULT = "agent:task/", "agent:result/"


def _is_task_id(text: str) -> bool:
    try:
        check_run_id(text)
    except InvalidInput:
        return False
    return True


_ENVELOPE = (Parameter("envelope", {}),)
_ID = (
    Parameter("task_id", {"type": "string", "description": "the id of a task"}, check=_is_task_id),
)
_TEXT = {"type": ["string", "null"]}
VERBS = table(
    [
        Verb("send_task", _ENVELOPE, True),
        Verb("read_task", _ID, False),
        Verb("read_result", _ID, False),
        Verb(
            "tasks",
            (
                Parameter("target_agent", _TEXT, None),
                Parameter("status", {"enum": ["open", "done", "all"]}, "open"),
                Parameter("after", _TEXT, None),
                Parameter("limit", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}, 100),
            ),
            False,
        ),
        Verb("post_result", _ENVELOPE, True),
        Verb("bridge", (), True),
    ]
)
_OPTIONS = (Parameter("root", {"type": "string", "minLength": 1}, optional=True),)
TARGETS = "targets"
_NOT_GRANTED = "the target_agent is not among the targets of the grant"


def open_agent(options: Mapping[str, Any], space: Space | None) -> "AgentTier | None":
    """Return the mailbox of a space; without a space only the options are checked."""
    root = checked_options("agent", _OPTIONS, options)["root"]
    files = None if root is None else MailboxFiles(open_root(root))
    if space is None:
        if files is not None:
            files.close()
        return None
    return AgentTier(space, files)


def check_names(verb: str, given: Mapping[str, Any], granted: Mapping[str, Json]) -> None:
    target = given.get("target_agent")
    if verb == "send_task" and type(given["envelope"]) is dict:
        target = given["envelope"].get("target_agent")
    if type(target) is str:
        check_granted(granted, TARGETS, target)


class AgentTier:
    """The mailbox of a space, on its branch. Any thread may call it."""

    name = "agent"
    verbs = VERBS
    switches: Mapping[str, bool] = {}

    def __init__(self, space: Space, files: MailboxFiles | None) -> None:
        self._space = space
        self._files = files

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        return getattr(self, f"_{verb}")(granted, **arguments)

    def close(self) -> None:
        if self._files is not None:
            self._files.close()

    def _send_task(self, granted: Mapping[str, Json], envelope: Json) -> Json:
        task = check_task(envelope)
        if self._files is None:
            self._keep(TASK, task)
        else:
            with self._files.tasks_held() as lines:  # no bridge writes the line in between
                if self._keep(TASK, task):
                    lines.append([task])
        return task["task_id"]

    def _read_task(self, granted: Mapping[str, Json], task_id: str) -> Json:
        return self._task(granted, task_id)

    def _read_result(self, granted: Mapping[str, Json], task_id: str) -> Json:
        if TARGETS in granted:
            self._task(granted, task_id)
        state = self._space.read(RESULT + task_id)
        if state.exists:
            return state.value
        found = None if self._files is None else self._files.read_result(task_id)
        if found is None:
            raise NotFound(f"there is no result of {task_id} yet", code="no_result")
        return found

    def _post_result(self, granted: Mapping[str, Json], envelope: Json) -> Json:
        result = check_result(envelope)
        self._check_task(granted, result["task_id"])
        is_new = self._keep(RESULT, result)
        if is_new and self._files is not None:
            self._files.write_result(result)
        return {"ok": True, "created": is_new}

    def _tasks(
        self,
        granted: Mapping[str, Json],
        target_agent: str | None,
        status: str,
        after: str | None,
        limit: int,
    ) -> Json:
        items: list[Json] = []
        for task in self._kept(TASK, after):
            target = task.get("target_agent")
            if not _is_granted(granted, target) or target_agent not in (None, target):
                continue
            is_done = self._space.glance(RESULT + task["task_id"]).exists
            if status != "all" and is_done is not (status == "done"):
                continue
            if len(items) == limit:
                return {"items": items, "next": items[-1]["task"]["task_id"]}
            items.append({"task": task, "done": is_done})
        return {"items": items, "next": None}

    # -- files -------------------------------------------------------------------------------------

    def _bridge(self, granted: Mapping[str, Json]) -> Json:
        """Bring the space and the files of the mailbox level."""
        files = self._files
        if files is None:
            raise Denied(
                "a bridge needs files; make the host with agent={'root': …}",
                code="adapter_not_configured",
            )
        rejected: list[Json] = []
        tasks_in, tasks = self._take_in(files.tasks(), TASK, granted, rejected)
        results_in, results = self._take_in(files.results(), RESULT, granted, rejected)
        tasks_out = self._give_out_tasks(files, tasks, granted, rejected)
        results_out = 0
        for envelope in self._missing(RESULT, results, granted, rejected):
            try:
                files.write_result(envelope)
                results_out += 1
            except (Denied, InvalidInput) as error:  # a link, or a folder, has its name
                file = f"{RESULTS}/{envelope['task_id']}.json"
                rejected.append(Found(file, None, None).rejected(str(error)))
        return {
            "tasks_in": tasks_in,
            "tasks_out": tasks_out,
            "results_in": results_in,
            "results_out": results_out,
            "rejected": rejected,
        }

    def _take_in(
        self,
        found: Iterator[Found],
        kind: str,
        granted: Mapping[str, Json],
        rejected: list[Json],
    ) -> tuple[int, set[str]]:
        """Keep the envelopes of files; return how many were new, and the ids that files have."""
        count, there = 0, set()
        for each in found:
            if each.envelope is None:
                rejected.append(each.rejected(each.reason))
                continue
            there.add(each.envelope["task_id"])
            try:
                if self._may_pass(kind, each.envelope, granted):
                    count += self._keep(kind, each.envelope)
                else:
                    rejected.append(each.rejected(_NOT_GRANTED))
            except (PayloadMismatch, NotFound) as error:
                rejected.append(each.rejected(str(error)))
        return count, there

    def _give_out_tasks(
        self,
        files: MailboxFiles,
        there: set[str],
        granted: Mapping[str, Json],
        rejected: list[Json],
    ) -> int:
        missing = self._missing(TASK, there, granted, rejected)
        try:
            if missing:
                with files.tasks_held() as lines:
                    there = lines.ids()  # others may have written some meanwhile
                    missing = [each for each in missing if each["task_id"] not in there]
                    lines.append(missing)
        except (Denied, InvalidInput) as error:
            rejected.append(Found(f"{TASKS}/{OWN_TASKS}", None, None).rejected(str(error)))
            return 0
        return len(missing)

    def _missing(
        self, kind: str, there: set[str], granted: Mapping[str, Json], rejected: list[Json]
    ) -> list[dict[str, Json]]:
        """Return the envelopes of the space that no file has; those outside a grant are counted."""
        missing, count = [], 0
        for each in self._kept(kind, None):
            if each["task_id"] in there:
                continue
            if self._may_pass(kind, each, granted):
                missing.append(each)
            else:
                count += 1
        if count:
            file = f"{TASKS}/{OWN_TASKS}" if kind == TASK else RESULTS
            reason = f"{count} of the space not written: {_NOT_GRANTED}"
            rejected.append(Found(file, None, None).rejected(reason))
        return missing

    def _may_pass(self, kind: str, envelope: Json, granted: Mapping[str, Json]) -> bool:
        task = envelope if kind == TASK else self._space.get(TASK + envelope["task_id"])
        if type(task) is not dict:
            raise no_task(envelope["task_id"])
        return _is_granted(granted, task.get("target_agent"))

    # -- the space ---------------------------------------------------------------------------------

    def _check_task(self, granted: Mapping[str, Json], task_id: str) -> None:
        """Raise NotFound unless there is a task that a result may be posted to."""
        self._task(granted, task_id)

    def _task(self, granted: Mapping[str, Json], task_id: str) -> dict[str, Json]:
        state = self._space.read(TASK + task_id)
        if not state.exists or type(state.value) is not dict:
            raise no_task(task_id)
        check_granted(granted, TARGETS, state.value.get("target_agent"))
        task: dict[str, Json] = state.value
        return task

    def _keep(self, kind: str, envelope: dict[str, Json]) -> bool:
        """Keep an envelope under its id; False when it is there, PayloadMismatch for another one."""
        id = kind + envelope["task_id"]

        def keep_once() -> bool:
            state = self._space.read(id)
            if state.exists:
                if canonical(state.value) != canonical(envelope):
                    raise mismatch(kind, envelope, version=state.version)
                return False
            operation = {"op": "set", "id": id, "value": envelope}
            self._space.transact([operation], reads=[{"id": id, "version": state.version}])
            return True

        return self._space.retry(keep_once)

    def _kept(self, kind: str, after: str | None) -> Iterator[dict[str, Json]]:
        start = kind if after is None else above(kind + after)
        for state in self._space.scan_range(start, prefix_end(kind)):
            if type(state.value) is dict and state.value.get("task_id") == state.id[len(kind) :]:
                yield state.value


def _is_granted(granted: Mapping[str, Json], target: Json) -> bool:
    return TARGETS not in granted or target in granted[TARGETS]


def mismatch(kind: str, envelope: dict[str, Json], *, version: int) -> PayloadMismatch:
    id = envelope["task_id"]
    advice = "take a new task_id" if kind == TASK else "send a new task for another result"
    what = "task" if kind == TASK else "result"
    message = f"there is another {what} under {id!r} (version {version}), which stays; {advice}"
    return PayloadMismatch(id, version=version, message=message)


def no_task(task_id: str) -> NotFound:
    return NotFound(f"there is no task {task_id}; send it first", code="no_task")
