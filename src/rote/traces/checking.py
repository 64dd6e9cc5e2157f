"""Checking that a trace is complete and can prove that a run was deterministic.

artifacts.py checks members and their types; here are the rules between members. They look at plain
data, so that they work also when other members are missing. Every broken rule is reported.
"""

from typing import Any
from unicodedata import is_normalized

from rote.contract.run_modes import LIVE
from rote.errors import InvalidValue, invariant
from rote.traces.artifacts import Artifact, member, members, read_artifact
from rote.traces.conformance import is_finite
from rote.traces.documents import DeterminismTrace, RetrievalTrace
from rote.traces.formats import SCORE_DECIMALS
from rote.traces.reports import Failures, Report
from rote.values import Json, json_v1
from rote.values.limits import INTEGER_MAX, TRACE_BYTES_MAX

_TRACE, _RETRIEVAL = "trace", "retrieval"
MODEL = "trace:model"  # the one failure that a run and its replay may have


def check_trace(
    trace: Json, retrieval: Json = None, *, size_bytes_max: int = TRACE_BYTES_MAX
) -> Report:
    """Check that a trace is complete and fit for a deterministic claim; return a report.

    Both may be JSON text or plain data. Raises InvalidValue or LimitExceeded when text cannot be read.
    """
    examination = Examination(trace, retrieval, size_bytes_max, parameter="retrieval")
    return examination.failures.report("valid", "invalid", truncated=examination.is_truncated)


class Examination:
    """A trace, its retrieval trace, and all their faults."""

    def __init__(
        self, trace: Json, retrieval: Json, size_bytes_max: int, *, parameter: str
    ) -> None:
        self.parameter = parameter  # the caller's name for the retrieval trace
        self.failures = failures = Failures()
        self.trace = read_artifact(trace, DeterminismTrace, _TRACE, failures)
        self.retrieval = (
            None
            if retrieval is None
            else read_artifact(retrieval, RetrievalTrace, _RETRIEVAL, failures)
        )
        links = _Links(self.trace.value)
        _check_run(self.trace, failures)
        links.check_events(failures, are_plain=_is_plain(self.trace))
        is_told = self.trace.document is not None or len(failures) > 0
        invariant(is_told, "a trace is refused, and nothing says why")
        _check_size(self.trace, _TRACE, size_bytes_max, failures)
        if self.retrieval is not None:
            _check_metadata(self.retrieval.value, _RETRIEVAL, failures)
            _check_records(self.retrieval.value, failures)
            links.check_retrieval(self.retrieval.value, failures)
            _check_size(self.retrieval, _RETRIEVAL, size_bytes_max, failures)
        elif links.owners:
            message = (
                "the trace has retrieval events, so its retrieval trace is needed too;"
                f" {self.advice}"
            )
            failures.add("retrieval:missing", "", None, "a retrieval trace", message)
        for artifact in (self.trace, self.retrieval):
            if artifact is not None:
                artifact.forget_events()

    @property
    def is_truncated(self) -> bool:
        return any(each is not None and each.is_truncated for each in (self.trace, self.retrieval))

    @property
    def recording(self) -> str | None:
        """Return the digest of the recording that the trace names."""
        named = member(member(self.trace.value, "metadata"), "recording")
        return named if type(named) is str else None

    @property
    def advice(self) -> str:
        """Return the advice for a missing retrieval trace."""
        return f"give it as {self.parameter}=run.retrieval_trace"


def _check_run(trace: Artifact[DeterminismTrace], failures: Failures) -> None:
    mode = member(trace.value, "visibility_mode")
    if type(mode) is str and mode == LIVE:
        message = (
            f"a run in mode {LIVE} sees what others write meanwhile, so it is never deterministic"
        )
        failures.add(
            "trace:mode", "/visibility_mode", mode, "off, read_only or buffered_write", message
        )
    metadata = member(trace.value, "metadata")
    if member(metadata, "model_fixed") is False and member(metadata, "replayed") is not True:
        message = (
            "the model may reply otherwise the next time, so this trace alone proves nothing: give"
            " the model a seed, say deterministic_provider=True if its provider guarantees the same"
            " replies, or record the run and compare it with its replay"
        )
        failures.add(MODEL, "/metadata/model_fixed", False, True, message)
    _check_metadata(trace.value, _TRACE, failures)


def _check_metadata(value: Any, prefix: str, failures: Failures) -> None:
    metadata = member(value, "metadata")
    dropped = _whole(member(metadata, "events_dropped"))
    if member(metadata, "truncated") is False and dropped is not None and dropped > 0:
        message = "events were dropped, and the trace does not say that it is truncated"
        failures.add(f"{prefix}:value", "/metadata/events_dropped", dropped, 0, message)


def _check_size(artifact: Artifact[Any], prefix: str, most: int, failures: Failures) -> None:
    size = 0 if artifact.data is None else len(artifact.data)
    if size > most and not artifact.is_truncated:
        message = f"it has {size:,} bytes, {most:,} are allowed unless it is truncated and says so"
        failures.add(f"{prefix}:size", "", size, most, message)


class _Links:
    """Links from events to the retrieval events that they made."""

    def __init__(self, trace: Any) -> None:
        self._events = members(trace, "events")
        self._run_id = member(trace, "run_id")
        self._event_ids: set[str] = set()
        self.owners: dict[str, tuple[int, int]] = {}  # event and place in it, by retrieval event id

    def check_events(self, failures: Failures, *, are_plain: bool) -> None:
        """Check the rules of each event, and remember its links."""
        seen = self._event_ids
        for position, event in enumerate(self._events):
            if type(event) is not dict:
                continue
            index = event.get("index")
            if _is_other(index, position, least=0):
                message = f"event {position} must have its place as its index"
                failures.add("trace:index", f"/events/{position}/index", index, position, message)
            id = event.get("event_id")
            if type(id) is str:
                if id in seen:
                    message = f"event {position} has the id of an earlier event"
                    pointer = f"/events/{position}/event_id"
                    failures.add("trace:link", pointer, id, "an id of its own", message)
                seen.add(id)
            if event.get("tool_calls"):
                _check_calls(event, position, failures, are_plain=are_plain)
            if event.get("retrieval_event_ids"):
                self._claim(event, position, failures)

    def _claim(self, event: Any, position: int, failures: Failures) -> None:
        for place, id in enumerate(members(event, "retrieval_event_ids")):
            if type(id) is not str:
                continue
            if id in self.owners:
                pointer = f"/events/{position}/retrieval_event_ids/{place}"
                message = f"event {position} names a retrieval event that was named before"
                failures.add("trace:link", pointer, id, "an id that is named once", message)
            self.owners.setdefault(id, (position, place))

    def check_retrieval(self, retrieval: Any, failures: Failures) -> None:
        """Check that each event and its retrieval events name each other."""
        seen: set[str] = set()
        for row, event in enumerate(members(retrieval, "events")):
            if type(event) is not dict:
                continue
            id = event.get("retrieval_event_id")
            if type(id) is str:
                self._check_id(id, row, id in seen, failures)
                seen.add(id)
            self._check_row(event, row, failures)
        for id, (position, place) in self.owners.items():
            if id not in seen:
                message = f"event {position} names a retrieval event that the retrieval trace lacks"
                pointer = f"/events/{position}/retrieval_event_ids/{place}"
                failures.add("trace:link", pointer, id, "the id of a retrieval event", message)

    def _check_id(self, id: str, row: int, is_repeated: bool, failures: Failures) -> None:
        pointer = f"/events/{row}/retrieval_event_id"
        if is_repeated:
            message = f"retrieval event {row} has the id of an earlier one"
            failures.add("retrieval:link", pointer, id, "an id of its own", message)
        elif id not in self.owners:
            message = f"no event of the trace names retrieval event {row}"
            failures.add("retrieval:link", pointer, id, "an id that an event names", message)

    def _check_row(self, event: Any, row: int, failures: Failures) -> None:
        """Check the run and the event of a row, also of a row without an id."""
        pointer = f"/events/{row}"
        run_id, event_id = event.get("run_id"), event.get("event_id")
        if type(run_id) is str and type(self._run_id) is str and run_id != self._run_id:
            message = f"retrieval event {row} is of another run"
            failures.add("retrieval:link", f"{pointer}/run_id", run_id, self._run_id, message)
        if type(event_id) is not str:
            return
        id = event.get("retrieval_event_id")
        if type(id) is str and id in self.owners:
            owner = member(self._events[self.owners[id][0]], "event_id")
            if type(owner) is str and event_id != owner:
                message = f"retrieval event {row} belongs to the event that names it"
                failures.add("retrieval:link", f"{pointer}/event_id", event_id, owner, message)
        elif event_id not in self._event_ids:
            message = f"retrieval event {row} belongs to no event of the trace"
            failures.add(
                "retrieval:link", f"{pointer}/event_id", event_id, "the id of an event", message
            )


def _check_calls(event: Any, position: int, failures: Failures, *, are_plain: bool) -> None:
    for place, call in enumerate(members(event, "tool_calls")):
        if type(call) is not dict:
            continue
        required, effect = call.get("side_effect_required"), call.get("side_effect_fingerprint")
        if (required is True) == (effect is None) and "side_effect_fingerprint" in call:
            _add_effect(call, f"/events/{position}/tool_calls/{place}", failures)
        if not are_plain and type(call.get("normalized_args")) is dict:
            _check_arguments(call, f"/events/{position}/tool_calls/{place}", failures)


def _add_effect(call: Any, pointer: str, failures: Failures) -> None:
    required, effect = call.get("side_effect_required"), call.get("side_effect_fingerprint")
    if type(required) is not bool or type(effect) not in (str, type(None)):
        return
    expected = "64 lowercase hexadecimal digits" if required else None
    words = "needs its fingerprint" if required else "is not required, so it has no fingerprint"
    place = f"{pointer}/side_effect_fingerprint"
    failures.add("trace:value", place, effect, expected, f"{place}: the side effect {words}")


def _check_arguments(call: Any, pointer: str, failures: Failures) -> None:
    """Check that arguments have a json-v1 form, because they are compared in it."""
    try:
        json_v1(call["normalized_args"])
    except InvalidValue as error:
        place = f"{pointer}/normalized_args{error.details['pointer']}"
        reason = error.details["reason"]
        failures.add("trace:value", place, None, "a json-v1 value", f"{place}: {reason}")


def _is_plain(trace: Artifact[DeterminismTrace]) -> bool:
    """Whether all parts surely have a json-v1 form.

    A part has none when it is no value, when it is too deep, or when two of its keys become one.
    """
    data = trace.data
    return (
        data is not None
        and trace.is_shallow
        and b"\\u" not in data
        and (data.isascii() or is_normalized("NFC", data.decode()))
    )


def _is_other(number: Any, place: int, *, least: int) -> bool:
    """Whether a number is a possible place but not this one; impossible ones fail elsewhere."""
    whole = _whole(number)
    return whole is not None and least <= whole <= INTEGER_MAX and whole != place


def _whole(number: Any) -> int | None:
    """Return the number as an integer, None when it is none; 1.0 counts as 1."""
    if type(number) is float and number.is_integer():
        return int(number)
    return number if type(number) is int else None


# -- the records of retrieval events ------------------------------------------------------------------


def _check_records(retrieval: Any, failures: Failures) -> None:
    for row, event in enumerate(members(retrieval, "events")):
        records = members(event, "selected_records")
        count = _whole(member(event, "candidate_count"))
        if count is not None and 0 <= count < len(records):
            message = f"retrieval event {row} selected more records than there were candidates"
            failures.add(
                "retrieval:value", f"/events/{row}/candidate_count", count, len(records), message
            )
        _check_order(records, f"/events/{row}/selected_records", failures)


def _check_order(records: list[Any], pointer: str, failures: Failures) -> None:
    seen: set[str] = set()
    before: tuple[float, str] | None = None
    for place, record in enumerate(records):
        id, rank = member(record, "record_id"), member(record, "rank")
        if _is_other(rank, place + 1, least=1):
            message = f"{pointer}/{place} must have its place as its rank, from 1 on"
            failures.add("retrieval:order", f"{pointer}/{place}/rank", rank, place + 1, message)
        if type(id) is str:
            if id in seen:
                where = f"{pointer}/{place}/record_id"
                message = f"{pointer}/{place} is a record that was selected before"
                failures.add("retrieval:value", where, id, "an id of its own", message)
            seen.add(id)
        key = _rank_key(record)
        if key is not None and before is not None and key < before:
            message = (
                f"{pointer}/{place} ranks above the record before it: records are in the order of"
                " score descending, then record_id"
            )
            failures.add(
                "retrieval:order", f"{pointer}/{place}", id, "a record that ranks below", message
            )
        before = key or before


def _rank_key(record: Any) -> tuple[float, str] | None:
    """Return a key that sorts lower ranks later, None when a record cannot be ranked."""
    id, score = member(record, "record_id"), member(record, "score")
    if type(id) is not str or not is_finite(score):
        return None
    return -round(float(score), SCORE_DECIMALS), id
