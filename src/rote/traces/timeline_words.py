"""Words about a run, the same on a terminal and on a page."""

from collections import Counter
from collections.abc import Sequence

from rote.traces.artifacts import member
from rote.traces.timeline import Timeline, TimelineRetrieval
from rote.values import Json, canonical, fingerprint
from rote.values.limits import TRACE_DEPTH_MAX

_HASH_CHARACTERS_SHOWN = 12
_DECODING = ("temperature", "top_p", "max_tokens", "frequency_penalty", "presence_penalty")


def short_hash(hash: str) -> str:
    """Return the beginning of a hash, which is enough to tell two apart."""
    return f"{hash[:_HASH_CHARACTERS_SHOWN]}…"


def marks_of(run: Timeline) -> list[str]:
    """Return the facts that a person must know before reading on, each as a sentence."""
    marks = []
    if run.discarded:
        marks.append(f"It raised {run.error or 'an error'}, so nothing was written.")
    if run.replayed:
        marks.append("It is a replay: its replies came from a recording, and nothing was written.")
    if run.truncated and run.events_dropped:
        marks.append(f"The trace is cut: {run.events_dropped:,} more events are not in it.")
    elif run.truncated:
        marks.append("The trace is cut: the run did not come to its end.")
    if not run.model_fixed:
        marks.append("The model is not fixed: it may reply otherwise each time.")
    if run.is_recording_cut:
        marks.append("The recording is long: the last results are shown as fingerprints.")
    if run.recording_problem is not None:
        words = f"The recording beside the trace is not used ({run.recording_problem})"
        marks.append(f"{words}, so results are shown as fingerprints.")
    elif not run.has_recording and run.replayed:
        marks.append(
            "The recording that it replays is not beside it (--recording names one), so results are"
            " shown as fingerprints."
        )
    elif not run.has_recording:
        marks.append("There is no recording, so results are shown as fingerprints.")
    return marks


def head_of(run: Timeline) -> list[tuple[str, str]]:
    """Return the head of a run as names with values."""
    return [
        ("workflow", run.workflow_id),
        ("run", run.run_id),
        ("mode", run.visibility_mode),
        ("model", model_of(run)),
        ("snapshot", run.memory_snapshot_id),
        ("policy", run.policy_set_id),
        ("output", output_of(run)),
        ("writes", writes_of(run)),
    ]


def model_of(run: Timeline) -> str:
    """Return the model with its settings; its id when the trace does not tell them."""
    if type(run.model) is dict:
        return model_words(run.model)
    is_none = run.model_config_id == fingerprint(None)
    return "none" if is_none else f"not told, {short_hash(run.model_config_id)}"


def model_words(model: Json) -> str:
    """Return a model with the settings that somebody has set."""
    if type(model) is not dict:
        return "none" if model is None else "not told"
    names = [member(model, name) for name in ("provider_name", "model_name", "model_revision")]
    decoding = member(model, "decoding")
    settings = {name: member(decoding, name) for name in _DECODING}
    settings["seed"] = member(model, "seed")
    told = [f"{name} {_text(value)}" for name, value in settings.items() if value is not None]
    return ", ".join([" ".join(_text(name) for name in names if name is not None), *told])


def output_of(run: Timeline) -> str:
    is_none = run.output_type == "none"
    return "none" if is_none else f"{run.output_type}, {short_hash(run.output_shape_hash)}"


def writes_of(run: Timeline) -> str:
    """Return the fingerprint of what the run wrote, and its commit where that is known."""
    if run.commit_payload_fingerprint is None:
        return "none" if run.discarded or run.replayed else "not told"
    if run.writes_nothing:
        return "none"
    told = short_hash(run.commit_payload_fingerprint)
    if run.writes is None:
        return told
    if run.writes.version is None:
        return f"{told}, not applied"
    return f"{told}, version {run.writes.version:,}"


def retrieval_of(retrieval: TimelineRetrieval) -> str:
    """Return the question of a retrieval in a line."""
    found = f"{len(retrieval.records):,} of {retrieval.candidate_count:,} candidates"
    filters = [f"{name} {_text(value)}" for name, value in retrieval.filters.items()]
    names = f"{retrieval.policy_id} {retrieval.policy_version}, {retrieval.retrieval_mode}"
    return ", ".join([names, found, *filters])


def guardrails_of(guardrails: Sequence[str]) -> list[str]:
    """Return guardrails in the order in which they were triggered first, with how often."""
    return [name if n == 1 else f"{name} ×{n:,}" for name, n in Counter(guardrails).items()]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value, depth_max=TRACE_DEPTH_MAX).decode()
