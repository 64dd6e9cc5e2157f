"""Notes that others wrote in Markdown, as records: MEMORY.md, the files of days, and topic pages.

    MEMORY.md        each bullet and each paragraph is a record of long_term: a preference under a
                     heading, or in a file, that says so, a fact otherwise
    2026-03-20.md    is one record of daily_log, each bullet and each paragraph an entry; its id is
                     the name of the file
    topics/tea.md    is one record of long_term, its text the page; its id is the path without .md

A fact's id comes from its text, so the same fact is the same record wherever it stands. Headings
are tags of facts and members of entries, and the title of a page is in the metadata. Front matter
says otherwise where it names a namespace, a kind, an id or metadata (front_matter.py).

Each line of a page is in a record, or a warning names it.
"""

import re
from datetime import date

from msgspec import Struct

from rote.bridges.batches import Incoming
from rote.bridges.blocks import Block, read_blocks
from rote.bridges.daily_logs import NAMESPACE as DAILY_LOG
from rote.bridges.daily_logs import odd_times, timed
from rote.bridges.front_matter import FrontMatter
from rote.bridges.pages import Page
from rote.bridges.validator import Problem
from rote.errors import LimitExceeded
from rote.records.envelope import Envelope, envelope
from rote.records.keys import entity_id
from rote.values import Json, sha256_hex
from rote.values.limits import MARKDOWN_BLOCKS_MAX

LONG_TERM = "long_term"
FACT, PREFERENCE, NOTE = "fact", "preference", "note"
# The producer, as the memory contract calls it.
SOURCE = "import.markdown"
_WORDS_CHARACTERS_MAX = 40
_DIGEST_CHARACTERS = 16

_says_preference = re.compile(r"(?<![a-z])preferences?(?![a-z])", re.IGNORECASE).search
_day = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[-_ ].*)?", re.DOTALL).fullmatch
# Characters of file names; most of them no id of a record may hold.
_blanks = re.compile(r"[\s\x7f-\x9f]+")


class Notes(Struct, frozen=True):
    """The records of a page."""

    records: list[Incoming]
    warnings: list[Problem]  # about text that was left out
    facts_of: str | None = None  # the name of the file, when its records are facts


def notes_of(page: Page, front: FrontMatter, *, alone: bool) -> Notes:
    """The records of a page that is no export; `alone` when it is not one of a folder."""
    day = day_in(page.stem)
    if (front.namespace or (DAILY_LOG if day else LONG_TERM)) == DAILY_LOG:
        return _log_of(page, front, day)
    is_memory = page.stem.casefold() == "memory"
    if front.names_record or not (alone or is_memory):
        return _topic_of(page, front)
    return _facts_of(page, front)


def day_in(name: str) -> str | None:
    """Return the day in the name of a file, such as 2026-03-20-teapots.md; None without one."""
    match = _day(name)
    if match is None:
        return None
    try:
        date.fromisoformat(match[1])
    except ValueError:
        return None
    return match[1]


# -- one record for each bullet and paragraph ------------------------------------------------------


def _facts_of(page: Page, front: FrontMatter) -> Notes:
    """The facts and preferences of a page."""
    blocks, warnings = _read(page, front)
    for member in front.others:
        words = f"{member.name} is about the page, and says nothing of its facts; it is left out"
        warnings.append(Problem("warning", page.place(member.line, member.last), words))
    facts: dict[tuple[str, str], Incoming] = {}
    tags: dict[tuple[str, str], dict[str, None]] = {}
    for block in blocks:
        fact = _fact(page, front, block)
        key = fact.record["record_kind"], fact.record["record_id"]
        facts.setdefault(key, fact)  # one that stands there again only adds its headings
        tags.setdefault(key, {}).update(dict.fromkeys(block.headings))
    for key, headings in tags.items():
        if headings:
            metadata = facts[key].record["metadata"]
            metadata["tags"] = list(dict.fromkeys([*metadata.get("tags", ()), *headings]))
    if not facts:
        warnings.append(_textless(page, front))
    return Notes(list(facts.values()), warnings, page.name)


def _fact(page: Page, front: FrontMatter, block: Block) -> Incoming:
    says_so = any(map(_says_preference, (page.stem, block.title, *block.headings)))
    key = (
        front.namespace or LONG_TERM,
        front.kind or (PREFERENCE if says_so else FACT),
        _digest_id(block.text),
    )
    metadata = _metadata(page, front, title=block.title)
    record = envelope(key, {"text": block.text}, ttl_seconds=None, metadata=metadata)
    return _incoming(page, block.line, front, record)


# -- one record for the page -----------------------------------------------------------------------


def _log_of(page: Page, front: FrontMatter, day: str | None) -> Notes:
    """The daily log of a page that is named after a day, or says that it is a daily log."""
    blocks, warnings = _read(page, front)
    title = next((block.title for block in blocks if block.title), "")
    metadata = _page_metadata(page, front, title=title)
    if day is not None:
        metadata.setdefault("valid_at", f"{day}T00:00:00Z")
    entries: list[Json] = [
        _entry(block, time="ts" if front.is_of_ainl else "at") for block in blocks
    ]
    record = envelope(
        (DAILY_LOG, front.kind or NOTE, front.id or page.stem),
        {"entries": entries, **front.preference},
        ttl_seconds=None,
        metadata=metadata,
    )
    return Notes([_incoming(page, 1, front, record)], warnings + odd_times(page))


def _entry(block: Block, *, time: str) -> dict[str, Json]:
    members, text = timed(block.text, name=time)
    entry: dict[str, Json] = {**members, "text": text}
    if block.headings:
        entry["headings"] = list(block.headings)
    return entry


def _topic_of(page: Page, front: FrontMatter) -> Notes:
    """The fact or preference that a page is as a whole."""
    text = "\n".join(page.lines[front.size :]).strip()
    payload = {**({"text": text} if text else {}), **front.preference}
    if not payload:
        return Notes([], [*front.warnings, _textless(page, front)])
    heading = text.partition("\n")[0] if text.startswith("#") else ""
    says_so = "key" in payload or any(map(_says_preference, (page.name, heading)))
    key = (
        front.namespace or LONG_TERM,
        front.kind or (PREFERENCE if says_so else FACT),
        front.id or _path_id(page),
    )
    record = envelope(key, payload, ttl_seconds=None, metadata=_page_metadata(page, front))
    return Notes([_incoming(page, 1, front, record)], list(front.warnings))


def _path_id(page: Page) -> str:
    """Return the path of a page without its ending, as an id."""
    path = _blanks.sub(" ", page.path)
    try:
        entity_id(LONG_TERM, FACT, path)
    except LimitExceeded:
        return _digest_id(path)
    return path


# -- what they share -------------------------------------------------------------------------------


def _read(page: Page, front: FrontMatter) -> tuple[list[Block], list[Problem]]:
    """Return the blocks of a page, and a warning for everything else in it."""
    warnings = list(front.warnings)
    blocks: list[Block] = []
    textless: list[int] = []
    for block in read_blocks(page, front.size):
        if not block.text:
            textless += range(block.line, block.last + 1)
        elif block.is_comment:
            place = page.place(block.line, block.last)
            warnings.append(Problem("warning", place, "a comment is left out"))
        else:
            blocks.append(block)
        if len(blocks) + len(warnings) + len(textless) > MARKDOWN_BLOCKS_MAX:
            raise page.fault(
                block.line, f"more than {MARKDOWN_BLOCKS_MAX:,} notes in one file; split it"
            )
    if textless:
        words = f"lines without text are left out: {', '.join(map(str, textless))}"
        warnings.append(Problem("warning", page.place(textless[0]), words))
    return blocks, warnings


def _textless(page: Page, front: FrontMatter) -> Problem:
    """Return the warning for a page without any record."""
    return Problem("warning", page.place(1, front.size), "there is no text in it; it is left out")


def _metadata(page: Page, front: FrontMatter, *, title: str = "") -> dict[str, Json]:
    """Return the metadata of a record, as far as its page gives it."""
    metadata: dict[str, Json] = {"source": SOURCE, "file": page.name}
    if title:
        metadata["title"] = title
    return {**metadata, **front.metadata}


def _page_metadata(page: Page, front: FrontMatter, *, title: str = "") -> dict[str, Json]:
    """Return the metadata of a page that is one record; it keeps all of the front matter."""
    metadata = _metadata(page, front, title=title)
    if front.others:
        metadata["front_matter"] = {member.name: member.text for member in front.others}
    return metadata


def _incoming(page: Page, line: int, front: FrontMatter, record: Envelope) -> Incoming:
    record.update(front.carried)
    return Incoming(page.place(line), record, timeless=True, whole=front.size > 0)


def _digest_id(text: str) -> str:
    """Return the first words of a text with a digest, so that no two texts share an id."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower())[:_WORDS_CHARACTERS_MAX].strip("-")
    digest = sha256_hex(text.encode())[:_DIGEST_CHARACTERS]
    return f"{words}-{digest}" if words else digest
