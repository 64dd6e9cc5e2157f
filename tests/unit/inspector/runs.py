"""Runs for pages: what a tool or a model said can be put into every place of them."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from rote.traces.recorded_calls import Raised
from rote.traces.timeline import (
    Timeline,
    TimelineCall,
    TimelineEvent,
    TimelineRecord,
    TimelineRetrieval,
    Writes,
)

# Texts that would do something if they were more than text.
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>document.title='stolen'</script>",
    "</style><style>body{background:url(http://127.0.0.1:9/a)}</style>",
    "</title><img src=http://127.0.0.1:9/b onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "' onmouseover='alert(4)' style='position:fixed' x='",
    "<!-- --><iframe src=javascript:alert(5)></iframe><!--",
    "--><plaintext>",
    "<![CDATA[<b>x</b>]]>",
    "</pre></bdi></details></main><base href=http://127.0.0.1:9/><form action=//127.0.0.1:9>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/c'>",
    "<link rel=stylesheet href=http://127.0.0.1:9/d><template><math><mi//xlink:href='data:x,y'>",
    "&lt;b&gt; &#60;script&#62; &amp;amp; &NotEqualTilde; &",
    "javascript:alert(6) http://127.0.0.1:9/e {{7*7}} ${7*7} `x`",
    "\u202egnp.exe \u2066x\u2069 \u200e\u200f\u061c",
    "a\u200bb\u00adc\ufeffd\u3164e\u2060f",
    "\x00\x01\x08\x0b\x0c\r\x1b[31m\x7f\x85\x9f",
    "\ud800 \udfff \udc80",
    "\ufdd0\uffff\U0001fffe\U000e0041",
    "line\nline\ttab\n\n  \n",
    "\\u{202E} \\n \\",
    "\u0301combining \u05d0 \u0628",
)


def call(text: str, kind: str = "tool", **changes: Any) -> TimelineCall:
    given: dict[str, Any] = {
        "kind": kind,
        "name": text,
        "args": {"query": text, text: [text, {"deep": text}], "more": ["x" * 100]},
        "result": {"text": text, "rows": [{text: 1}, None, True, 0.5]},
        "result_fingerprint": "a" * 64 if kind == "tool" else UNSET,
    }
    return TimelineCall(**{**given, **changes})


def event(index: int, text: str, *calls: TimelineCall) -> TimelineEvent:
    records = tuple(TimelineRecord(rank, text, text, 0.5) for rank in (1, 2))
    asked = TimelineRetrieval(text, text, text, "b" * 64, 7, {"tags": [text]}, records)
    return TimelineEvent(index, text, text, text, (asked,), calls, (text, text, "x"))


def timeline(text: str = "x", *, events: Sequence[TimelineEvent] = (), **changes: Any) -> Timeline:
    given: dict[str, Any] = {
        "run_id": text,
        "workflow_id": text,
        "memory_snapshot_id": f"{text}:7:{'c' * 64}",
        "visibility_mode": text,
        "policy_set_id": text,
        "model": {
            "provider_name": text,
            "model_name": text,
            "seed": text,
            "decoding": {"top_p": text},
        },
        "model_config_id": text,
        "model_fixed": False,
        "replayed": True,
        "discarded": True,
        "truncated": True,
        "events_dropped": 3,
        "output_type": text,
        "output_shape_hash": "d" * 64,
        "commit_payload_fingerprint": "e" * 64,
        "has_recording": True,
        "is_recording_cut": True,
        "events": tuple(events),
        "rest": (),
        "writes": Writes(3, ({"op": "set", "id": text, "body": {text: text}},)),
    }
    return Timeline(**{**given, **changes})


def full_timeline(text: str) -> Timeline:
    """Return a run of every kind of part, with a text in every place that may hold one."""
    calls = (
        call(text, "model", result=text),
        call(text),
        call(text, result=text, effects={"sent": text}),
        call(text, result=UNSET, error=Raised(text, text)),
        call(text, result=UNSET),
    )
    return timeline(text, events=[event(0, text, *calls), event(1, text)], rest=calls)
