"""Notes that others wrote in Markdown, as records: MEMORY.md and the files of days.

    MEMORY.md        each bullet and each paragraph is a record of long_term: a preference under a
                     heading, or in a file, that says so, a fact otherwise
    2026-03-20.md    is one record of daily_log, each bullet and each paragraph an entry; its id is
                     the name of the file

A fact's id comes from its text, so the same fact is the same record wherever it stands. Headings
are tags of facts and members of entries; the title of a page is neither.
"""

import re
from datetime import date

from msgspec import Struct

from rote.bridges.batches import Incoming
from rote.bridges.blocks import Block, front_matter_lines, read_blocks
from rote.bridges.daily_logs import NAMESPACE as DAILY_LOG
from rote.bridges.daily_logs import timed
from rote.bridges.pages import Page
from rote.bridges.validator import Problem
from rote.records.envelope import envelope
from rote.values import Json, sha256_hex
from rote.values.limits import MARKDOWN_BLOCKS_MAX

LONG_TERM = "long_term"
FACT, PREFERENCE, NOTE = "fact", "preference", "note"
# The producer, as the memory contract calls it.
SOURCE = "import.markdown"
_WORDS_CHARACTERS_MAX = 40
_DIGEST_CHARACTERS = 16

_says_preference = re.compile(r"\bpreferences?\b", re.IGNORECASE).search
_day = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[-_ ].*)?", re.DOTALL).fullmatch


class Notes(Struct, frozen=True):
    """The records of a page."""

    records: list[Incoming]
    warnings: list[Problem]  # about text that was left out
    facts_of: str | None = None  # the name of the file, when its records are facts


def is_memory(page: Page) -> bool:
    return page.stem.casefold() == "memory"


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


def facts_of(page: Page) -> Notes:
    """The facts and preferences of a page."""
    blocks, warnings = _read(page)
    return Notes([_fact(page, block) for block in blocks], warnings, page.name)


def log_of(page: Page, day: str) -> Notes:
    """The daily log of a page that is named after a day."""
    blocks, warnings = _read(page)
    record = envelope(
        (DAILY_LOG, NOTE, page.stem),
        {"entries": [_entry(block) for block in blocks]},
        ttl_seconds=None,
        metadata={"source": SOURCE, "valid_at": f"{day}T00:00:00Z"},
    )
    return Notes([Incoming(page.place(1), record, timeless=True)], warnings)


def _read(page: Page) -> tuple[list[Block], list[Problem]]:
    warnings = []
    if front_matter_lines(page):
        warnings.append(Problem("warning", page.place(1), "front matter is left out"))
    blocks = []
    for block in read_blocks(page):
        if block.is_comment:
            warnings.append(Problem("warning", page.place(block.line), "a comment is left out"))
        else:
            blocks.append(block)
        if len(blocks) + len(warnings) > MARKDOWN_BLOCKS_MAX:
            raise page.fault(
                block.line, f"more than {MARKDOWN_BLOCKS_MAX:,} notes in one file; split it"
            )
    return blocks, warnings


def _fact(page: Page, block: Block) -> Incoming:
    says_so = any(map(_says_preference, (page.stem, block.title, *block.headings)))
    metadata: dict[str, Json] = {"source": SOURCE, "file": page.name}
    if block.headings:
        metadata["tags"] = list(dict.fromkeys(block.headings))
    record = envelope(
        (LONG_TERM, PREFERENCE if says_so else FACT, _fact_id(block.text)),
        {"text": block.text},
        ttl_seconds=None,
        metadata=metadata,
    )
    return Incoming(page.place(block.line), record, timeless=True)


def _fact_id(text: str) -> str:
    """Return the first words of a fact with a digest, so that no two texts share an id."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower())[:_WORDS_CHARACTERS_MAX].strip("-")
    digest = sha256_hex(text.encode())[:_DIGEST_CHARACTERS]
    return f"{words}-{digest}" if words else digest


def _entry(block: Block) -> dict[str, Json]:
    members, text = timed(block.text)
    entry: dict[str, Json] = {**members, "text": text}
    if block.headings:
        entry["headings"] = list(block.headings)
    return entry
