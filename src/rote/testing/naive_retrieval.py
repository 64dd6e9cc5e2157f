"""Retrieval written word for word from its contract, without caches; the real one must equal it.

It shares no code with rote.retrieval but the strict decoder and the canonical form, which have
references of their own.
"""

import hashlib
import math
import posixpath
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from rote.errors import RoteError
from rote.values import decode, digest

_BLANKS = b" \t\r"


def naive_retrieve(request: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the package of a valid request on files."""
    budget = request["budget"]
    whole = budget["max_excerpt_tokens"]
    item = min(budget.get("per_item_max_excerpt_tokens") or whole, whole)
    items = budget.get("max_items") or 50
    candidates, dropped = _read(request, root)
    denied = naive_denied(request.get("trust_filter") or {}, root)
    kept = []
    for each in candidates:
        if each["memory_id"] in denied[0] or each["record_hash"] in denied[1]:
            dropped.append(naive_drop(each, "trust_denied"))
        else:
            kept.append({**each, "score": _score(request, each)})
    kept.sort(key=lambda each: (each["store_path"], each["memory_id"], each["record_hash"]))
    kept.sort(key=lambda each: (each["at"] is None, later_first(each["at"])))
    kept.sort(key=lambda each: -each["score"])
    selected: list[dict[str, Any]] = []
    used, reason = 0, None
    for each in kept:
        excerpt = _excerpt(each["text"], item)
        tokens = math.ceil(len(excerpt.encode()) / 4)
        if reason is None and len(selected) == items:
            reason = "max_items_reached"
        if reason is None and used + tokens > whole:
            reason = "budget_exhausted"
        if reason is not None:
            dropped.append(naive_drop(each, reason))
            continue
        used += tokens
        selected.append(
            {
                "memory_id": each["memory_id"],
                "record_hash": each["record_hash"],
                "store_path": each["store_path"],
                "score": each["score"],
                "excerpt": excerpt,
                "excerpt_tokens": tokens,
            }
        )
    package = {
        "query": {
            "raw": request["query"],
            "query_hash": hashlib.sha256(naive_normal(request["query"]).encode()).hexdigest(),
        },
        "budget": {
            "max_excerpt_tokens": whole,
            "used_excerpt_tokens": used,
            "remaining_excerpt_tokens": whole - used,
            "per_item_max_excerpt_tokens": item,
            "max_items": items,
        },
        "selection": {"selected": selected, "dropped": dropped},
        "controller_version": "phase6-v1",
    }
    return {**package, "package_hash": digest(package)}


def _read(request: dict[str, Any], root: Path) -> tuple[list[Any], list[Any]]:
    candidates, invalid = [], []
    for path in sorted({posixpath.normpath(path) for path in request["store_paths"]}):
        more, bad = naive_read((root / path).read_bytes(), path)
        candidates += more
        invalid += bad
    return candidates, invalid


def naive_read(data: bytes, path: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the memories of a store, and the texts in it that are none."""
    candidates, invalid = [], []
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    for whole_line in data.split(b"\n"):
        line = whole_line.strip(_BLANKS)
        if not line:
            continue
        value: Any = None
        try:
            value = decode(line, duplicates="last")
            candidates.append({**_record(value), "store_path": path, "line": value})
        except (RoteError, AssertionError):
            id = value.get("memory_id") if isinstance(value, dict) else ""
            invalid.append(
                {
                    "memory_id": id if isinstance(id, str) else "",
                    "record_hash": hashlib.sha256(line).hexdigest(),
                    "store_path": path,
                    "reason": "invalid_record_schema",
                }
            )
    return candidates, invalid


def _record(value: Any) -> dict[str, Any]:
    assert isinstance(value, dict)
    id, text = value.get("memory_id"), value.get("text")
    tags, refs, ts = value.get("tags"), value.get("refs"), value.get("ts_utc")
    assert isinstance(id, str) and id.strip() and isinstance(text, str)
    assert tags is None or (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags))
    assert refs is None or (isinstance(refs, list) and all(isinstance(ref, dict) for ref in refs))
    assert ts is None or isinstance(ts, str)
    at = None if ts is None else naive_moment(ts)
    normal = {
        "memory_id": id,
        "refs": refs or [],
        "tags": sorted({tag.lower() for tag in tags or []}),
        "text": text,
        "ts_utc": None if at is None else _written(at),
    }
    return {**normal, "at": at, "record_hash": digest(normal)}


def naive_time(text: str) -> str | None:
    """Return the normal form of a time; None when the text is none."""
    at = naive_moment(text)
    return None if at is None else _written(at)


def naive_moment(text: str) -> datetime | None:
    """Return the time that a text says; None when the text is none."""
    match = re.fullmatch(
        r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?"
        r"(?:(Z)|([+-])(\d\d):?(\d\d))?)?",
        text,
        re.ASCII,
    )
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int(((match[7] or "") + "000000")[:6])
    zone = UTC
    try:
        if match[9]:
            if int(match[10]) > 23 or int(match[11]) > 59:
                return None
            ahead = timedelta(hours=int(match[10]), minutes=int(match[11]))
            zone = timezone(-ahead if match[9] == "-" else ahead)
        return datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _written(at: datetime) -> str:
    text = (
        f"{at.year:04d}-{at.month:02d}-{at.day:02d}T{at.hour:02d}:{at.minute:02d}:{at.second:02d}"
    )
    return text + (f".{at.microsecond:06d}Z" if at.microsecond else "Z")


def later_first(at: datetime | None) -> timedelta:
    """Return a key that sorts later times first; who has none is sorted before."""
    return timedelta() if at is None else datetime.max.replace(tzinfo=UTC) - at


def naive_normal(text: str) -> str:
    """Return the text in lower case, with single blanks between words and none around."""
    return " ".join(text.split()).lower()


def _score(request: dict[str, Any], each: dict[str, Any]) -> float:
    scoring = request.get("scoring") or {}
    given = scoring.get("query_terms")
    if given is None:
        terms = [term for term in naive_normal(request["query"]).split() if len(term) >= 2]
    else:
        terms = [naive_normal(term) for term in given if naive_normal(term)]
    terms = list(dict.fromkeys(terms))
    text = naive_normal(each["text"])
    score = float(sum(term in text for term in terms))
    if scoring.get("enable_tag_overlap") is not False:
        score += sum(term in each["tags"] for term in terms) * 0.5
    now = request.get("now_utc")
    if scoring.get("enable_recency_weight") and now is not None and each["at"] is not None:
        moment = naive_moment(now)
        assert moment is not None
        micros = (moment - each["at"]) // timedelta(microseconds=1)
        days = max(0, micros) / 86_400_000_000
        score += 0.5 ** (days / (scoring.get("recency_half_life_days") or 30))
    return round(score, 9)


def naive_denied(trust: dict[str, Any], root: Path) -> tuple[set[str], set[str]]:
    """Return the ids and the hashes of memories that the trust filter keeps out."""
    if trust.get("trust_snapshot_path") is None:
        return set(), set()
    kinds = trust.get("deny_classifications")
    kinds = ["malicious"] if kinds is None else kinds
    snapshot: Any = decode((root / trust["trust_snapshot_path"]).read_bytes())
    entries = [each for each in snapshot["classifications"] if each["classification"] in kinds]
    return (
        {each["memory_id"] for each in entries if each.get("memory_id") is not None},
        {each["record_hash"] for each in entries if each.get("record_hash") is not None},
    )


def _excerpt(text: str, tokens: int) -> str:
    text = text.strip()
    while len(text.encode()) > tokens * 4:
        text = text[:-1]
    return text


def naive_drop(each: dict[str, Any], reason: str) -> dict[str, Any]:
    """Return a memory as the list of the dropped shows it."""
    return {
        "memory_id": each["memory_id"],
        "record_hash": each["record_hash"],
        "store_path": each["store_path"],
        "reason": reason,
    }
